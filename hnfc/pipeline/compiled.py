"""The rewritten model and the record of its rewrites and errors."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch_mlir import ir
from xdsl.ir import Operation, SSAValue

from hnfc.backend.torch_mlir import export
from hnfc.dsl import core
from hnfc.frontend.torch_mlir import Imported
from hnfc.pipeline.graphs import Drawing
from hnfc.pipeline.request import Found
from hnfc.rewrite.record import NearMiss, Statistics
from hnfc.validation.differential import Trial
from hnfc.validation.measurement import Error


@dataclass
class Applied:
    """One rewrite as the report shows it: the errors are those of the value at its place, before and after everything."""

    rule: core.Rule
    place: str
    given: str
    before: Error | None = None
    after: Error | None = None
    unit_roundoff: float = 0.0
    backwards: bool = False
    """True if the rule was read from right to left."""

    @property
    def worse(self) -> bool:
        return is_worse(self)


@dataclass
class Output:
    """The error of one result of the model, before and after. rules: those that changed something which it is made of."""

    name: str
    unit_roundoff: float
    before: Error | None
    after: Error | None
    rules: frozenset[str] = frozenset()
    as_rounded_inputs: bool = False
    """True if its error is one of `Trial.is_rounding_of_inputs`."""

    @property
    def worse(self) -> bool:
        return is_worse(self) and not self.as_rounded_inputs


def is_worse(change: Applied | Output) -> bool:
    before, after = change.before, change.after
    return before is not None and after is not None and after.worse_than(before, change.unit_roundoff)


@dataclass
class Compiled:
    """The rewritten model, and what is worth saying about how it came about."""

    imported: Imported
    replaced: dict[SSAValue, SSAValue] = field(default_factory=dict)
    applied: list[Applied] = field(default_factory=list)
    near_misses: list[NearMiss] = field(default_factory=list)
    statistics: dict[str, Statistics] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    opaque: dict[str, int] = field(default_factory=dict)
    operations: int = 0
    samples: int = 0
    unmeasured: str = ""
    """Reason why errors were not measured, with a way out; empty where they were."""
    observed: bool = False
    """True if the ranges that conditions were shown from are those of samples, not declared ones."""
    reference: str = "none"
    outputs: list[Output] = field(default_factory=list)
    rolled_back: list[str] = field(default_factory=list)
    regressions: list[tuple[int, str]] = field(default_factory=list)
    """Outputs that are worse on an input beyond the samples, and how."""
    withdrawn: list[str] = field(default_factory=list)
    """Reasons why rules or a search were undone."""
    found: Found = field(default_factory=Found)
    runner: str = ""
    """Name of the runner that output errors were measured on; empty for hnfc's own evaluation."""
    trials: list[Trial] = field(default_factory=list)
    mended_gradients: int = 0
    """Places whose gradient no longer multiplies 0 by infinity (see `backend.gradients`)."""
    ignores_unused: bool = False
    """True if each cotangent of 0 ends at an infinite derivative, also outside of branches."""
    drawings: list[Drawing] = field(default_factory=list)
    """Each function before and after, where the request is for a report with graphs."""
    whole_rows: set[Operation] = field(default_factory=set)
    """See `RewriteOutcome.whole_rows`."""
    _exported: bool = False

    def export(self, native: bool = False) -> ir.Module:
        """The torch module with the changes in it; the one that was read, byte by byte, where there are none.

        native: for `raise_function` alone, with functions of torch that are differentiated accurately.
        """
        if not self._exported:
            export(self.imported, self.replaced, native, self.whole_rows)
            self._exported = True
        return self.imported.torch
