"""The error function, the logarithm of gamma, and Bessel functions."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from xdsl.irdl import irdl_op_definition

from hnfc.dialects.facts import UNKNOWN_CONTEXT, Access, Context, Elementary, Exactness, Facts, Parity, RealDomain
from hnfc.dialects.interval import Interval, decreasing, increasing, magnitude, valley
from hnfc.dialects.num.base import UnaryOp
from hnfc.dialects.types import FLOATING

GAMMA_MINIMUM = 1.4616321449683622
"""Argument at which lgamma is least on the positive numbers; the value there is -0.1214862905."""


def special(name: str) -> Any:
    """scipy.special's function of that name, imported when it is first called."""

    def call(*arrays: Any) -> Any:
        import scipy.special  # type: ignore[import-untyped,unused-ignore]

        return getattr(scipy.special, name)(*arrays)

    return call


def lgamma_range(x: Interval, context: Context = UNKNOWN_CONTEXT) -> Interval:
    """lgamma is convex on the positive numbers; elsewhere it is only known to be a number (or NaN at -inf).

    Near its zeros an implementation rounds numbers of the size of 1.
    """
    if x.lo > 0:
        unit = context.format.unit_roundoff if context.format else 2.0**-53
        y = valley(special("gammaln"), GAMMA_MINIMUM, -0.1214862906)(x)
        low = y.lo if math.isinf(y.lo) else y.lo - 64 * unit * (1 + abs(y.lo))
        return Interval(low, y.hi + 64 * unit * (1 + abs(y.hi)), y.nan)
    return Interval(-math.inf, math.inf, x.nan or x.lo == -math.inf)


def i0_range(x: Interval) -> Interval:
    y = valley(special("i0"), 0.0, 1.0)(x)
    return Interval(y.lo, y.hi, y.nan or math.isinf(x.magnitude))


def log_ndtr_range(x: Interval, context: Context = UNKNOWN_CONTEXT) -> Interval:
    """Rising to 0; near 0 and far on the left an implementation rounds numbers of the size of 1 + x²."""
    unit = context.format.unit_roundoff if context.format else 2.0**-53
    y = increasing(special("log_ndtr"))(x)
    return Interval(y.lo - 16 * unit * (1 + abs(y.lo)), min(0.0, y.hi + 16 * unit * (1 + abs(y.hi))), y.nan)


@irdl_op_definition
class ErfOp(UnaryOp):
    """2/√π ∫₀ˣ e^-t² dt."""

    name = "num.erf"
    FACTS: ClassVar = Facts(
        access=Access.ELEMENTWISE,
        exactness=Exactness.FUNCTION,
        accepts=FLOATING,
        parity=Parity.ODD,
        real=lambda m, x: m.erf(x),
        evaluate=special("erf"),
        range=increasing(special("erf")),
        torch=("aten.erf",),
        stray_half=4e-7,  # a polynomial (Abramowitz and Stegun, 7.1.26)
        roundings=2,
    )


@irdl_op_definition
class ErfcOp(UnaryOp):
    """1 - erf(x), without the loss of digits for large x."""

    name = "num.erfc"
    FACTS: ClassVar = Facts(
        access=Access.ELEMENTWISE,
        exactness=Exactness.FUNCTION,
        accepts=FLOATING,
        underflows=True,
        real=lambda m, x: m.const(1) - m.erf(x),
        evaluate=special("erfc"),
        range=decreasing(math.erfc),
        torch=("aten.special_erfc", "aten.erfc"),
        ulps=64,
        gradient=lambda m, x: (-2 / math.sqrt(math.pi) * m.exp(-x * x),),
    )


def _slope_of_erfcx(m: Elementary, x: Any) -> Any:
    """2x·erfcx(x) - 2/√π; from 4 on, where that cancels, by the continued fraction of erfcx(x) = 1/(√π·(x + r))."""
    large = m.where(x > 4, x, x * 0 + 4)
    rest = x * 0
    for k in range(_TERMS_OF_ERFCX, 0, -1):
        rest = k / 2 / (large + rest)
    near = m.where(x > 4, x * 0, x)
    return m.where(x > 4, -rest / (large + rest), math.sqrt(math.pi) * near * m.erfcx(near) - 1) * (2 / math.sqrt(math.pi))


_TERMS_OF_ERFCX = 40
"""Terms of the continued fraction from 4 on, for float64."""


@irdl_op_definition
class ErfcxOp(UnaryOp):
    """e^(x²)·(1 - erf(x)), which is about 1/(x·√π) where erfc(x) underflows."""

    name = "num.erfcx"
    FACTS: ClassVar = Facts(
        access=Access.ELEMENTWISE,
        exactness=Exactness.FUNCTION,
        accepts=FLOATING,
        real=lambda m, x: m.exp(x * x) * (m.const(1) - m.erf(x)),
        evaluate=special("erfcx"),
        range=decreasing(special("erfcx")),
        torch=("aten.special_erfcx",),
        ulps=1024,  # kernels round x² before they take e^(x²) of it
        gradient=lambda m, x: (_slope_of_erfcx(m, x),),
    )


@irdl_op_definition
class LgammaOp(UnaryOp):
    """log |Γ(x)|."""

    name = "num.lgamma"
    FACTS: ClassVar = Facts(
        access=Access.ELEMENTWISE,
        exactness=Exactness.FUNCTION,
        accepts=FLOATING,
        domain=RealDomain(irregular=True),
        real=lambda m, x: m.lgamma(x),
        evaluate=special("gammaln"),
        range=lgamma_range,
        torch=("aten.lgamma",),
        contextual=True,
        ulps=64,
    )


@irdl_op_definition
class I0Op(UnaryOp):
    """The modified Bessel function I₀(x)."""

    name = "num.i0"
    FACTS: ClassVar = Facts(
        access=Access.ELEMENTWISE,
        exactness=Exactness.FUNCTION,
        accepts=FLOATING,
        parity=Parity.EVEN,
        real=lambda m, x: m.i0(x),
        evaluate=special("i0"),
        range=i0_range,
        torch=("aten.i0", "aten.special_i0"),
        ulps=64,
        early=100.0,  # e^|x| overflows first
    )


@irdl_op_definition
class I0eOp(UnaryOp):
    """e^-|x|·I₀(x)."""

    name = "num.i0e"
    FACTS: ClassVar = Facts(
        access=Access.ELEMENTWISE,
        exactness=Exactness.FUNCTION,
        accepts=FLOATING,
        parity=Parity.EVEN,
        real=lambda m, x: m.exp(-m.abs(x)) * m.i0(x),
        evaluate=special("i0e"),
        range=lambda x: decreasing(special("i0e"))(magnitude(x)),
        torch=("aten.special_i0e",),
        ulps=64,
    )


@irdl_op_definition
class LogNdtrOp(UnaryOp):
    """log((1 + erf(x/√2)) / 2), the logarithm of the normal distribution function."""

    name = "num.log_ndtr"
    FACTS: ClassVar = Facts(
        access=Access.ELEMENTWISE,
        exactness=Exactness.FUNCTION,
        accepts=FLOATING,
        underflows=True,
        real=lambda m, x: m.log((m.const(1) + m.erf(x / m.sqrt(m.const(2)))) / m.const(2)),
        evaluate=special("log_ndtr"),
        range=log_ndtr_range,
        torch=("aten.special_log_ndtr",),
        contextual=True,
        ulps=64,
        gradient=lambda m, x: (math.sqrt(2 / math.pi) / m.erfcx(-x * math.sqrt(0.5)),),
    )
