"""Precision: number formats by name, rounding to them, policies of which format is for what, and formats for the values of a model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hnfc.dialects.formats import Block, Fixed, Float, Format, Overflow, Rounding, Specials, finite_values, maximal, minimal
from hnfc.formats.named import UnknownFormat, format_named, known_formats, load_formats
from hnfc.formats.rounding import round_to
from hnfc.precision.policy import Policy, SemanticDType, as_format, cast_floating, current_policy, get_policy, use_policy

if TYPE_CHECKING:
    import torch

    from hnfc.precision.optimizer import PrecisionAnalysis
    from hnfc.precision.optimizer import PrecisionOptimizer as PrecisionOptimizer


def apply(analysis: PrecisionAnalysis) -> torch.nn.Module:
    """The analyzed model in mixed precision: see `PrecisionAnalysis.apply`."""
    return analysis.apply()


def __getattr__(name: str) -> Any:
    # importing hnfc.precision must not load torch
    if name == "PrecisionOptimizer":
        from hnfc.precision.optimizer import PrecisionOptimizer

        return PrecisionOptimizer
    raise AttributeError(f"module 'hnfc.precision' has no attribute {name!r}")


__all__ = [
    "Block", "Fixed", "Float", "Format", "Overflow", "Policy", "PrecisionOptimizer", "Rounding", "SemanticDType", "Specials",
    "UnknownFormat", "apply", "as_format", "cast_floating", "current_policy", "finite_values", "format_named", "get_policy",
    "known_formats", "load_formats", "maximal", "minimal", "round_to", "use_policy",
]  # fmt: skip
