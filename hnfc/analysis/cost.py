"""Costs of operations: arithmetic, modelled time on a target, curvature, digits that are lost; and weighted mixes of them.

Costs add up over the operations of a program, so that a search can compare programs that share parts. Curvature and lost digits are
estimates at samples: conditions and curvatures multiply along a path, so what adds up are their logarithms, in bits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue

from hnfc.analysis.curvature import curvature_at
from hnfc.dialects.facts import Access
from hnfc.dialects.num.base import NumOp
from hnfc.dialects.types import ELEMENT_NAMES, FORMATS
from hnfc.dsl.targets import Target

Array: TypeAlias = "np.ndarray[Any, Any]"
_FREE = (Access.SOURCE, Access.MOVEMENT)
MATRIX = {"num.matmul", "num.conv"}
_IN_PLACE = {"num.constant", "num.weight", "num.reshape", "num.broadcast"}
"""Movement of no bytes: a view of what is there."""
LOST = 1024.0
"""Bits that count as lost where a value of the program is not finite though the one that it stands for is."""
_STEP = 2.0**-20
_WORST = 2.0**53
"""The condition of a difference that is 0."""


class Values(Protocol):
    """Knowledge of a search about the values of a program."""

    def arrays(self, value: SSAValue) -> list[Array] | None:
        """The value on each sample, in float64; None where it cannot be computed."""

    def exact(self, value: SSAValue) -> bool:
        """Return whether the value is an input or made of inputs without rounding."""

    def depth(self, value: SSAValue) -> float:
        """Position of the value between the inputs (0) and the outputs (1)."""


class Cost(Protocol):
    """`of(operation, values)`: what one operation adds, 0 or more."""

    def of(self, operation: Operation, values: Values) -> float: ...


def flops(operation: Operation) -> float:
    """Multiplications, additions and functions, each counted as one; sizes that are not known count as 128. Movement is free."""
    if not isinstance(operation, NumOp) or operation.FACTS.access in _FREE or not operation.results:
        return 0
    sizes = [elements(value) for value in (*operation.operands, *operation.results)]
    if operation.name == "num.matmul":
        inner = _shape(operation.operands[0])[-1]
        return 2 * elements(operation.results[0]) * inner
    if operation.name == "num.conv":
        return 2 * elements(operation.results[0]) * math.prod(_shape(operation.operands[1])[1:])
    return max(sizes)


def traffic(operation: Operation) -> float:
    """Bytes that are read and written, each operand and result once."""
    if not isinstance(operation, NumOp) or operation.name in _IN_PLACE:
        return 0
    return sum(elements(value) * _width(value) for value in (*operation.operands, *operation.results))


@dataclass(frozen=True)
class Flops:
    """Operations on elements, as `flops` counts them."""

    def of(self, operation: Operation, values: Values) -> float:
        return flops(operation)


@dataclass(frozen=True)
class Time:
    """Seconds on a target by the roofline model (Williams, Waterman, Patterson, CACM 2009): an operation takes the longer of what its
    arithmetic and what its bytes take, and the target's latency. Each operation is a kernel of its own: nothing is fused."""

    target: Target

    def of(self, operation: Operation, values: Values) -> float:
        if not isinstance(operation, NumOp) or operation.name in _IN_PLACE:
            return 0.0
        element = _element(operation.results[0])
        rate = self.target.rate(element, matrix=operation.name in MATRIX)
        return self.target.latency + max(flops(operation) / rate, traffic(operation) / self.target.bandwidth)


@dataclass(frozen=True)
class CurvatureBits:
    """log₂(1 + curvature), by the formulas of `hnfc.analysis.curvature`, the largest over the samples."""

    def of(self, operation: Operation, values: Values) -> float:
        columns = _columns(operation, values)
        if columns is None:
            return 0.0
        bits = [math.log2(1 + min(curvature_at(operation, operands), 2.0**1000)) for operands in columns if operands]
        return max((b for b in bits if b == b), default=0.0)


