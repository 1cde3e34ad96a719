"""The certified error of a program of numbers over the box that its precondition gives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hnfc.analysis.branch_and_bound import DEFAULT_LIMITS, BoundLimits, Maximum, maximum
from hnfc.analysis.nodes import KleeneTruth
from hnfc.analysis.rounding import Arithmetic
from hnfc.analysis.taylor import Forms, NotAnalyzed, forms
from hnfc.backend.fpcore import expression
from hnfc.dialects.interval_arrays import Array, IntervalArray
from hnfc.frontend.fpcore import FPCoreProgram

CORRECT = Arithmetic(correct=True)


@dataclass(frozen=True)
class Bounded:
    """The largest absolute error of a program's result, on any input that its precondition admits."""

    maximum: Maximum
    ranges: dict[str, tuple[float, float]]
    shares: tuple[tuple[str, float], ...]
    """The operations whose roundings contribute to the error at the worst point found, the largest first, with the part that they have."""


def bound_program(program: FPCoreProgram, limits: BoundLimits = DEFAULT_LIMITS, arithmetic: Arithmetic = CORRECT) -> Bounded:
    """Raises NotAnalyzed where an argument has no range, or an operation no bound."""
    ranges = {}
    for name in program.arguments:
        lo, hi = program.ranges.get(name, (-np.inf, np.inf))
        if not (np.isfinite(lo) and np.isfinite(hi)):
            raise NotAnalyzed(f"the precondition gives the argument {name} no range, such as (<= -1 {name} 1)")
        if lo > hi:
            raise NotAnalyzed(f"no value of {name} meets the precondition")
        ranges[name] = (float(lo), float(hi))

    def evaluate(lo: Array, hi: Array) -> tuple[Array, Array]:
        recorded = record(program, lo, hi, arithmetic)
        count = len(lo)
        bounds = np.broadcast_to(recorded.bound(program.result), (count,))
        inhabited = np.ones(count, bool)
        for condition in program.conditions:
            truth = recorded.known.get(condition)
            if isinstance(truth, KleeneTruth):
                inhabited = inhabited & truth.may.reshape(-1)
        return np.where(np.isnan(bounds), np.inf, bounds), inhabited

    low, high = zip(*ranges.values(), strict=True) if ranges else ((), ())
    # what overflows or has no value is an infinite bound, and no warning
    with np.errstate(all="ignore"):
        found = maximum(evaluate, low, high, limits)
        return Bounded(found, ranges, _shares(program, found.point, arithmetic))


def _shares(program: FPCoreProgram, point: Sequence[float], arithmetic: Arithmetic) -> tuple[tuple[str, float], ...]:
    at = np.array([point], np.float64).reshape(1, len(point))
    recorded = record(program, at, at, arithmetic)
    node = recorded.node(program.result)
    parts: dict[str, float] = {}
    for index, size in recorded.contributions(node, IntervalArray.of(np.ones(1))).items():
        origin = recorded.tape.nodes[index].origin
        if origin is not None and size[0] > 0:
            name = expression(origin.results[0], 3)
            parts[name] = parts.get(name, 0.0) + float(size[0])
    whole = sum(parts.values())
    ordered = sorted(parts.items(), key=lambda part: -part[1])
    return tuple((name, size / whole) for name, size in ordered) if np.isfinite(whole) else tuple(ordered)


def record(program: FPCoreProgram, lo: Array, hi: Array, arithmetic: Arithmetic = CORRECT) -> Forms:
    """The forms of a program on boxes, given by their corners (boxes × arguments)."""
    inputs = {value: IntervalArray(lo[:, i], hi[:, i]) for i, value in enumerate(program.arguments.values())}
    return forms(program.block, inputs, arithmetic=arithmetic)
