"""Sums, products, quotients, remainders and extremes of two or three operands, element by element."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.irdl import irdl_op_definition, operand_def, result_def, traits_def
from xdsl.traits import Commutative

from hnfc.dialects.assembly import TYPES
from hnfc.dialects.facts import Access, Exactness, Facts
from hnfc.dialects.interval import Interval
from hnfc.dialects.num.accumulation import terms_of
from hnfc.dialects.num.base import BinaryOp, NumOp, Tensor, element_name
from hnfc.dialects.types import ANY, FLOATING, FORMATS, NUMBER, ElementFormat, TypeMismatch, broadcast_shapes, format_of, tensor, working

FLUSHED = FORMATS["f32"].flushed


def truncate(m: Any, x: Any) -> Any:
    return m.where(m.compare("lt", x, m.const(0)), -m.floor(-x), m.floor(x))


def may_be_zero(x: Interval) -> bool:
    """Return whether 0, or a number that a float32 unit may take for 0, is among the values."""
    return x.lo <= FLUSHED and x.hi >= -FLUSHED


def remainder_range(x: Interval, y: Interval) -> Interval:
    """The result has the sign of y and is smaller than |y|."""
    nan = x.nan or y.nan or may_be_zero(y) or math.isinf(x.magnitude)
    return Interval(min(y.lo, -5e-324), max(y.hi, 0.0), nan) if y.lo < 0 else Interval(-5e-324, y.hi, nan)


def fmod_range(x: Interval, y: Interval) -> Interval:
    """The result has the sign of x, is smaller than |y|, and not larger than |x|."""
    nan = x.nan or y.nan or may_be_zero(y) or math.isinf(x.magnitude)
    bound = y.magnitude
    return Interval(max(min(x.lo, -5e-324), -bound), min(max(x.hi, 0.0), bound), nan)


def quotient_lost(form: ElementFormat, x: Any, y: Any) -> Any:
    """Infinite where x/y may overflow, or y is taken for 0: vectorized kernels of fmod then give NaN."""
    most = np.maximum(np.abs(np.asarray(x.lo, np.float64)), np.abs(x.hi))
    least = np.maximum(np.maximum(np.asarray(y.lo, np.float64), -np.asarray(y.hi, np.float64)), 0.0)
    with np.errstate(all="ignore"):
        return np.where((least <= form.flushed) | ~(most / least < form.largest / 8), np.inf, 0.0)


def maximum_range(x: Interval, y: Interval) -> Interval:
    """Of +0 and -0 it may be either."""
    return Interval(max(x.lo, y.lo), max(x.hi, y.hi), x.nan or y.nan, x.minus_zero or y.minus_zero)


def minimum_range(x: Interval, y: Interval) -> Interval:
    return Interval(min(x.lo, y.lo), min(x.hi, y.hi), x.nan or y.nan, x.minus_zero or y.minus_zero)


def fma(x: Any, y: Any, z: Any) -> Any:
    """x·y + z with one rounding, by way of a wider format (np.longdouble for float64: almost always one rounding)."""
    if np.asarray(x).dtype.kind in "biu":
        return np.asarray(x) * y + z
    wide = np.longdouble if np.asarray(x).dtype == np.float64 else np.float64
    return (np.asarray(x, wide) * np.asarray(y, wide) + np.asarray(z, wide)).astype(np.asarray(x).dtype)


class AdditiveOp(BinaryOp):
    """A sum or difference, of which one operand may be a product that is accumulated onto the other."""

    def transfer(self, *intervals: Interval) -> Interval:
        result = super().transfer(*intervals)
        form = format_of(self.result.type)
        if form is None:
            return result
        for value, product, other in zip((self.x, self.y), intervals, intervals[::-1], strict=True):
            count = terms_of(value)
            if count:
                slack = 2 * (count + 2) * working(form).unit_roundoff * other.magnitude + 4 * form.unit_roundoff * product.magnitude
                result = result.spread(slack if slack == slack else math.inf)
        if _interpolates(self) and math.isinf(max(interval.magnitude for interval in intervals)):
            return Interval(result.lo, result.hi, True, result.minus)
        return result


def _interpolates(operation: AdditiveOp) -> bool:
    """Return whether it is x + c·(y - x): torch's lerp, which is y - (1 - c)·(y - x) for a large c, so that an infinite y gives NaN."""
    for x, scaled in ((operation.x, operation.y), (operation.y, operation.x)):
        if isinstance(scaled.owner, MulOp):
            return any(isinstance(o.owner, SubOp) and o.owner.y is x for o in scaled.owner.operands)
    return False


@irdl_op_definition
class AddOp(AdditiveOp):
    """x + y."""

    name = "num.add"
    traits = traits_def(Commutative())
    FACTS: ClassVar = Facts(
        access=Access.ELEMENTWISE,
        exactness=Exactness.CORRECT,
        accepts=ANY,
        modular=True,
        real=lambda m, x, y: x + y,
        evaluate=np.add,
        range=lambda x, y: x + y,
        torch=("aten.add.Tensor",),
        addends=range(2),
    )


