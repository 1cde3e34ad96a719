"""Knowledge of the passes about one function beyond its operations."""

from __future__ import annotations

from dataclasses import dataclass, field

from xdsl.ir import Operation, SSAValue

from hnfc.core.samples import Array
from hnfc.dialects.interval import Interval
from hnfc.egraph.explorer import Explorer
from hnfc.pipeline.graphs import Drawing
from hnfc.rewrite.record import RewriteOutcome
from hnfc.validation.measurement import Original


@dataclass
class FunctionState:
    """Ranges, samples and the record of rewrites of a function. Without `observe` there are no ranges and no samples."""

    title: str = ""
    """The operation whose body the function is: a branch or a loop; empty for a function of the model."""
    intervals: dict[SSAValue, Interval] = field(default_factory=dict)
    inputs: list[dict[SSAValue, Array]] = field(default_factory=list)
    """Samples as they were given or drawn."""
    samples: list[dict[SSAValue, Array]] = field(default_factory=list)
    """Inputs that are affordable, on which conditions are tried and errors measured."""
    original: Original | None = None
    """The function before any rewrite, if it is compared."""
    outputs: list[SSAValue] = field(default_factory=list)
    """The values that it returned before any rewrite."""
    drawing: Drawing | None = None
    """The function before any rewrite, for a report."""
    outcome: RewriteOutcome = field(default_factory=RewriteOutcome)
    origins: dict[Operation, Operation] = field(default_factory=dict)
    """For an operation that a pass made: the one in whose place it stands."""
    canonicalized: set[Operation] = field(default_factory=set)
    """Operations that canonicalization made."""
    explorer: Explorer | None = None
    """The search that began before the rewrites."""
