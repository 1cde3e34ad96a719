"""Precision: number formats by name, rounding to them, and policies of which format is for what."""

from hnfc.dialects.formats import Block, Fixed, Float, Format, Overflow, Rounding, Specials, finite_values, maximal, minimal
from hnfc.precision.casting import cast_floating
from hnfc.precision.formats import UnknownFormat, format_named, known_formats, load_formats
from hnfc.precision.policy import Policy, SemanticDType, as_format, current_policy, get_policy, use_policy
from hnfc.precision.rounding import round_to

__all__ = [
    "Block", "Fixed", "Float", "Format", "Overflow", "Policy", "Rounding", "SemanticDType", "Specials", "UnknownFormat", "as_format",
    "cast_floating", "current_policy", "finite_values", "format_named", "get_policy", "known_formats", "load_formats", "maximal",
    "minimal", "round_to", "use_policy",
]  # fmt: skip
