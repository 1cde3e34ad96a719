"""Curvature of a model at the values it takes: how much each operation bends, as a measure of how it loses digits.

The formulas of the homotopical numerical foundations where they hold: exp e^(2x), log 1/x², division 1/|d|³, softmax ½. A product is
called linear there, but is bilinear, with a second derivative of 1; matrices are taken by the product of their condition numbers.
Where the sources have no formula it is the largest |f''|, by differences. All are estimates at the sample, not bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from xdsl.ir import Block, Operation, SSAValue

from hnfc.analysis.spectral import condition_number
from hnfc.core.interpreter import WeightReader, evaluate
from hnfc.dialects.facts import Access
from hnfc.dialects.num.base import NumOp
from hnfc.dialects.num.matmul import MatmulOp
from hnfc.dialects.num.rounding import CastOp, RoundToOp

Array: TypeAlias = "np.ndarray[Any, Any]"
_LARGEST_MATRIX = 1024
"""Shorter side of the matrices whose condition numbers are computed; larger ones count as 1."""


@dataclass(frozen=True)
class Curvature:
    """The sum over the operations of a model, and the operations that have the most of it, with their places."""

    total: float
    largest: tuple[tuple[str, str, float], ...]

    def __float__(self) -> float:
        return self.total

    def __str__(self) -> str:
        lines = [f"curvature {self.total:.3g}"]
        lines += [f"  {value:10.3g}  {operation.removeprefix('num.')} at {place}" for operation, place, value in self.largest]
        return "\n".join(lines)


def curvature_of(
    block: Block, sample: Mapping[SSAValue, Array], weights: WeightReader | None, place: Callable[[Operation], str]
) -> Curvature:
    """The curvature of a function of `num` on one sample, its values taken in float64."""
    found = [
        (operation.name, place(operation), value)
        for operation, value in curvatures(block, evaluate(block, sample, weights, wide=True)).items()
    ]
    found.sort(key=lambda entry: -entry[2])
    return Curvature(float(sum(value for _, _, value in found)), tuple(found[:10]))


def curvatures(block: Block, values: Mapping[SSAValue, Array]) -> dict[Operation, float]:
    """The curvature of each operation that has any, at the values that it takes."""
    found: dict[Operation, float] = {}
    for operation in block.ops:
        operands = [values.get(operand) for operand in operation.operands]
        if isinstance(operation, NumOp) and operands and all(operand is not None for operand in operands):
            value = curvature_at(operation, [np.asarray(operand, np.float64) for operand in operands])
            if value:
                found[operation] = value
    return found


def curvature_at(operation: Operation, operands: Sequence[Array]) -> float:
    """The curvature of one operation at values of its operands, in float64; 0 where it has none."""
    if not isinstance(operation, NumOp):
        return 0.0
    with np.errstate(all="ignore"):
        if operation.FACTS.curvature is not None:
            return _largest(operation.FACTS.curvature(*operands))
        if isinstance(operation, MatmulOp):
            return _condition(operands[0]) * _condition(operands[1])
        if operation.FACTS.access is not Access.ELEMENTWISE or operation.FACTS.exact or isinstance(operation, CastOp | RoundToOp):
            return 0.0
        return max((_bend(operation, operands, index) for index in range(len(operands))), default=0.0)


_STEP = 2.0**-12
"""Relative step of a second difference: truncation and rounding both cost less than a millionth of the function."""

_NOISE = 2.0**-49
"""A difference of differences that is no larger beside the function is rounding."""


def _bend(operation: NumOp, operands: Sequence[Array], index: int) -> float:
    """The largest second derivative by one operand, by differences."""
    x = operands[index]
    near_zero = operation.FACTS.domain.least == 0 or operation.FACTS.domain.pole
    step = _STEP * (np.abs(x) if near_zero else np.maximum(np.abs(x), 1.0))

    def at(moved: Array) -> Array:
        return np.asarray(operation.compute(*operands[:index], moved, *operands[index + 1 :]), np.float64)

    middle = at(x)
    bend = at(x + step) - 2 * middle + at(x - step)
    return _largest(np.where(np.abs(bend) > _NOISE * np.abs(middle), bend / step**2, 0.0))


def _largest(values: Any) -> float:
    values = np.abs(np.asarray(values, np.float64))
    return float(np.nanmax(values)) if values.size and not np.isnan(values).all() else 0.0


def _condition(x: Array) -> float:
    """Of the first matrix of a batch."""
    if x.ndim < 2 or min(x.shape[-2:]) > _LARGEST_MATRIX or not np.isfinite(x).all():
        return 1.0
    return condition_number(x.reshape(-1, *x.shape[-2:])[0])
