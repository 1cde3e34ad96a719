"""Record of a run of the rewriter, near misses included: plain data for reports."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from xdsl.ir import Operation, SSAValue

from hnfc.dialects.num import OPERATIONS
from hnfc.dsl import core

_SOFTMAX = OPERATIONS["softmax"]
_OF_ROWS = (_SOFTMAX, OPERATIONS["log_softmax"])


@dataclass(frozen=True)
class Rewrite:
    """One application of a rule: `before` was the value of the root, `after` took its place."""

    rule: core.Rule
    place: str
    before: SSAValue
    after: SSAValue
    given: str = ""
    made: tuple[Operation, ...] = ()
    """The operations that were made for it."""
    backwards: bool = False
    """True if the rule was read from right to left."""


@dataclass(frozen=True)
class NearMiss:
    """A place where a rule fitted but did not run, and the condition that kept it from running."""

    rule: core.Rule
    place: str
    reason: str


@dataclass
class Statistics:
    """Counts of a rule: tried where root and parts have its kinds, fitted, ran, and was kept from running; by what, and
    the seconds that all of it took."""

    tried: int = 0
    matched: int = 0
    applied: int = 0
    blocked: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0

    def data(self) -> dict[str, Any]:
        """For JSON. Seconds differ from run to run."""
        counts = {"tried": self.tried, "matched": self.matched, "applied": self.applied, "blocked": self.blocked.total()}
        return {**counts, "blocked_by": dict(self.blocked), "seconds": round(self.seconds, 6)}


@dataclass
class RewriteOutcome:
    """The rewrites in order, the near misses, and `replaced`: every value that is gone and what stands in its place."""

    rewrites: list[Rewrite] = field(default_factory=list)
    near_misses: list[NearMiss] = field(default_factory=list)
    replaced: dict[SSAValue, SSAValue] = field(default_factory=dict)
    statistics: dict[str, Statistics] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def whole_rows(self) -> set[Operation]:
        """The softmaxes that rules made of one of torch's own, in which +inf makes the whole row NaN; in the quotient e^x/Σe^x it makes
        the others 0."""
        whole, quotients = set[Operation](), set[Operation]()
        for rewrite in self.rewrites:
            pattern = rewrite.rule.replacement if rewrite.backwards else rewrite.rule.pattern
            own = any(isinstance(node, core.Apply) and node.operation in _OF_ROWS for node in core.walk(pattern))
            if isinstance(pattern, core.Apply) and isinstance(pattern.operands[0], core.Capture) and rewrite.before.owner in quotients:
                own = False
            (whole if own else quotients).update(operation for operation in rewrite.made if isinstance(operation, _SOFTMAX))
        return whole

    def final(self, value: SSAValue) -> SSAValue:
        """Replacement of the value."""
        while value in self.replaced:
            value = self.replaced[value]
        return value
