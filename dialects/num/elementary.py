"""Elementary functions of one operand: signs, powers, exponentials and logarithms."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from xdsl.irdl import irdl_op_definition

from hnfc.dialects.facts import Access, Exactness, Facts, Parity, RealDomain
from hnfc.dialects.interval import Interval, decreasing, increasing, magnitude, square
from hnfc.dialects.num.base import UnaryOp
from hnfc.dialects.types import ANY, FLOATING, NUMBER

THIRD = Fraction(1, 3)


def root_slope(m: Any, size: Any) -> Any:
    """The slope of the cube root at ±size: 1/(3·size^(2/3))."""
    return 1 / (3 * size ** (2 / 3))


def rsqrt_range(x: Interval) -> Interval:
    """NaN below 0, and -inf at -0."""
    return Interval(-math.inf, math.inf, x.nan or x.lo < 0) if x.lo < 0 or x.minus_zero else decreasing(lambda t: 1 / np.sqrt(t))(x)


@irdl_op_definition
class NegOp(UnaryOp):
    """-x."""

    name = "num.neg"
    FACTS: ClassVar = Facts(
        access=Access.ELEMENTWISE,
        exactness=Exactness.NEGATION,
        accepts=NUMBER,
        modular=True,
        real=lambda m, x: -x,
        evaluate=np.negative,
        range=lambda x: -x,
        torch=("aten.neg",),
    )


@irdl_op_definition
class DetachOp(UnaryOp):
    """x, through which no gradient passes: a rule that reached across it would change the gradient of a model that trains."""

    name = "num.detach"
    FACTS: ClassVar = Facts(
        access=Access.ELEMENTWISE,
        exactness=Exactness.SELECTION,
        accepts=ANY,
        real=lambda m, x: x,
        evaluate=lambda x: x,
        range=lambda x: x,
        torch=("aten.detach",),
    )


@irdl_op_definition
class AbsOp(UnaryOp):
    """|x|."""

    name = "num.abs"
    FACTS: ClassVar = Facts(
        access=Access.ELEMENTWISE,
        exactness=Exactness.NEGATION,
        accepts=NUMBER,
        parity=Parity.EVEN,
        real=lambda m, x: m.abs(x),
        evaluate=np.abs,
        range=magnitude,
        torch=("aten.abs",),
    )


@irdl_op_definition
class SignOp(UnaryOp):
    """-1, 0 or 1 with the sign of x."""

    name = "num.sign"
    FACTS: ClassVar = Facts(
        access=Access.ELEMENTWISE,
        exactness=Exactness.EXACT,
        accepts=ANY,
        real=lambda m, x: m.where(
            m.compare("gt", x, m.const(0)), m.const(1), m.where(m.compare("lt", x, m.const(0)), m.const(-1), m.const(0))
        ),
        evaluate=lambda x: x if x.dtype == np.bool_ else (x > 0).astype(x.dtype) - (x < 0).astype(x.dtype),
        range=lambda x: Interval(
            -1.0 if x.lo < 0 else 0.0 if x.lo == 0 or x.nan else 1.0, 1.0 if x.hi > 0 else 0.0 if x.hi == 0 or x.nan else -1.0
        ),
        torch=("aten.sign", "aten.sgn"),
    )


@irdl_op_definition
class ExpOp(UnaryOp):
    """e^x."""

    name = "num.exp"
    FACTS: ClassVar = Facts(
        access=Access.ELEMENTWISE,
        exactness=Exactness.FUNCTION,
        accepts=FLOATING,
        underflows=True,
        curvature=lambda x: np.exp(2 * x),
        real=lambda m, x: m.exp(x),
        evaluate=np.exp,
        range=increasing(np.exp),
        torch=("aten.exp",),
        gradient=lambda m, x: (m.exp(x),),
    )


@irdl_op_definition
class Exp2Op(UnaryOp):
    """2^x."""

    name = "num.exp2"
    FACTS: ClassVar = Facts(
        access=Access.ELEMENTWISE,
        exactness=Exactness.FUNCTION,
        accepts=FLOATING,
        underflows=True,
        curvature=lambda x: np.exp2(2 * x),
        real=lambda m, x: m.pow(m.const(2), x),
        evaluate=np.exp2,
        range=increasing(np.exp2),
        torch=("aten.exp2",),
    )


@irdl_op_definition
class Expm1Op(UnaryOp):
    """e^x - 1, without the loss of digits near 0."""

    name = "num.expm1"
    FACTS: ClassVar = Facts(
        access=Access.ELEMENTWISE,
        exactness=Exactness.FUNCTION,
        accepts=FLOATING,
        curvature=lambda x: np.exp(2 * x),
        real=lambda m, x: m.exp(x) - m.const(1),
        evaluate=np.expm1,
        range=increasing(np.expm1, signed=True),
        torch=("aten.expm1",),
        gradient=lambda m, x: (m.exp(x),),
    )


@irdl_op_definition
class LogOp(UnaryOp):
    """The natural logarithm of x."""

    name = "num.log"
    FACTS: ClassVar = Facts(
        access=Access.ELEMENTWISE,
        exactness=Exactness.FUNCTION,
        accepts=FLOATING,
        domain=RealDomain(0, open=True),
        curvature=lambda x: 1 / x**2,
        real=lambda m, x: m.log(x),
        evaluate=np.log,
        range=increasing(np.log, 0.0),
        torch=("aten.log",),
        gradient=lambda m, x: (1 / x,),
    )


@irdl_op_definition
class Log2Op(UnaryOp):
    """log x / log 2."""

    name = "num.log2"
    FACTS: ClassVar = Facts(
        access=Access.ELEMENTWISE,
        exactness=Exactness.FUNCTION,
        accepts=FLOATING,
        domain=RealDomain(0, open=True),
        curvature=lambda x: 1 / x**2,
        real=lambda m, x: m.log(x) / m.log(m.const(2)),
        evaluate=np.log2,
        range=increasing(np.log2, 0.0),
        torch=("aten.log2",),
    )


@irdl_op_definition
class Log10Op(UnaryOp):
    """log x / log 10."""

    name = "num.log10"
    FACTS: ClassVar = Facts(
        access=Access.ELEMENTWISE,
        exactness=Exactness.FUNCTION,
        accepts=FLOATING,
        domain=RealDomain(0, open=True),
        curvature=lambda x: 1 / x**2,
        real=lambda m, x: m.log(x) / m.log(m.const(10)),
        evaluate=np.log10,
        range=increasing(np.log10, 0.0),
        torch=("aten.log10",),
    )


@irdl_op_definition
class Log1pOp(UnaryOp):
    """log(1 + x), without the loss of digits near 0."""

    name = "num.log1p"
    FACTS: ClassVar = Facts(
        access=Access.ELEMENTWISE,
        exactness=Exactness.FUNCTION,
        accepts=FLOATING,
        domain=RealDomain(-1, open=True),
        curvature=lambda x: 1 / (1 + x) ** 2,
        real=lambda m, x: m.log(m.const(1) + x),
        evaluate=np.log1p,
        range=increasing(np.log1p, -1.0),
        torch=("aten.log1p",),
        gradient=lambda m, x: (1 / (1 + x),),
    )


@irdl_op_definition
class SqrtOp(UnaryOp):
    """The square root of x."""

    name = "num.sqrt"
    FACTS: ClassVar = Facts(
        access=Access.ELEMENTWISE,
        exactness=Exactness.CORRECT,
        accepts=FLOATING,
        domain=RealDomain(0),
        real=lambda m, x: m.sqrt(x),
        evaluate=np.sqrt,
        range=increasing(np.sqrt, 0.0, signed=True),
        torch=("aten.sqrt",),
        ulps=2,  # vectorized kernels of torch are not rounded correctly
        gradient=lambda m, x: (0.5 / m.sqrt(x),),
    )


@irdl_op_definition
class CbrtOp(UnaryOp):
    """The real cube root of x."""

    name = "num.cbrt"
    FACTS: ClassVar = Facts(
        access=Access.ELEMENTWISE,
        exactness=Exactness.FUNCTION,
        accepts=FLOATING,
        parity=Parity.ODD,
        real=lambda m, x: m.where(m.compare("lt", x, m.const(0)), m.const(-1), m.const(1)) * m.pow(m.abs(x), m.const(THIRD)),
        evaluate=np.cbrt,
        range=increasing(np.cbrt, signed=True),
        torch=(),
        gradient=lambda m, x: (root_slope(m, m.abs(x)),),
    )


@irdl_op_definition
class RsqrtOp(UnaryOp):
    """1 / sqrt(x)."""

    name = "num.rsqrt"
    FACTS: ClassVar = Facts(
        access=Access.ELEMENTWISE,
        exactness=Exactness.FUNCTION,
        accepts=FLOATING,
        domain=RealDomain(0, open=True),
        real=lambda m, x: m.const(1) / m.sqrt(x),
        evaluate=lambda x: 1 / np.sqrt(x),
        range=rsqrt_range,
        torch=("aten.rsqrt",),
        roundings=2,
        gradient=lambda m, x: (-0.5 / (x * m.sqrt(x)),),
    )


@irdl_op_definition
class SquareOp(UnaryOp):
    """x·x."""

    name = "num.square"
    FACTS: ClassVar = Facts(
        access=Access.ELEMENTWISE,
        exactness=Exactness.CORRECT,
        accepts=NUMBER,
        underflows=True,
        modular=True,
        real=lambda m, x: x * x,
        evaluate=np.square,
        range=square,
        torch=("aten.square",),
    )


@irdl_op_definition
class ReciprocalOp(UnaryOp):
    """1 / x."""

    name = "num.reciprocal"
    FACTS: ClassVar = Facts(
        access=Access.ELEMENTWISE,
        exactness=Exactness.CORRECT,
        accepts=FLOATING,
        domain=RealDomain(pole=True),
        curvature=lambda x: 1 / np.abs(x) ** 3,
        real=lambda m, x: m.const(1) / x,
        evaluate=lambda x: 1 / x,
        range=lambda x: x.reciprocal(),
        torch=("aten.reciprocal",),
        ulps=8,
        gradient=lambda m, x: (-1 / (x * x),),
    )
