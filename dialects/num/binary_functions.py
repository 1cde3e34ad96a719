"""Functions of two operands, element by element: powers, angles, norms and logarithms."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
from xdsl.irdl import irdl_op_definition, traits_def
from xdsl.traits import Commutative

from hnfc.dialects.facts import Access, Exactness, Facts, RealDomain, Storage
from hnfc.dialects.interval import Interval, magnitude
from hnfc.dialects.num.base import BinaryOp
from hnfc.dialects.num.elementary import LogOp
from hnfc.dialects.num.special import special
from hnfc.dialects.types import FLOATING, NUMBER


def pow_range(x: Interval, y: Interval) -> Interval:
    """x^y is monotone in each operand for x ≥ 0, so its extremes lie at the corners, or at 1 where x or y cross 1 or 0."""
    if x.lo < 0 or x.nan or y.nan:
        nan = x.nan or y.nan or x.lo < 0
        if y.lo == y.hi and y.lo == int_or_nan(y.lo) and y.lo >= 0 and y.lo % 2 == 0 and not x.nan:
            top = _corner(x.magnitude, y.lo)
            return Interval(0.0 if y.lo else 1.0, _looser(top), y.nan)
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


def power(x: Any, y: Any) -> Any:
    """x^y; of integers the integer part, so 0 where y is negative and |x| is not 1, as in torch."""
    x, y = np.asarray(x), np.asarray(y)
    if x.dtype.kind != "i" or not np.any(y < 0):
        # a constant of 0.5 is the root, as in torch; NumPy takes the root too, but not where both have one element and an axis
        return np.power(x, y.reshape(()) if y.size == 1 else y).reshape(np.broadcast_shapes(x.shape, y.shape))
    below = np.where(np.abs(x) == 1, np.where(y % 2 == 0, np.ones((), x.dtype), x), np.zeros((), x.dtype))
    return np.where(y < 0, below, np.power(x, np.maximum(y, 0)))


@irdl_op_definition
class PowOp(BinaryOp):
    """x^y."""

    name = "num.pow"
    FACTS: ClassVar = Facts(
        access=Access.ELEMENTWISE,
        exactness=Exactness.FUNCTION,
        accepts=NUMBER,
        underflows=True,
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
class Atan2Op(BinaryOp):
    """The angle of the point (y, x), where the operands are named x and y: atan2(x, y) has tangent x / y."""

    name = "num.atan2"
    FACTS: ClassVar = Facts(
        access=Access.ELEMENTWISE,
        exactness=Exactness.FUNCTION,
        accepts=FLOATING,
        underflows=True,
        domain=RealDomain(irregular=True),
        real=lambda m, x, y: m.atan2(x, y),
        evaluate=np.arctan2,
        range=lambda x, y: Interval(-3.1415926535897936 if x.lo <= 0 else 0.0, 3.1415926535897936 if x.hi >= 0 else 0.0, x.nan or y.nan),
        torch=("aten.atan2",),
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
