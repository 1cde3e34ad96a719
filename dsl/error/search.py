"""Search for points where one error formula is larger than the other: in float64, with examples that ball arithmetic confirms."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from flint import arb

from hnfc.dialects.facts import NoFormula
from hnfc.dsl.core import Condition, Expr, Rule
from hnfc.dsl.error.floating import Array, CannotRun, evaluate
from hnfc.dsl.error.points import Points, meeting, points
from hnfc.dsl.error.side import RuleContext
from hnfc.dsl.soundness import balls
from hnfc.dsl.soundness.outcome import ERRORS, holds
from hnfc.dsl.soundness.sampling import Point, Sampler
from hnfc.dsl.soundness.scan import arithmetic_axes, convolution_ranks, order_captures
from hnfc.dsl.soundness.verdict import Tensor

MARGIN = 1e-9
"""Formulas closer than this, relative to each other, count as equal: they are computed in float64."""
TRIES = 6
LONGEST = 700
"""Greatest length of an example."""
MOVED = 120


@dataclass
class DrawComparison:
    """The points of one draw: which rows meet the conditions, and where the right formula is larger or smaller than the left."""

    points: Points
    valid: Array
    worse: Array
    better: Array
    ratio: Array


@dataclass
class SearchResult:
    """Findings of the search. `worst`: the largest right/left. `comparisons`: everything, for the test of conditions."""

    comparisons: list[DrawComparison] = field(default_factory=list)
    compared: int = 0
    worst: float = 1.0

    @property
    def worse(self) -> bool:
        return any(c.worse.any() for c in self.comparisons)

    @property
    def better(self) -> bool:
        return any(c.better.any() for c in self.comparisons)

    def meeting(self, condition: Condition) -> tuple[int, int]:
        """Number of rows that meet the condition, and of those on which the right side is worse."""
        met = against = 0
        for c in self.comparisons:
            try:
                rows = meeting(condition, c.points) & c.valid
            except CannotRun:
                continue  # shapes that the condition does not compare
            met += int(rows.sum())
            against += int((rows & c.worse).sum())
        return met, against


def search(rule: Rule, context: RuleContext, left: Expr, right: Expr) -> SearchResult:
    """Compares two formulas for errors of the rule's sides. Raises CannotRun where they cannot be computed."""
    found = SearchResult()
    for sample in samples(rule, context):
        try:
            valid = meeting(rule.where, sample)
            values = [evaluate(e, sample.inputs, sample.axes) for e in (rule.pattern, left, right)]
        except CannotRun:
            if not sample.batched:
                continue  # shapes that do not fit each other
            raise
        rows = len(valid)
        if sample.batched:
            values = [v if v.ndim else np.broadcast_to(v, (rows,)) for v in values]
        try:
            value, l, r = np.broadcast_arrays(*values)
        except ValueError:
            continue  # sides of different shapes
        if sample.batched and value.shape[0] != rows:
            value, l, r = (np.broadcast_to(v, (rows, *v.shape[1:])) for v in (value, l, r))
        value, l, r = (v.reshape(rows, -1) for v in (value, l, r))
        with np.errstate(all="ignore"):
            defined = np.isfinite(value) & np.isfinite(l) & np.isfinite(r)
            worse, better = defined & (r > l * (1 + MARGIN)), defined & (r < l * (1 - MARGIN))
            ratio = np.where(worse, np.where(l > 0, r / np.where(l > 0, l, 1), np.inf), 1.0).max(axis=1, initial=1.0)
        comparison = DrawComparison(
            sample, valid & defined.any(axis=1), worse.any(axis=1) & valid, better.any(axis=1) & valid, np.where(valid, ratio, 1.0)
        )
        found.comparisons.append(comparison)
        found.compared += int(comparison.valid.sum())
        found.worst = max(found.worst, float(comparison.ratio.max(initial=1.0)))
    return found


def samples(rule: Rule, context: RuleContext) -> Iterator[Points]:
    """Points for the rule; where elements move, tensors of all the sizes that the prover's own sampler draws."""
    if not arithmetic_axes(rule, 0) and not convolution_ranks(rule) and not order_captures(rule):
        yield from points(rule, context)
        return
    sampler = Sampler(rule, random.Random(rule.name))
    for _ in range(MOVED):
        point = sampler.point()
        try:
            if holds(rule.where, point, point.tensors()) is not True:
                continue
        except ERRORS:
            continue
        inputs = {name: np.array([float(v) for v in a.reshape(-1)]).reshape(a.shape) for name, a in point.inputs.items()}
        yield Points({n: a.astype(np.bool_) if n in context.booleans else a for n, a in inputs.items()}, point.axes, False)


