"""Tolerated loss of a result by a rewrite; beyond it the rewrite is taken back."""

TOLERATED_GROWTH = 4.0
TOLERATED_ULPS = 8.0
TOLERATED_GROWTH_WITHOUT_DIGITS = 16.0
"""Growth where no digit was right before."""
TOLERANCE = (
    f"an error that is at most {TOLERATED_GROWTH:g} times as large as before ({TOLERATED_GROWTH_WITHOUT_DIGITS:g} times where no digit was "
    f"right), or at most {TOLERATED_ULPS:g} units in the last place"
)
"""The same in words."""
