"""Elementary functions of one operand: powers, exponentials, logarithms, circular and hyperbolic functions, and the special ones."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
from xdsl.irdl import irdl_op_definition

from hnfc.dialects.facts import UNKNOWN_CONTEXT, Context, Facts
from hnfc.dialects.interval import (
    Interval,
    decreasing,
    increasing,
    keeps_sign_of_zero,
    magnitude,
    square,
    valley,
    within,
)
from hnfc.dialects.num.base import UnaryOp

LARGEST_LOGARITHM = 710.0
"""Beyond it sinh and cosh leave the range of a double."""

GAMMA_MINIMUM = 1.4616321449683622
"""Where lgamma is least on the positive numbers; its value there is -0.1214862905."""


def special(name: str) -> Any:
    """scipy.special's function of that name, imported when it is first called."""

    def call(*arrays: Any) -> Any:
        import scipy.special

        return getattr(scipy.special, name)(*arrays)

    return call


def exp2(x: float) -> float:
    return math.pow(2.0, x)


def lgamma_range(x: Interval) -> Interval:
    """lgamma is convex on the positive numbers; elsewhere it is only known to be a number (or NaN at -inf)."""
    if x.lo > 0:
        return valley(math.lgamma, GAMMA_MINIMUM, -0.1214862906)(x)
    return Interval(-math.inf, math.inf, x.nan or x.lo == -math.inf)


def sinh(x: float) -> float:
    return math.copysign(math.inf, x) if abs(x) > LARGEST_LOGARITHM else math.sinh(x)


def cosh(x: float) -> float:
    return math.inf if abs(x) > LARGEST_LOGARITHM else math.cosh(x)


def i0_range(x: Interval) -> Interval:
    y = valley(i0, 0.0, 1.0)(x)
    return Interval(y.lo, y.hi, y.nan or math.isinf(x.magnitude))


def i0(x: float) -> float:
    import scipy.special

    return float(scipy.special.i0(x))


def i0e(x: float) -> float:
    import scipy.special

    return float(scipy.special.i0e(x))


def log_ndtr(x: float) -> float:
    import scipy.special

    return float(scipy.special.log_ndtr(x))


def log_ndtr_range(x: Interval, context: Context = UNKNOWN_CONTEXT) -> Interval:
    """Rising to 0; near 0 and far on the left an implementation rounds numbers of the size of 1 + x²."""
    unit = context.format.unit_roundoff if context.format else 2.0**-53
    y = increasing(log_ndtr)(x)
    return Interval(y.lo - 16 * unit * (1 + abs(y.lo)), min(0.0, y.hi + 16 * unit * (1 + abs(y.hi))), y.nan)


def rsqrt(x: float) -> float:
    return 1 / math.sqrt(x) if x > 0 else math.inf


@irdl_op_definition
class NegOp(UnaryOp):
    """-x."""

    name = "num.neg"
    FACTS: ClassVar = Facts(
        real=lambda m, x: -x,
        evaluate=np.negative,
        range=lambda x: -x,
        torch=("aten.neg",),
        ulps=0,
    )


@irdl_op_definition
class AbsOp(UnaryOp):
    """|x|."""

    name = "num.abs"
    FACTS: ClassVar = Facts(
        real=lambda m, x: m.abs(x),
        evaluate=np.abs,
        range=magnitude,
        torch=("aten.abs",),
        ulps=0,
    )


@irdl_op_definition
class SignOp(UnaryOp):
    """-1, 0 or 1 with the sign of x."""

    name = "num.sign"
    FACTS: ClassVar = Facts(
        real=lambda m, x: m.where(
            m.compare("gt", x, m.const(0)), m.const(1), m.where(m.compare("lt", x, m.const(0)), m.const(-1), m.const(0))
        ),
        evaluate=lambda x: (x > 0).astype(x.dtype) - (x < 0).astype(x.dtype),
        range=lambda x: Interval(
            -1.0 if x.lo < 0 else 0.0 if x.lo == 0 or x.nan else 1.0, 1.0 if x.hi > 0 else 0.0 if x.hi == 0 or x.nan else -1.0
        ),
        torch=("aten.sign", "aten.sgn"),
        ulps=0,
    )


@irdl_op_definition
class ExpOp(UnaryOp):
    """e^x."""

    name = "num.exp"
    FACTS: ClassVar = Facts(
        real=lambda m, x: m.exp(x),
        evaluate=np.exp,
        range=increasing(math.exp),
        torch=("aten.exp",),
    )


@irdl_op_definition
class Exp2Op(UnaryOp):
    """2^x."""

    name = "num.exp2"
    FACTS: ClassVar = Facts(
        real=lambda m, x: m.pow(m.const(2), x),
        evaluate=np.exp2,
        range=increasing(exp2),
        torch=("aten.exp2",),
    )


@irdl_op_definition
class Expm1Op(UnaryOp):
    """e^x - 1, without the loss of digits near 0."""

    name = "num.expm1"
    FACTS: ClassVar = Facts(
        real=lambda m, x: m.exp(x) - m.const(1),
        evaluate=np.expm1,
        range=keeps_sign_of_zero(increasing(math.expm1)),
        torch=("aten.expm1",),
    )


