"""Sums that keep what rounding loses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, result_def

from hnfc.dialects.assembly import TYPES
from hnfc.dialects.facts import Access, Accumulation, Exactness, Facts
from hnfc.dialects.interval import Interval
from hnfc.dialects.num.base import BinaryOp, NumOp, ReductionOp, Tensor, as_tensor
from hnfc.dialects.num.reduction import sum_range
from hnfc.dialects.types import ANY, NUMBER


def _flat(x: Any, axes: Sequence[int]) -> tuple[Any, list[int]]:
    """x with `axes` moved to the front as one axis, and the shape of the result."""
    kept = [i for i in range(np.ndim(x)) if i not in axes]
    moved = np.transpose(x, [*axes, *kept]).reshape([-1] + [np.shape(x)[i] for i in kept])
    return moved, [1 if i in axes else size for i, size in enumerate(np.shape(x))]


def kahan_sum(x: Any, axes: Sequence[int]) -> Any:
    """Kahan's summation as Neumaier improved it: the error of every addition is summed beside the sum."""
    rows, shape = _flat(x, axes)
    total, lost = np.zeros_like(rows[:1].sum(axis=0)), np.zeros_like(rows[:1].sum(axis=0))
    for row in rows:
        new = total + row
        error = np.where(np.abs(total) >= np.abs(row), (total - new) + row, (row - new) + total)
        total, lost = new, lost + np.where(np.isfinite(new), error, np.zeros_like(error))
    return np.reshape(total + lost, shape)


def pairwise_sum(x: Any, axes: Sequence[int]) -> Any:
    """Halves are summed and added, so that errors grow with log n."""
    rows, shape = _flat(x, axes)
    while len(rows) > 1:
        half = len(rows) // 2
        rows = np.concatenate([rows[:half] + rows[half : 2 * half], rows[2 * half :]])
    return np.reshape(rows if len(rows) else np.zeros(shape, np.asarray(x).dtype), shape)


def two_sum(x: Any, y: Any) -> tuple[Any, Any]:
    """Knuth's: s = fl(x + y) and e with s + e = x + y exactly, unless s overflows."""
    s = x + y
    back = s - x
    return s, (x - (s - back)) + (y - back)


def two_sum_range(x: Interval, y: Interval) -> Interval:
    """Holds both results: the error is not larger than either operand, and NaN where the sum is not finite."""
    s = x + y
    bound = min(x.magnitude, y.magnitude)
    return Interval(min(s.lo, -bound), max(s.hi, bound), True)


@irdl_op_definition
class KahanSumOp(ReductionOp):
    """Σ x over `axes`, with an error that does not grow with n."""

    name = "num.kahan_sum"
    FACTS: ClassVar = Facts(
        access=Access.REDUCTION,
        exactness=Exactness.ALGORITHM,
        accumulation=Accumulation.COMPENSATED,
        accepts=ANY,
        real=lambda m, x, axes: m.sum(x, axes),
        evaluate=kahan_sum,
        range=sum_range,
        torch=(),
        contextual=True,
    )


@irdl_op_definition
class PairwiseSumOp(ReductionOp):
    """Σ x over `axes` by halves, with an error that grows with log n."""

    name = "num.pairwise_sum"
    FACTS: ClassVar = Facts(
        access=Access.REDUCTION,
        exactness=Exactness.ALGORITHM,
        accumulation=Accumulation.PAIRWISE,
        accepts=ANY,
        real=lambda m, x, axes: m.sum(x, axes),
        evaluate=pairwise_sum,
        range=sum_range,
        torch=(),
        contextual=True,
    )


@irdl_op_definition
class TwoSumOp(NumOp):
    """(s, e): s = x + y rounded, and e what the rounding lost (0 over the reals)."""

    name = "num.two_sum"
    x = operand_def(TensorType)
    y = operand_def(TensorType)
    total = result_def(TensorType)
    error = result_def(TensorType)
    assembly_format = f"$x `,` $y {TYPES}"
    FACTS: ClassVar = Facts(
        access=Access.ELEMENTWISE,
        exactness=Exactness.ALGORITHM,
        accepts=NUMBER,
        real=lambda m, x, y: (x + y, m.const(0)),
        steps=None,
        evaluate=two_sum,
        range=two_sum_range,
        torch=(),
    )

    @classmethod
    def infer(cls, operands: Sequence[Tensor], attributes: dict[str, Any]) -> Tensor:
        return BinaryOp.infer(operands, attributes)

    @classmethod
    def make(cls, *operands: SSAValue, **attributes: Any) -> Self:
        result = cls.result_type([as_tensor(operand.type) for operand in operands], attributes)
        return cls.create(operands=operands, result_types=[result, result])
