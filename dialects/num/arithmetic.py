"""Arithmetic of two or three operands, element by element."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.irdl import irdl_op_definition, operand_def, result_def, traits_def
from xdsl.traits import Commutative

from hnfc.dialects.assembly import TYPES
from hnfc.dialects.facts import Access, Exactness, Facts, RealDomain, Storage
from hnfc.dialects.interval import Interval, magnitude
from hnfc.dialects.num.accumulation import terms_of
from hnfc.dialects.num.base import BinaryOp, NumOp, Tensor, element_name
from hnfc.dialects.num.elementary import LogOp
from hnfc.dialects.num.special import special
from hnfc.dialects.types import ANY, FLOATING, FORMATS, NUMBER, ElementFormat, TypeMismatch, broadcast_shapes, format_of, tensor, working

FLUSHED = FORMATS["f32"].flushed


def truncate(m: Any, x: Any) -> Any:
    return m.where(m.compare("lt", x, m.const(0)), -m.floor(-x), m.floor(x))


def pow_range(x: Interval, y: Interval) -> Interval:
    """x^y is monotone in each operand for x ≥ 0, so its extremes lie at the corners, or at 1 where x or y cross 1 or 0."""
    if x.lo < 0 or x.nan or y.nan:
        nan = x.nan or y.nan or x.lo < 0
        if y.lo == y.hi and y.lo == int_or_nan(y.lo) and y.lo >= 0 and y.lo % 2 == 0 and not x.nan:
            top = _corner(x.magnitude, y.lo)
            return Interval(0.0 if y.lo else 1.0, _looser(top), False)
        return Interval(-math.inf, math.inf, nan)
    if x.minus and x.lo == 0 and y.lo < 0:
        return Interval(-math.inf, math.inf)  # 1 / -0
    corners = [_corner(a, b) for a in (x.lo, x.hi) for b in (y.lo, y.hi)]
    if y.lo <= 0 <= y.hi or x.lo <= 1 <= x.hi:
        corners.append(1.0)
    return Interval(max(0.0, _looser(min(corners), -1)), _looser(max(corners)), minus=x.minus)


def int_or_nan(x: float) -> float:
    return math.floor(x) if math.isfinite(x) else math.nan


def _corner(x: float, y: float) -> float:
    if x == 0 and y < 0:
        return math.inf
    try:
        return math.pow(x, y)
    except OverflowError:
        return math.inf


def _looser(x: float, direction: int = 1) -> float:
    for _ in range(4):
        x = math.nextafter(x, direction * math.inf)
    return x


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


def hypot_range(x: Interval, y: Interval) -> Interval:
    a, b = magnitude(x), magnitude(y)
    return Interval(_looser(math.hypot(a.lo, b.lo), -1) if a.lo or b.lo else 0.0, _looser(math.hypot(a.hi, b.hi)), x.nan or y.nan)


def logaddexp_range(x: Interval, y: Interval) -> Interval:
    """Between max(x, y) and max(x, y) + log 2."""
    return Interval(_looser(_logaddexp(x.lo, y.lo), -1), _looser(_logaddexp(x.hi, y.hi)), x.nan or y.nan)


def _logaddexp(x: float, y: float) -> float:
    return max(x, y) if math.isinf(x) or math.isinf(y) else max(x, y) + math.log1p(math.exp(-abs(x - y)))


def xlogy_range(x: Interval, y: Interval) -> Interval:
    product: Interval = x * LogOp.FACTS.range(y)
    # 0·log(0) = 0 by definition; 0·log(inf) and the logarithm of a negative number stay NaN or become 0
    nan = x.nan or y.nan or y.lo < 0 or (0.0 in x and y.hi == math.inf) or (math.isinf(x.magnitude) and 1.0 in y)
    low, high = (min(product.lo, 0.0), max(product.hi, 0.0)) if 0.0 in x else (product.lo, product.hi)
    return Interval(low, high, nan, x.minus_zero or product.minus)


def maximum_range(x: Interval, y: Interval) -> Interval:
    """Of +0 and -0 it may be either."""
    return Interval(max(x.lo, y.lo), max(x.hi, y.hi), x.nan or y.nan, x.minus_zero or y.minus_zero)


def minimum_range(x: Interval, y: Interval) -> Interval:
    return Interval(min(x.lo, y.lo), min(x.hi, y.hi), x.nan or y.nan, x.minus_zero or y.minus_zero)


def power(x: Any, y: Any) -> Any:
    """x^y; of integers the integer part, so 0 where y is negative and |x| is not 1, as in torch."""
    x, y = np.asarray(x), np.asarray(y)
    if x.dtype.kind != "i" or not np.any(y < 0):
        return np.power(x, y)
    below = np.where(np.abs(x) == 1, np.where(y % 2 == 0, np.ones((), x.dtype), x), np.zeros((), x.dtype))
    return np.where(y < 0, below, np.power(x, np.maximum(y, 0)))


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
        ulps=1,
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
        ulps=1,
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
        modular=True,
        curvature=lambda x, y: 1.0,
        real=lambda m, x, y: x * y,
        evaluate=np.multiply,
        range=lambda x, y: x * y,
        torch=("aten.mul.Tensor",),
        ulps=1,
    )


@irdl_op_definition
class DivOp(BinaryOp):
    """x / y."""

    name = "num.div"
    FACTS: ClassVar = Facts(
        access=Access.ELEMENTWISE,
        exactness=Exactness.CORRECT,
        accepts=FLOATING,
        divisor=True,
        curvature=lambda x, y: 1 / np.abs(y) ** 3,
        real=lambda m, x, y: x / y,
        evaluate=np.divide,
        range=lambda x, y: x / y,
        torch=("aten.div.Tensor",),
        ulps=1,
        gradient=lambda m, x, y: (1 / y, -(x / y) / y),
    )


@irdl_op_definition
class PowOp(BinaryOp):
    """x^y."""

    name = "num.pow"
    FACTS: ClassVar = Facts(
        access=Access.ELEMENTWISE,
        exactness=Exactness.FUNCTION,
        accepts=NUMBER,
        domain=RealDomain(0, open=True, irregular=True),
        real=lambda m, x, y: m.pow(x, y),
        evaluate=power,
        range=pow_range,
        torch=("aten.pow.Tensor_Tensor", "aten.pow.Scalar"),
        ulps=32,
        # x^-2 as 1/(x·x), of which x·x may be subnormal, x³ as (x·x)·x
        early=4.1,
        stray=lambda form, x, y: 2 / form.largest,
        stray_half=1.6e-5,
        roundings=2,
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
        ulps=0,
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
        ulps=0,
    )


@irdl_op_definition
class Atan2Op(BinaryOp):
    """The angle of the point (y, x), where the operands are named x and y: atan2(x, y) has tangent x / y."""

    name = "num.atan2"
    FACTS: ClassVar = Facts(
        access=Access.ELEMENTWISE,
        exactness=Exactness.FUNCTION,
        accepts=FLOATING,
        domain=RealDomain(irregular=True),
        real=lambda m, x, y: m.atan2(x, y),
        evaluate=np.arctan2,
        range=lambda x, y: Interval(-3.1415926535897936 if x.lo <= 0 else 0.0, 3.1415926535897936 if x.hi >= 0 else 0.0, x.nan or y.nan),
        torch=("aten.atan2",),
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


def hypot_slopes(m: Any, x: Any, y: Any) -> tuple[Any, Any]:
    """x/h and y/h; 0, a subgradient, where both are 0."""
    size = m.hypot(x, y)
    divisor = m.where(size == 0, 1 + 0 * size, size)
    return x / divisor, y / divisor


@irdl_op_definition
class HypotOp(BinaryOp):
    """sqrt(x² + y²), without overflow on the way."""

    name = "num.hypot"
    traits = traits_def(Commutative())
    FACTS: ClassVar = Facts(
        access=Access.ELEMENTWISE,
        exactness=Exactness.FUNCTION,
        accepts=FLOATING,
        real=lambda m, x, y: m.sqrt(x * x + y * y),
        evaluate=np.hypot,
        range=hypot_range,
        torch=("aten.hypot",),
        gradient=hypot_slopes,
    )


def logaddexp_slopes(m: Any, x: Any, y: Any) -> tuple[Any, Any]:
    """σ(x - y) and σ(y - x); 1/2 where both are equal, infinities too."""
    gap = m.where(x == y, m.where(x - y == 0, x - y, 0 * m.sigmoid(x)), x - y)
    return m.sigmoid(gap), m.sigmoid(-gap)


@irdl_op_definition
class LogaddexpOp(BinaryOp):
    """log(e^x + e^y)."""

    name = "num.logaddexp"
    traits = traits_def(Commutative())
    FACTS: ClassVar = Facts(
        access=Access.ELEMENTWISE,
        exactness=Exactness.FUNCTION,
        accepts=FLOATING,
        storage=Storage.STEPS,
        real=lambda m, x, y: m.log(m.exp(x) + m.exp(y)),
        steps=lambda s, x, y: s("add", s("maximum", x, y), s("log1p", s("exp", s("neg", s("abs", s("sub", x, y)))))),
        evaluate=np.logaddexp,
        range=logaddexp_range,
        torch=("aten.logaddexp",),
        gradient=logaddexp_slopes,
    )


@irdl_op_definition
class XlogyOp(BinaryOp):
    """x·log(y), and 0 where x is 0."""

    name = "num.xlogy"
    FACTS: ClassVar = Facts(
        access=Access.ELEMENTWISE,
        exactness=Exactness.FUNCTION,
        accepts=FLOATING,
        domain=RealDomain(irregular=True),
        real=lambda m, x, y: m.where(m.compare("eq", x, m.const(0)), m.const(0), x * m.log(y)),
        evaluate=special("xlogy"),
        range=xlogy_range,
        torch=("aten.xlogy.Tensor", "aten.xlogy.Scalar_Self", "aten.xlogy.Scalar_Other", "aten.special_xlogy"),
        roundings=2,
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
        ulps=1,
    )

    @classmethod
    def infer(cls, operands: Sequence[Tensor], attributes: dict[str, Any]) -> Tensor:
        x, y, z = operands
        if len({t.element_type for t in operands}) > 1:
            raise TypeMismatch(f"expected operands of one element type, but got {', '.join(map(element_name, operands))}")
        return tensor(x.element_type, broadcast_shapes(x.get_shape(), y.get_shape(), z.get_shape()))