@irdl_op_definition
class LogOp(UnaryOp):
    """The natural logarithm of x."""

    name = "num.log"
    FACTS: ClassVar = Facts(
        real=lambda m, x: m.log(x),
        evaluate=np.log,
        range=increasing(math.log, 0.0),
        torch=("aten.log",),
    )


@irdl_op_definition
class Log2Op(UnaryOp):
    """log x / log 2."""

    name = "num.log2"
    FACTS: ClassVar = Facts(
        real=lambda m, x: m.log(x) / m.log(m.const(2)),
        evaluate=np.log2,
        range=increasing(math.log2, 0.0),
        torch=("aten.log2",),
    )


@irdl_op_definition
class Log10Op(UnaryOp):
    """log x / log 10."""

    name = "num.log10"
    FACTS: ClassVar = Facts(
        real=lambda m, x: m.log(x) / m.log(m.const(10)),
        evaluate=np.log10,
        range=increasing(math.log10, 0.0),
        torch=("aten.log10",),
    )


@irdl_op_definition
class Log1pOp(UnaryOp):
    """log(1 + x), without the loss of digits near 0."""

    name = "num.log1p"
    FACTS: ClassVar = Facts(
        real=lambda m, x: m.log(m.const(1) + x),
        evaluate=np.log1p,
        range=increasing(math.log1p, -1.0),
        torch=("aten.log1p",),
    )


@irdl_op_definition
class SqrtOp(UnaryOp):
    """The square root of x."""

    name = "num.sqrt"
    FACTS: ClassVar = Facts(
        real=lambda m, x: m.sqrt(x),
        evaluate=np.sqrt,
        range=keeps_sign_of_zero(increasing(math.sqrt, 0.0)),
        torch=("aten.sqrt",),
        ulps=1,
    )


@irdl_op_definition
class RsqrtOp(UnaryOp):
    """1 / sqrt(x)."""

    name = "num.rsqrt"
    FACTS: ClassVar = Facts(
        real=lambda m, x: m.const(1) / m.sqrt(x),
        evaluate=lambda x: 1 / np.sqrt(x),
        range=lambda x: Interval(-math.inf, math.inf, True) if x.lo < 0 else decreasing(rsqrt)(x),
        torch=("aten.rsqrt",),
    )


@irdl_op_definition
class SquareOp(UnaryOp):
    """x·x."""

    name = "num.square"
    FACTS: ClassVar = Facts(
        real=lambda m, x: x * x,
        evaluate=np.square,
        range=square,
        torch=("aten.square",),
        ulps=1,
    )


@irdl_op_definition
class ReciprocalOp(UnaryOp):
    """1 / x."""

    name = "num.reciprocal"
    FACTS: ClassVar = Facts(
        real=lambda m, x: m.const(1) / x,
        evaluate=lambda x: 1 / x,
        range=lambda x: x.reciprocal(),
        torch=("aten.reciprocal",),
    )


@irdl_op_definition
class SinOp(UnaryOp):
    """The sine of x radians."""

    name = "num.sin"
    FACTS: ClassVar = Facts(
        real=lambda m, x: m.sin(x),
        evaluate=np.sin,
        range=within(-1.0, 1.0, nan_at_infinity=True),
        torch=("aten.sin",),
    )


@irdl_op_definition
class CosOp(UnaryOp):
    """The cosine of x radians."""

    name = "num.cos"
    FACTS: ClassVar = Facts(
        real=lambda m, x: m.cos(x),
        evaluate=np.cos,
        range=within(-1.0, 1.0, nan_at_infinity=True),
        torch=("aten.cos",),
    )


@irdl_op_definition
class TanOp(UnaryOp):
    """sin x / cos x."""

    name = "num.tan"
    FACTS: ClassVar = Facts(
        real=lambda m, x: m.sin(x) / m.cos(x),
        evaluate=np.tan,
        range=lambda x: increasing(math.tan)(x) if x.lo >= -1.5 and x.hi <= 1.5 else within(-math.inf, math.inf, nan_at_infinity=True)(x),
        torch=("aten.tan",),
    )


@irdl_op_definition
class AsinOp(UnaryOp):
    """The angle in [-π/2, π/2] whose sine is x."""

    name = "num.asin"
    FACTS: ClassVar = Facts(
        real=lambda m, x: m.asin(x),
        evaluate=np.arcsin,
        range=increasing(math.asin, -1.0, 1.0),
        torch=("aten.asin",),
    )


@irdl_op_definition
class AcosOp(UnaryOp):
    """The angle in [0, π] whose cosine is x."""

    name = "num.acos"
    FACTS: ClassVar = Facts(
        real=lambda m, x: m.acos(x),
        evaluate=np.arccos,
        range=decreasing(math.acos, -1.0, 1.0),
        torch=("aten.acos",),
    )