# Examples ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Example:
    """Inputs at which the one bound is `ratio` times the other (inf: the other is 0)."""

    inputs: tuple[tuple[str, Tensor], ...]
    ratio: float

    @property
    def given(self) -> str:
        return ", ".join(f"{name} = {value}" for name, value in self.inputs)

    def __str__(self) -> str:
        return f"{self.given}: {ratio_text(self.ratio)}"


def ratio_text(ratio: float) -> str:
    """The ratio in words."""
    if not np.isfinite(ratio):
        return "infinitely many times"
    return f"{ratio:.3g} times" if ratio > 1.005 else f"{ratio:.10g} times"


def example(rule: Rule, found: SearchResult, left: Expr, right: Expr, worse: bool) -> Example | None:
    """The simplest inputs at which the right formula is larger (or smaller) for sure, if any can be confirmed."""
    candidates: list[tuple[int, int, int]] = []
    for place, c in enumerate(found.comparisons):
        rows = np.flatnonzero(c.worse if worse else c.better)
        if worse:
            rows = rows[c.ratio[rows] >= min(2.0, found.worst**0.5)]
        candidates += [(_length(c.points.one(int(row))), place, int(row)) for row in rows[:400]]
    for length, place, row in sorted(candidates)[:TRIES]:
        if length > LONGEST:
            break
        point = found.comparisons[place].points.one(row)
        ratio = confirmed(rule, point, left, right) if worse else confirmed(rule, point, right, left)
        if ratio is not None:
            return Example(tuple((name, _tensor(array)) for name, array in sorted(point.inputs.items())), ratio)
    return None


def _length(point: Points) -> int:
    """Length of the inputs for a reader."""
    return sum(len(_text(v)) for array in point.inputs.values() for v in np.asarray(array).reshape(-1)[:64]) + 20 * sum(
        array.size for array in point.inputs.values()
    )


def _text(value: Any) -> str:
    return str(bool(value)).lower() if isinstance(value, bool | np.bool_) else str(Fraction(float(value)).limit_denominator(10**6))


def _tensor(array: Array) -> Tensor:
    # an axis of size 1 says nothing
    shape = array.shape if array.size > 1 else ()
    return Tensor(shape, tuple(_text(v) for v in array.reshape(-1).tolist()))


def confirmed(rule: Rule, point: Points, smaller: Expr, larger: Expr) -> float | None:
    """larger/smaller at an index where the larger one is larger for sure and the left side is defined; the largest such ratio."""
    numbers = {name: _exact(array) for name, array in point.inputs.items()}
    try:
        with balls.precision(256):
            tensors = {name: balls.Balls.of(array) for name, array in numbers.items()}
            if holds(rule.where, Point(numbers, point.axes), tensors) is not True:
                return None
            value, small, large = (balls.evaluate(e, tensors, point.axes, 0).values for e in (rule.pattern, smaller, larger))
            value, small, large = np.broadcast_arrays(value, small, large)
            ratios = [_ratio(s, l) for v, s, l in zip(value.flat, small.flat, large.flat, strict=True) if not isinstance(v, balls.Mark)]
    except (balls.Unsupported, balls.ShapeMismatch, NoFormula, ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        return None
    return max((r for r in ratios if r is not None), default=None)


def _exact(array: Array) -> Any:
    """The numbers as they are printed: rationals with small denominators."""
    result = np.empty(array.shape, dtype=object)
    for place, value in np.ndenumerate(array):
        result[place] = bool(value) if array.dtype == np.bool_ else Fraction(float(value)).limit_denominator(10**6)
    return result


def _ratio(small: Any, large: Any) -> float | None:
    """large/small where both are numbers and large > small for sure."""
    if any(isinstance(x, balls.Mark | bool) for x in (small, large)) or not arb(large) > arb(small):
        return None
    return float("inf") if arb(small) == 0 else float(arb(large) / arb(small))