@dataclass(frozen=True)
class OverflowCost:
    """`LOST` bits where a result is beyond the largest number of its format, or is no number; else 0."""

    def of(self, operation: Operation, values: Values) -> float:
        form = FORMATS.get(_element(operation.results[0]))
        results = values.arrays(operation.results[0])
        if form is None or results is None:
            return 0.0
        return 0.0 if all(np.all(np.abs(result) <= form.largest) for result in results) else LOST


@dataclass(frozen=True)
class LostBits:
    """log₂ of how much one operation adds to or makes of relative errors: 1 + its own units of roundoff + its condition beyond 1.

    The condition is measured: the operands that are not exact are moved by a small part of themselves, with signs at random, each
    by itself, though errors of operands may well go together.
    """

    def of(self, operation: Operation, values: Values) -> float:
        if not isinstance(operation, NumOp) or operation.FACTS.access in _FREE or operation.FACTS.evaluate is None:
            return 0.0
        columns, results = _columns(operation, values), values.arrays(operation.results[0])
        if columns is None or results is None or _element(operation.results[0]) not in FORMATS:
            return 0.0
        worst = 0.0
        moved = [index for index, operand in enumerate(operation.operands) if not values.exact(operand)]
        for operands, result in zip(columns, results, strict=True):
            if operation.name not in MATRIX:
                worst = max(worst, sum(_condition(operation, operands, result, index) for index in moved))
        return math.log2(1 + operation.FACTS.ulps + max(worst - 1, 0.0))


@dataclass(frozen=True)
class Mix:
    """Σ weight · cost."""

    parts: tuple[tuple[float, Cost], ...]

    def of(self, operation: Operation, values: Values) -> float:
        return sum(weight * cost.of(operation, values) for weight, cost in self.parts)


@dataclass(frozen=True)
class Deepening:
    """A cost that counts 1 + growth times as much at the outputs as at the inputs, and proportionally between."""

    cost: Cost
    growth: float

    def of(self, operation: Operation, values: Values) -> float:
        price = self.cost.of(operation, values)
        return price * (1 + self.growth * values.depth(operation.results[0])) if price else 0.0


def _condition(operation: NumOp, operands: Sequence[Array], result: Array, index: int) -> float:
    """Condition number of the result for one operand, the largest over its elements."""
    x = operands[index]
    if not np.issubdtype(x.dtype, np.floating):
        return 0.0
    signs = np.where(np.random.default_rng(0).random(x.shape) < 0.5, -_STEP, _STEP)
    other = operation.compute(*operands[:index], x * (1 + signs), *operands[index + 1 :])
    with np.errstate(all="ignore"):
        moved = np.abs(other - result)
        change = np.where(moved == 0, 0.0, np.minimum(moved / (_STEP * np.abs(result)), _WORST))
    return float(np.nan_to_num(change, nan=0.0).max()) if change.size else 0.0


def _columns(operation: Operation, values: Values) -> list[list[Array]] | None:
    """The operands on each sample."""
    found = [values.arrays(operand) for operand in operation.operands]
    known = [arrays for arrays in found if arrays is not None]
    return [list(column) for column in zip(*known, strict=True)] if known and len(known) == len(found) else None


def elements(value: SSAValue) -> float:
    return math.prod(_shape(value))


def _shape(value: SSAValue) -> tuple[int, ...]:
    if not isinstance(value.type, TensorType):
        return ()
    return tuple(size if size >= 0 else 128 for size in value.type.get_shape())


def _element(value: SSAValue) -> str:
    return ELEMENT_NAMES.get(value.type.element_type, "") if isinstance(value.type, TensorType) else ""


def _width(value: SSAValue) -> float:
    """Bytes of one element."""
    digits = "".join(c for c in _element(value).split("E")[0] if c.isdigit())
    return max(int(digits or 8), 8) / 8
