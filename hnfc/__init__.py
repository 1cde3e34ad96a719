"""hnfc: a compiler for numerics."""

from __future__ import annotations

import sys
import warnings
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hnfc.pipeline.rulesets import load_rules as load_rules
    from hnfc.precision.optimizer import PrecisionOptimizer as PrecisionOptimizer
    from hnfc.pytorch.analyses import analyze as analyze
    from hnfc.pytorch.annotating import annotate as annotate
    from hnfc.pytorch.differences import diff as diff
    from hnfc.pytorch.rewriter import GraphRewriter as GraphRewriter
    from hnfc.pytorch.rewriter import optimize as optimize
    from hnfc.rewrite.greedy import RulePattern as RulePattern
    from hnfc.tracing import trace as trace
    from hnfc.watching import replay as replay
    from hnfc.watching import watch as watch

_HOMES = {
    "analyze": "hnfc.pytorch.analyses",
    "annotate": "hnfc.pytorch.annotating",
    "optimize": "hnfc.pytorch.rewriter",
    "GraphRewriter": "hnfc.pytorch.rewriter",
    "RulePattern": "hnfc.rewrite.greedy",
    "load_rules": "hnfc.pipeline.rulesets",
    "diff": "hnfc.pytorch.differences",
    "trace": "hnfc.tracing",
    "watch": "hnfc.watching",
    "replay": "hnfc.watching",
    "PrecisionOptimizer": "hnfc.precision.optimizer",
}
"""Public names of `hnfc`, and the modules that hold them: the command line on a `.mlir` file must not wait for torch."""
_OWN = ("Any", "TYPE_CHECKING", "annotations", "import_module", "sys", "warnings")
"""Names of this file that are no part of the package."""

# torch's copies of its own argument specifications warn of themselves: in every capture, and when a user pickles a module (torch 2.13)
warnings.filterwarnings("ignore", r"`isinstance\(treespec, LeafSpec\)` is deprecated", FutureWarning)


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    # with both Python itself says what was probably meant
    raise AttributeError(f"module 'hnfc' has no attribute {name!r}", name=name, obj=sys.modules[__name__])


def __dir__() -> list[str]:
    """The public names and the parts that are loaded, for completion."""
    return sorted({*_HOMES, *(name for name in globals() if name not in _OWN)})
