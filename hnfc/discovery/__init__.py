"""Rules found by machine: terms over chosen operations are enumerated, grouped by their values, and proved equal."""
