"""Number formats by name, formats with a scale, and rounding to them."""
