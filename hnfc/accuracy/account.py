"""Account of an improved program: its proved steps, the conditions that were only seen to hold, and the error of a series."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hnfc.accuracy.branches import branch_ranges, taken
from hnfc.accuracy.evaluation import TermEvaluator
from hnfc.accuracy.improving import Branch, Improved, ImprovedProgram
from hnfc.accuracy.points import Sample
from hnfc.accuracy.reading import expression, inline
from hnfc.accuracy.reference import holds
from hnfc.accuracy.regimes import Bound
from hnfc.accuracy.remainder import NoBound, Remainder, bound
from hnfc.accuracy.rules import EXACT, RuleUse
from hnfc.accuracy.terms import Term, is_const, variables
from hnfc.accuracy.truncation import Truncated
from hnfc.dialects.interval import Interval
from hnfc.dialects.num import OPERATIONS


@dataclass(frozen=True)
class Use:
    """One use of a rule. The rule is proved over the reals under its `where`; shown: whether that is known to hold wherever the form is
    used; else it was seen to hold at `seen` of `points` points, by exact arithmetic."""

    step: RuleUse
    shown: bool
    seen: int = 0
    points: int = 0

    @property
    def text(self) -> str:
        if self.step.name in EXACT:
            return EXACT[self.step.name]
        if self.step.condition is None or not variables(self.step.condition):
            return "proved over the reals"
        condition = inline(self.step.condition)
        if self.shown:
            return f"proved over the reals: {condition} holds wherever it is used"
        return f"measured: proved where {condition}, which holds at {self.seen} of {self.points} points"


@dataclass(frozen=True)
class SeriesUse:
    cut: Truncated
    remainder: Remainder | None
    reason: str
    points: int

    @property
    def text(self) -> str:
        kept = f"{self.cut.count} term{'s' * (self.cut.count > 1)}"
        if self.remainder is None:
            return f"{kept} at {self.cut.place}: measured on {self.points} points, no bound ({self.reason})"
        name = self.cut.place.variable.value
        where = f"{self.remainder.lo:.4g} ≤ {name} ≤ {self.remainder.hi:.4g}"
        return f"{kept} at {self.cut.place}: what is left off is at most {self.remainder.relative:.2g} of the value for {where}"


@dataclass(frozen=True)
class BranchAccount:
    branch: Branch
    points: int
    uses: tuple[Use, ...]
    series: SeriesUse | None

    @property
    def where(self) -> str:
        return " and ".join(map(_bound_text, self.branch.conditions)) or "everywhere"

    def data(self) -> dict[str, Any]:
        rules = [
            {"rule": u.step.name, "proved": u.step.condition is None or u.shown, "verdict": u.text,
             "before": expression(u.step.before), "after": expression(u.step.after)} for u in self.uses
        ]  # fmt: skip
        series = None
        if self.series is not None:
            rest = self.series.remainder
            series = {"place": str(self.series.cut.place), "terms": self.series.cut.count, "verdict": self.series.text,
                      "relative_bound": None if rest is None else rest.relative}  # fmt: skip
        return {"where": self.where, "form": expression(self.branch.form.term), "points": self.points, "rules": rules, "series": series}


@dataclass
class ProgramResult:
    """A program of a file, in its order: what was found, or in `problem` why nothing was."""

    name: str
    text: str
    problem: str = ""
    improved: ImprovedProgram | None = None
    branches: Sequence[BranchAccount] = field(default_factory=list)


def account(improved: Improved) -> list[BranchAccount]:
    """Claims on each branch. Conditions are evaluated on the points of the test sample."""
    evaluator = TermEvaluator(improved.test.inputs)
    found = []
    for branch in improved.branches:
        here = taken(evaluator, branch.conditions, len(improved.test))
        used = here if branch.form.guard is None else here & evaluator.truth(branch.form.guard)
        sample = improved.test.part(used)
        ranges = branch_ranges(improved.domain, branch.conditions)
        uses = tuple(_use(step, ranges, branch.conditions, sample) for step in branch.form.steps)
        cut = branch.form.origin
        series = _series(improved, cut, ranges, len(sample)) if cut is not None else None
        found.append(BranchAccount(branch, int(here.sum()), uses, series))
    return found


def _use(step: RuleUse, ranges: dict[str, Interval], bounds: tuple[Bound, ...], sample: Sample) -> Use:
    if step.condition is None or known(step.condition, ranges) or any(_is(step.condition, bound) for bound in bounds):
        return Use(step, True)
    seen = int(holds(step.condition, sample.inputs).sum()) if len(sample) else 0
    return Use(step, False, seen, len(sample))


def _is(condition: Term, bound: Bound) -> bool:
    """Return whether the condition is that of the branch: of a feature that no rounding changes, an argument or x/|x|·y of two.

    Where x is 0, x/|x| is NaN, and the condition fails: the other branch, where ≥ stands for x·y ≥ 0, which then holds.
    """
    if condition.op != "compare" or condition.args[0] is not bound.feature or not is_const(condition.args[1], 0):
        return False
    feature = bound.feature
    if feature.op == "mul":
        parts = [a.args[0] for a in feature.args if a.op == "div" and a.args[1].op == "abs" and a.args[1].args[0] is a.args[0]]
        if len(parts) != 1 or any(a.op not in ("var", "div") for a in (*feature.args, *(p for p in parts if p.op != "var"))):
            return False
    elif feature.op != "var":
        return False
    below = bound.hi <= 0
    return bool({"lt": below, "le": below, "ge": bound.lo >= 0, "gt": bound.lo > 0}.get(str(condition.value), False))


def known(condition: Term, ranges: dict[str, Interval]) -> bool:
    """Return whether intervals show the condition."""
    if condition.op == "logical_and":
        return all(known(a, ranges) for a in condition.args)
    if condition.op == "logical_or":
        return any(known(a, ranges) for a in condition.args)
    if condition.op != "compare":
        return False
    x, y = (interval(a, ranges) for a in condition.args)
    if x.nan or y.nan:
        return False
    return {"lt": x.hi < y.lo, "le": x.hi <= y.lo, "gt": x.lo > y.hi, "ge": x.lo >= y.hi, "ne": x.hi < y.lo or x.lo > y.hi}.get(
        str(condition.value), False
    )


def interval(term: Term, ranges: dict[str, Interval]) -> Interval:
    """An interval that holds every value of the term."""
    if term.op == "var":
        return ranges[term.value]
    if term.op == "const":
        return Interval.point(term.value)
    if term.op in ("compare", "where") or term.op.startswith("logical"):
        return Interval(-np.inf, np.inf, True)
    if term.op == "mul" and term.args[0] is term.args[1]:
        return OPERATIONS["square"].FACTS.range(interval(term.args[0], ranges))  # type: ignore[no-any-return]
    return OPERATIONS[term.op].FACTS.range(*(interval(a, ranges) for a in term.args))  # type: ignore[no-any-return]


def _series(improved: Improved, cut: Truncated, ranges: dict[str, Interval], points: int) -> SeriesUse:
    if len(improved.domain.names) > 1:
        return SeriesUse(cut, None, "its coefficients hold other arguments", points)
    where = ranges[cut.place.variable.value]
    try:
        return SeriesUse(cut, bound(improved.original, cut, where.lo, where.hi), "", points)
    except NoBound as reason:
        return SeriesUse(cut, None, str(reason), points)


def _bound_text(bound: Bound) -> str:
    feature = inline(bound.feature)
    if bound.lo == -np.inf:
        return f"{feature} < {bound.hi:g}"
    return f"{feature} >= {bound.lo:g}" if bound.hi == np.inf else f"{bound.lo:g} <= {feature} < {bound.hi:g}"
