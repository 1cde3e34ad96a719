"""An interval for every value of a function, from the intervals of its inputs: one transfer per operation, on demand."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from xdsl.dialects.builtin import IntegerType, TensorType
from xdsl.ir import Operation, SSAValue

from hnfc.core.interpreter import WeightReader
from hnfc.dialects.interval import ANYTHING, Interval
from hnfc.dialects.num import COMPUTING, NumOp
from hnfc.dialects.num.constant import WeightOp
from hnfc.dialects.num.rounding import INTEGERS
from hnfc.dialects.types import ELEMENT_NAMES


def interval_of_array(array: np.ndarray[Any, Any]) -> Interval:
    """The least interval that holds every element; complex numbers lie in none."""
    if array.dtype.kind == "c":
        return ANYTHING
    if array.size == 0:
        return Interval(0.0, 0.0)
    wide = array if array.dtype in (np.float32, np.float64) else array.astype(np.float64)
    low, high = float(np.min(wide)), float(np.max(wide))
    missing = not (low == low and high == high)
    if missing:
        if np.isnan(wide).all():
            return ANYTHING
        low, high = float(np.nanmin(wide)), float(np.nanmax(wide))
    minus = low == 0 and bool(np.signbit(wide[wide == 0]).any())
    return Interval(low + 0.0, high + 0.0, missing, minus)


def _stored(x: Interval, least: float, greatest: float) -> Interval:
    """Range of an integer type for results in x: a fraction is cut off, and a number that does not fit wraps around."""
    if x.nan or x.lo < least or x.hi > greatest:
        return Interval(least, greatest)
    return Interval(math.floor(x.lo), math.ceil(x.hi))


class Ranges:
    """The interval of each value. `inputs` bounds block arguments (and opaque results); what it lacks may be anything."""

    def __init__(self, inputs: Mapping[SSAValue, Interval] | None = None, weights: WeightReader | None = None) -> None:
        self._known: dict[SSAValue, Interval] = dict(inputs or {})
        self._weights = weights

    def known(self, value: SSAValue) -> Interval | None:
        """Range by type and declaration alone."""
        return self._known.get(value)

    def of(self, value: SSAValue) -> Interval:
        known = self.known(value)
        if known is not None:
            return known
        stack = [value]
        while stack:
            current = stack[-1]
            if self.known(current) is not None:
                stack.pop()
                continue
            owner = current.owner
            operands = owner.operands if isinstance(owner, Operation) and type(owner) in COMPUTING else ()
            missing = [operand for operand in operands if self.known(operand) is None]
            if missing:
                stack += missing
                continue
            stack.pop()
            self._known[current] = self.transfer(owner)
        return self._known[value]

    def transfer(self, owner: object) -> Interval:
        """The interval of the result of an operation, from those of its operands, which are known."""
        if isinstance(owner, WeightOp):
            return interval_of_array(self._weights(owner.weight_name)) if self._weights else ANYTHING
        if type(owner) not in COMPUTING:
            return ANYTHING
        assert isinstance(owner, NumOp)
        if len(owner.results) != 1:
            return ANYTHING
        kind = owner.results[0].type
        if not isinstance(kind, TensorType):
            return ANYTHING
        result = owner.transfer(*(self.known(operand) or ANYTHING for operand in owner.operands))
        if type(kind.element_type) is not IntegerType:
            return result
        bounds = INTEGERS.get(ELEMENT_NAMES.get(kind.element_type, ""))
        return ANYTHING if bounds is None else _stored(result, *bounds)

    def forget(self, operation: Operation) -> None:
        """Drops what is known of an operation that leaves the program."""
        for result in operation.results:
            self._known.pop(result, None)
