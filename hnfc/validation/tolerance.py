"""Tolerated loss of a result by a rewrite; beyond it the rewrite is taken back."""

TOLERATED_GROWTH = 4.0
TOLERATED_ULPS = 8.0
TOLERANCE = f"an error that is at most {TOLERATED_GROWTH:g} times as large as before, or at most {TOLERATED_ULPS:g} units in the last place"
"""The same in words."""
GROWTH_WITHOUT_DIGITS = 16.0
"""Tolerated growth where no digit was right before, on probes alone."""
NEGLIGIBLE = 2.0**-48
"""Error of a number where before there was none, or none of its digits was right, that is taken for rounding beside 1."""
