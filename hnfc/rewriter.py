"""Public names for models in memory: `load_rules` finds and proves rules, `GraphRewriter` runs them on PyTorch modules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hnfc.pipeline.levels import LEVELS
from hnfc.pipeline.rulesets import RuleSet, load_rules

if TYPE_CHECKING:
    from hnfc.pytorch.rewriter import GraphRewriter, optimize

_ON_TORCH = ("GraphRewriter", "optimize")


def __getattr__(name: str) -> Any:
    # rules can be loaded without torch
    if name in _ON_TORCH:
        from hnfc.pytorch import rewriter

        return getattr(rewriter, name)
    raise AttributeError(f"module 'hnfc.rewriter' has no attribute {name!r}")


__all__ = ["LEVELS", "GraphRewriter", "RuleSet", "load_rules", "optimize"]
