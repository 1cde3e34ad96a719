"""Number formats: what their values are, how a number is rounded to one, and which of them holds all values of another."""

from hnfc.dialects.formats.arrays import NUMPY, Arrays
from hnfc.dialects.formats.inclusion import includes, maximal, minimal
from hnfc.dialects.formats.kinds import Block, Fixed, Float, Format, Overflow, Specials, ieee_bias
from hnfc.dialects.formats.rounding import Rounding, rounded
from hnfc.dialects.formats.values import finite_values

__all__ = [
    "NUMPY", "Arrays", "Block", "Fixed", "Float", "Format", "Overflow", "Rounding", "Specials",
    "finite_values", "ieee_bias", "includes", "maximal", "minimal", "rounded",
]  # fmt: skip
