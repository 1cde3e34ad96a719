"""Precision: number formats by name, rounding to them, and policies of which format is for what."""

from hnfc.precision.formats import format_named, load_formats
from hnfc.precision.rounding import round_to

__all__ = ["format_named", "load_formats", "round_to"]
