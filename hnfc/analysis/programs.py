"""The certified error of a program of numbers over the box that its precondition gives."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hnfc.analysis.boxes import Array, Boxes
from hnfc.analysis.branching import DEFAULT_LIMITS, Limits, Maximum, maximum
from hnfc.analysis.rounding import Arithmetic
from hnfc.analysis.tape import Truth
from hnfc.analysis.taylor import Forms, NotAnalyzed, forms
from hnfc.frontend.fpcore import Program

CORRECT = Arithmetic(correct=True)


@dataclass(frozen=True)
class Bounded:
    """The largest absolute error of a program's result, on any input that its precondition admits."""

    maximum: Maximum
    ranges: dict[str, tuple[float, float]]


def bound_program(program: Program, limits: Limits = DEFAULT_LIMITS, arithmetic: Arithmetic = CORRECT) -> Bounded:
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
            if isinstance(truth, Truth):
                inhabited = inhabited & truth.may.reshape(-1)
        return np.where(np.isnan(bounds), np.inf, bounds), inhabited

    low, high = zip(*ranges.values(), strict=True) if ranges else ((), ())
    return Bounded(maximum(evaluate, low, high, limits), ranges)


def record(program: Program, lo: Array, hi: Array, arithmetic: Arithmetic = CORRECT) -> Forms:
    """The forms of a program on boxes, given by their corners (boxes × arguments)."""
    inputs = {value: Boxes(lo[:, i], hi[:, i]) for i, value in enumerate(program.arguments.values())}
    return forms(program.block, inputs, arithmetic=arithmetic)
