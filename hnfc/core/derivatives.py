"""Derivatives of `num` functions over the reals, from differences in ball arithmetic."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from flint import arb
from xdsl.ir import Block, Operation, SSAValue

from hnfc.core.interpreter import (
    EXACT_BITS,
    WeightReader,
    compute_exactly,
    exact_input,
    largest_dynamic,
    size_into,
    upstream,
    work_of,
)
from hnfc.dialects.num.base import NumOp
from hnfc.dialects.num.elementary import DetachOp
from hnfc.dialects.num.opaque import OpaqueOp
from hnfc.dsl.soundness.balls import ArbMath, Balls, precision
from hnfc.dsl.soundness.elements import Mark, is_accurate, number

Array: TypeAlias = "np.ndarray[Any, Any]"
_BUDGET = 20_000
"""Elementary steps of a function."""
_ORDINARY = 2.0**100
"""A slope up to which no smaller step is tried."""
_CLOSER = arb(2) ** -300
_GROWTH = 1.25
"""Growth of a difference quotient at a step closer by _CLOSER, from which on the derivative is infinite: that of log x grows so at 0."""


def derivative_at(
    block: Block, inputs: Mapping[SSAValue, Array], argument: SSAValue, position: int, results: Mapping[SSAValue, Array],
    weights: WeightReader | None,
) -> float | None:  # fmt: skip
    """The derivative of Σ weight·result by one element of an argument, over the reals; infinite as that of a root at 0.

    A central difference, at a kink the mean of both slopes. What `detach` holds does not move with the argument. results: the weight of
    each element. None where an element with a weight has no formula, is not defined, or takes more than the budget of elementary steps.
    """
    needed = upstream(results)
    if sum(work_of(operation, largest_dynamic(inputs)) for operation in needed) > _BUDGET:
        return None
    with precision(EXACT_BITS[-1]):
        line = _Line(block, inputs, argument, position, results, weights, needed)
        start = line.start
        step = arb(2) ** -300 * (arb(start) if start else arb(1)) if abs(start) > 2.0**-100 else arb(2) ** -900
        slope = _quotient(line.at(step), line.at(-step), 2 * step)
        if slope is not None and abs(float(slope)) <= _ORDINARY:
            return float(slope)
        return _beyond(line, step, slope)


@dataclass
class _Line:
    """The weighted results, as one element of an argument moves."""

    block: Block
    inputs: Mapping[SSAValue, Array]
    argument: SSAValue
    position: int
    results: Mapping[SSAValue, Array]
    weights: WeightReader | None
    needed: set[Operation]
    _at_rest: dict[SSAValue, Any] | None = field(default=None)

    @property
    def start(self) -> float:
        return float(np.asarray(self.inputs[self.argument]).astype(np.float64).flat[self.position])

    def at(self, step: arb) -> arb | None:
        """The sum of the weighted results at a distance; None where it has no value."""
        held = [value for operation in self.needed if isinstance(operation, DetachOp) for value in operation.results]
        if self._at_rest is None:
            found = self._values(arb(0), {}) if held else {}
            self._at_rest = {value: found[value] for value in held if value in found}
        return self._total(self._values(step, self._at_rest))

    def _values(self, step: arb, held: Mapping[SSAValue, Any]) -> dict[SSAValue, Any]:
        exact: dict[SSAValue, Any] = {value: exact_input(array) for value, array in self.inputs.items()}
        moved = exact[self.argument].values.copy()
        moved.flat[self.position] = arb(self.start) + step
        exact[self.argument] = Balls(moved)
        for operation in self.block.ops:
            if isinstance(operation, OpaqueOp) and operation in self.needed:
                size_into(exact, operation)
            elif operation in self.needed and isinstance(operation, NumOp):
                compute_exactly(operation, exact, ArbMath(), self.weights)
                exact.update((value, held[value]) for value in operation.results if value in held)
        return exact

    def _total(self, exact: Mapping[SSAValue, Any]) -> arb | None:
        total = arb(0)
        for result, counted in self.results.items():
            found = exact.get(result)
            if not isinstance(found, Balls) or found.values.size != counted.size:
                return None
            for x, weight in zip(found.values.flat, counted.flat, strict=True):
                if weight and isinstance(x, Mark):
                    return None
                total += number(x) * arb(float(weight)) if weight else 0
        return total


def _quotient(end: arb | None, start: arb | None, distance: arb) -> arb | None:
    if end is None or start is None:
        return None
    slope = (end - start) / distance
    return slope if is_accurate(slope) or abs(float(slope)) < 2.0**-200 else None


def _beyond(line: _Line, step: arb, central: arb | None) -> float | None:
    """The derivative where the central difference has no value, or is large: from quotients at a smaller step too, on each side."""
    closer = step * _CLOSER
    if central is not None:
        again = _quotient(line.at(closer), line.at(-closer), 2 * closer)
        if again is not None and abs(float(again / central) - 1) < 2.0**-10:
            return float(central)
    middle = line.at(arb(0))
    sides = [_side(line, middle, sign * step, sign * closer) for sign in (1, -1)]
    known = [slope for slope in sides if slope is not None]
    return known[0] if known and all(slope == known[0] for slope in known) else None


def _side(line: _Line, middle: arb | None, step: arb, closer: arb) -> float | None:
    """±inf where the results go on without a jump to one side, steeper and steeper; NaN where they do so at a slope; else None."""
    first, second = (_quotient(line.at(distance), middle, distance) for distance in (step, closer))
    if first is None or second is None:
        return None
    if abs(float(second * closer)) > abs(float(first * step)) / 2:
        return math.nan  # a jump
    return math.copysign(math.inf, float(second)) if abs(float(second)) > _GROWTH * abs(float(first)) > _GROWTH else math.nan