@irdl_op_definition
class AtanOp(UnaryOp):
    """The angle in (-π/2, π/2) whose tangent is x."""

    name = "num.atan"
    FACTS: ClassVar = Facts(
        real=lambda m, x: m.atan(x),
        evaluate=np.arctan,
        range=increasing(math.atan),
        torch=("aten.atan",),
    )


@irdl_op_definition
class SinhOp(UnaryOp):
    """(e^x - e^-x) / 2."""

    name = "num.sinh"
    FACTS: ClassVar = Facts(
        real=lambda m, x: (m.exp(x) - m.exp(-x)) / m.const(2),
        evaluate=np.sinh,
        range=increasing(sinh),
        torch=("aten.sinh",),
    )


@irdl_op_definition
class CoshOp(UnaryOp):
    """(e^x + e^-x) / 2."""

    name = "num.cosh"
    FACTS: ClassVar = Facts(
        real=lambda m, x: (m.exp(x) + m.exp(-x)) / m.const(2),
        evaluate=np.cosh,
        range=valley(cosh, 0.0, 1.0),
        torch=("aten.cosh",),
    )


@irdl_op_definition
class TanhOp(UnaryOp):
    """(e^2x - 1) / (e^2x + 1)."""

    name = "num.tanh"
    FACTS: ClassVar = Facts(
        real=lambda m, x: (m.exp(x + x) - m.const(1)) / (m.exp(x + x) + m.const(1)),
        evaluate=np.tanh,
        range=increasing(math.tanh),
        torch=("aten.tanh",),
    )


@irdl_op_definition
class AsinhOp(UnaryOp):
    """log(x + sqrt(x² + 1))."""

    name = "num.asinh"
    FACTS: ClassVar = Facts(
        real=lambda m, x: m.log(x + m.sqrt(x * x + m.const(1))),
        evaluate=np.arcsinh,
        range=increasing(math.asinh),
        torch=("aten.asinh",),
    )


@irdl_op_definition
class AcoshOp(UnaryOp):
    """log(x + sqrt(x² - 1)), for x ≥ 1."""

    name = "num.acosh"
    FACTS: ClassVar = Facts(
        real=lambda m, x: m.log(x + m.sqrt(x * x - m.const(1))),
        evaluate=np.arccosh,
        range=increasing(math.acosh, 1.0),
        torch=("aten.acosh",),
    )


@irdl_op_definition
class AtanhOp(UnaryOp):
    """log((1 + x) / (1 - x)) / 2."""

    name = "num.atanh"
    FACTS: ClassVar = Facts(
        real=lambda m, x: m.log((m.const(1) + x) / (m.const(1) - x)) / m.const(2),
        evaluate=np.arctanh,
        range=increasing(math.atanh, -1.0, 1.0),
        torch=("aten.atanh",),
    )


@irdl_op_definition
class ErfOp(UnaryOp):
    """2/√π ∫₀ˣ e^-t² dt."""

    name = "num.erf"
    FACTS: ClassVar = Facts(
        real=lambda m, x: m.erf(x),
        evaluate=special("erf"),
        range=increasing(math.erf),
        torch=("aten.erf",),
    )


@irdl_op_definition
class ErfcOp(UnaryOp):
    """1 - erf(x), without the loss of digits for large x."""

    name = "num.erfc"
    FACTS: ClassVar = Facts(
        real=lambda m, x: m.const(1) - m.erf(x),
        evaluate=special("erfc"),
        range=decreasing(math.erfc),
        torch=("aten.special_erfc", "aten.erfc"),
        ulps=64,
    )


@irdl_op_definition
class LgammaOp(UnaryOp):
    """log |Γ(x)|."""

    name = "num.lgamma"
    FACTS: ClassVar = Facts(
        real=lambda m, x: m.lgamma(x),
        evaluate=special("gammaln"),
        range=lgamma_range,
        torch=("aten.lgamma",),
        ulps=64,
    )


@irdl_op_definition
class I0Op(UnaryOp):
    """The modified Bessel function I₀(x)."""

    name = "num.i0"
    FACTS: ClassVar = Facts(
        real=lambda m, x: m.i0(x),
        evaluate=special("i0"),
        range=i0_range,
        torch=("aten.i0", "aten.special_i0"),
        ulps=64,
    )


@irdl_op_definition
class I0eOp(UnaryOp):
    """e^-|x|·I₀(x)."""

    name = "num.i0e"
    FACTS: ClassVar = Facts(
        real=lambda m, x: m.exp(-m.abs(x)) * m.i0(x),
        evaluate=special("i0e"),
        range=lambda x: decreasing(i0e)(magnitude(x)),
        torch=("aten.special_i0e",),
        ulps=64,
    )


@irdl_op_definition
class LogNdtrOp(UnaryOp):
    """log((1 + erf(x/√2)) / 2), the logarithm of the normal distribution function."""

    name = "num.log_ndtr"
    FACTS: ClassVar = Facts(
        real=lambda m, x: m.log((m.const(1) + m.erf(x / m.sqrt(m.const(2)))) / m.const(2)),
        evaluate=special("log_ndtr"),
        range=log_ndtr_range,
        torch=("aten.special_log_ndtr",),
        contextual=True,
    )