@irdl_op_definition
class SubOp(AdditiveOp):
    """x - y."""

    name = "num.sub"
    FACTS: ClassVar = Facts(
        access=Access.ELEMENTWISE,
        exactness=Exactness.CORRECT,
        accepts=NUMBER,
        modular=True,
        real=lambda m, x, y: x - y,
        evaluate=np.subtract,
        range=lambda x, y: x - y,
        torch=("aten.sub.Tensor",),
        addends=range(2),
    )


@irdl_op_definition
class MulOp(BinaryOp):
    """x·y."""

    name = "num.mul"
    traits = traits_def(Commutative())
    FACTS: ClassVar = Facts(
        access=Access.ELEMENTWISE,
        exactness=Exactness.CORRECT,
        accepts=ANY,
        underflows=True,
        modular=True,
        curvature=lambda x, y: 1.0,
        real=lambda m, x, y: x * y,
        evaluate=np.multiply,
        range=lambda x, y: x * y,
        torch=("aten.mul.Tensor",),
        scales=range(2),
    )


@irdl_op_definition
class DivOp(BinaryOp):
    """x / y."""

    name = "num.div"
    FACTS: ClassVar = Facts(
        access=Access.ELEMENTWISE,
        exactness=Exactness.CORRECT,
        accepts=FLOATING,
        underflows=True,
        divisor=True,
        curvature=lambda x, y: 1 / np.abs(y) ** 3,
        real=lambda m, x, y: x / y,
        evaluate=np.divide,
        range=lambda x, y: x / y,
        torch=("aten.div.Tensor",),
        scales=range(1, 2),
        gradient=lambda m, x, y: (1 / y, -(x / y) / y),
    )


@irdl_op_definition
class MaximumOp(BinaryOp):
    """The larger of x and y; NaN where either is."""

    name = "num.maximum"
    traits = traits_def(Commutative())
    FACTS: ClassVar = Facts(
        access=Access.ELEMENTWISE,
        exactness=Exactness.SELECTION,
        accepts=ANY,
        real=lambda m, x, y: m.maximum(x, y),
        evaluate=np.maximum,
        range=maximum_range,
        torch=("aten.maximum", "aten.max.other"),
    )


@irdl_op_definition
class MinimumOp(BinaryOp):
    """The smaller of x and y; NaN where either is."""

    name = "num.minimum"
    traits = traits_def(Commutative())
    FACTS: ClassVar = Facts(
        access=Access.ELEMENTWISE,
        exactness=Exactness.SELECTION,
        accepts=ANY,
        real=lambda m, x, y: m.minimum(x, y),
        evaluate=np.minimum,
        range=minimum_range,
        torch=("aten.minimum", "aten.min.other"),
    )


@irdl_op_definition
class RemainderOp(BinaryOp):
    """x - y·⌊x/y⌋, with the sign of y."""

    name = "num.remainder"
    FACTS: ClassVar = Facts(
        access=Access.ELEMENTWISE,
        exactness=Exactness.FUNCTION,
        accepts=NUMBER,
        divisor=True,
        real=lambda m, x, y: x - y * m.floor(x / y),
        evaluate=np.remainder,
        range=remainder_range,
        torch=("aten.remainder.Tensor", "aten.remainder.Scalar"),
        stray=quotient_lost,
    )


@irdl_op_definition
class FmodOp(BinaryOp):
    """x - y·trunc(x/y), with the sign of x."""

    name = "num.fmod"
    FACTS: ClassVar = Facts(
        access=Access.ELEMENTWISE,
        exactness=Exactness.FUNCTION,
        accepts=NUMBER,
        divisor=True,
        real=lambda m, x, y: x - y * truncate(m, x / y),
        evaluate=np.fmod,
        range=fmod_range,
        torch=("aten.fmod.Tensor", "aten.fmod.Scalar"),
        stray=quotient_lost,
    )


@irdl_op_definition
class FmaOp(NumOp):
    """x·y + z, rounded once."""

    name = "num.fma"
    x = operand_def(TensorType)
    y = operand_def(TensorType)
    z = operand_def(TensorType)
    result = result_def(TensorType)
    assembly_format = f"$x `,` $y `,` $z {TYPES}"
    FACTS: ClassVar = Facts(
        access=Access.ELEMENTWISE,
        exactness=Exactness.CORRECT,
        accepts=ANY,
        curvature=lambda x, y, z: 1.0,
        real=lambda m, x, y, z: x * y + z,
        evaluate=fma,
        range=lambda x, y, z: x * y + z,
        torch=(),
    )

    @classmethod
    def infer(cls, operands: Sequence[Tensor], attributes: dict[str, Any]) -> Tensor:
        x, y, z = operands
        if len({t.element_type for t in operands}) > 1:
            raise TypeMismatch(f"expected operands of one element type, but got {', '.join(map(element_name, operands))}")
        return tensor(x.element_type, broadcast_shapes(x.get_shape(), y.get_shape(), z.get_shape()))
