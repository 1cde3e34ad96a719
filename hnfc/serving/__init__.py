"""A local page for rules, FPCore programs and models: `hnfc serve`."""
