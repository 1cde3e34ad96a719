"""Activation functions, each stable for every finite operand."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from xdsl.dialects.builtin import StringAttr
from xdsl.irdl import irdl_op_definition, prop_def

from hnfc.dialects.assembly import TYPES
from hnfc.dialects.facts import UNKNOWN_CONTEXT, Access, Context, Exactness, Facts, StepBuilder
from hnfc.dialects.interval import Interval, increasing, valley
from hnfc.dialects.num.base import UnaryOp
from hnfc.dialects.types import FLOATING, NUMBER, ElementFormat

GELU_CUBIC = Fraction(44715, 1000000)
GELU_MINIMUM = -0.7517915
"""Argument at which x·Φ(x) is least; the value there is above -0.1701. The tanh form is least at -0.7524614, above -0.1701 too."""


def sigmoid(x: Any) -> Any:
    """1 / (1 + e^-x); where e^-x would overflow, e^x / (1 + e^x) = 0 = the limit."""
    small = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + small), small / (1 + small)).astype(np.asarray(x).dtype)


def softplus(x: Any) -> Any:
    """max(x, 0) + log1p(e^-|x|)."""
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def gelu(x: Any, approximate: str = "none") -> Any:
    """x·Φ(x), with Φ from erfc so that the tail on the left keeps its digits; the tanh form as torch computes it."""
    if approximate == "tanh":
        inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)
        return (x * sigmoid(2 * inner)).astype(np.asarray(x).dtype)
    import scipy.special  # type: ignore[import-untyped,unused-ignore]

    return (x * scipy.special.erfc(-x / math.sqrt(2)) / 2).astype(np.asarray(x).dtype)


def gelu_formula(m: Any, x: Any, approximate: str = "none") -> Any:
    one, two = m.const(1), m.const(2)
    if approximate == "none":
        return x * (one + m.erf(x / m.sqrt(two))) / two
    root = m.sqrt(two / (m.const(4) * m.atan(one)))
    double = two * root * (x + m.const(GELU_CUBIC) * x * x * x)
    return x * m.exp(double) / (m.exp(double) + one)


def gelu_steps(s: StepBuilder, x: Any, approximate: str = "none") -> Any:
    if approximate == "none":
        return s("div", s("mul", x, s("erfc", s("div", s("neg", x), math.sqrt(2)))), 2)
    cubic = s("mul", s("mul", s("mul", GELU_CUBIC, x), x), x)
    inner = s("mul", math.sqrt(2 / math.pi), s("add", x, cubic))
    return s("mul", x, s("sigmoid", s("mul", 2, inner)))


def _product_with(gate: Any) -> Any:
    """The scalar function x·gate(x), with 0 for -inf."""
    return lambda x: 0.0 if x == -math.inf else x * gate(x)


def dip(gate: Any, at: float, least: float) -> Callable[..., Interval]:
    """The transfer of x·gate(x), gate rising from 0 to 1: least at `at`, approaching 0 on the left, NaN at -inf."""
    inner = valley(_product_with(gate), at, least)

    def transfer(x: Interval, **_: object) -> Interval:
        y = inner(x)
        low, high = (min(y.lo, 0.0), max(y.hi, 0.0)) if x.lo < 0 else (y.lo, y.hi)
        return Interval(low, high, y.nan or x.lo == -math.inf, x.minus_zero or x.lo < 0)

    return transfer


def _deepest(context: Context) -> float:
    """Argument from which e^-x overflows in the format (with some room): the function below it may be taken for 0."""
    return -math.log(context.format.largest) + 1 if context.format else -700.0


def sigmoid_range(x: Interval, context: Context = UNKNOWN_CONTEXT) -> Interval:
    y = increasing(sigmoid)(x)
    return Interval(0.0, min(y.hi, 1.0), y.nan) if x.lo < _deepest(context) else Interval(y.lo, min(y.hi, 1.0), y.nan)


def softplus_range(x: Interval) -> Interval:
    """torch drops the logarithm above 20."""
    y: Interval = increasing(softplus)(x)
    return y.hull(Interval(x.lo, x.lo)) if x.lo > 20 else y


def silu_range(x: Interval, context: Context = UNKNOWN_CONTEXT) -> Interval:
    y = dip(sigmoid, -1.2784645427610738, -0.27846455)(x)
    return y.hull(Interval(0.0, 0.0, minus=True)) if x.lo < _deepest(context) else y


def gelu_range(x: Interval, approximate: str = "none", context: Context = UNKNOWN_CONTEXT) -> Interval:
    """x·Φ(x), where an implementation may round Φ(x) = (1 + erf(x/√2))/2 to a multiple of the unit roundoff; tanh is within 5e-4."""
    unit = context.format.unit_roundoff if context.format else 2.0**-53
    y = dip(lambda t: math.erfc(-t / math.sqrt(2)) / 2, GELU_MINIMUM, -0.1701)(x)
    stray = 5e-4 if approximate == "tanh" else 0.0
    below = stray + 8 * unit * min(abs(x.lo), 40.0) if x.lo < 0 else stray
    huge = math.sqrt(context.format.largest if context.format else 1e300)
    nan = y.nan or x.magnitude >= huge  # kernels square or cube x
    high = max(y.hi + stray, 8 * unit * abs(min(x.lo, 0.0)) if x.lo > -math.inf else 1.0)
    return Interval(y.lo - below, high, nan, y.minus)


def lost_left(form: ElementFormat, x: Any) -> Any:
    """Loss of x/(1 + e^-x) that is taken for 0, since e^-x overflows or is flushed."""
    left = np.maximum(-np.asarray(x.lo, np.float64), 0.0)
    return np.where(left > 80, np.minimum(left, 800.0) * (2 / form.largest + 2 * form.flushed), 0.0)


def dropped_logarithm(form: ElementFormat, x: Any) -> Any:
    """log(1 + e^-x), which torch drops above 20."""
    return np.where(np.asarray(x.hi) > 20, 2.07e-9, 0.0)


def square(x: Any) -> Any:
    """x·x, of which an interval is never negative."""
    return x * x


def square_of(m: Any, x: Any) -> Any:
    """(1 + e^x)² = e^(2·softplus(x))."""
    return (m.const(1) + m.exp(x)) * (m.const(1) + m.exp(x))


@irdl_op_definition
class SigmoidOp(UnaryOp):
    """1 / (1 + e^-x)."""

    name = "num.sigmoid"
    FACTS: ClassVar = Facts(
        access=Access.ELEMENTWISE,
        exactness=Exactness.FUNCTION,
        accepts=FLOATING,
        underflows=True,
        real=lambda m, x: m.const(1) / (m.const(1) + m.exp(-x)),
        evaluate=sigmoid,
        range=sigmoid_range,
        torch=("aten.sigmoid",),
        contextual=True,
        derivative=lambda m, x, y: m.const(Fraction(1, 4)) - square(y - m.const(Fraction(1, 2))),
        gradient=lambda m, x: (m.sigmoid(x) * m.sigmoid(-x),),
        stray=lambda form, x: np.where(np.asarray(x.lo) < -80, 2 / form.largest, 0.0),  # e^-x overflows
    )


@irdl_op_definition
class LogSigmoidOp(UnaryOp):
    """log(1 / (1 + e^-x))."""

    name = "num.log_sigmoid"
    FACTS: ClassVar = Facts(
        access=Access.ELEMENTWISE,
        exactness=Exactness.FUNCTION,
        accepts=FLOATING,
        underflows=True,
        real=lambda m, x: m.log(m.const(1) / (m.const(1) + m.exp(-x))),
        evaluate=lambda x: -softplus(-x),
        range=increasing(lambda x: -softplus(-x)),
        torch=("aten.log_sigmoid",),
        derivative=lambda m, x, y: m.const(1) / (m.const(1) + m.exp(x)),
        gradient=lambda m, x: (m.sigmoid(-x),),
    )


@irdl_op_definition
class SiluOp(UnaryOp):
    """x / (1 + e^-x)."""

    name = "num.silu"
    FACTS: ClassVar = Facts(
        access=Access.ELEMENTWISE,
        exactness=Exactness.FUNCTION,
        accepts=FLOATING,
        underflows=True,
        real=lambda m, x: x / (m.const(1) + m.exp(-x)),
        evaluate=lambda x: x * sigmoid(x),
        range=silu_range,
        torch=("aten.silu",),
        gradient=lambda m, x: (m.sigmoid(x) + x * m.sigmoid(x) * m.sigmoid(-x),),
        contextual=True,
        stray=lost_left,
    )


@irdl_op_definition
class SoftplusOp(UnaryOp):
    """log(1 + e^x)."""

    name = "num.softplus"
    FACTS: ClassVar = Facts(
        access=Access.ELEMENTWISE,
        exactness=Exactness.FUNCTION,
        accepts=FLOATING,
        underflows=True,
        real=lambda m, x: m.log(m.const(1) + m.exp(x)),
        evaluate=softplus,
        range=softplus_range,
        torch=("aten.softplus",),
        derivative=lambda m, x, y: m.const(1) / (m.const(1) + m.exp(-x)),
        gradient=lambda m, x: (m.sigmoid(x),),
        stray=dropped_logarithm,
    )


@irdl_op_definition
class ReluOp(UnaryOp):
    """max(x, 0)."""

    name = "num.relu"
    FACTS: ClassVar = Facts(
        access=Access.ELEMENTWISE,
        exactness=Exactness.SELECTION,
        accepts=NUMBER,
        real=lambda m, x: m.maximum(x, m.const(0)),
        evaluate=lambda x: np.maximum(x, np.zeros((), np.asarray(x).dtype)),
        range=lambda x: Interval(max(x.lo, 0.0), max(x.hi, 0.0), x.nan, x.minus_zero),
        torch=("aten.relu",),
    )


@irdl_op_definition
class GeluOp(UnaryOp):
    """x·(1 + erf(x/√2)) / 2, or with approximate = "tanh" x·(1 + tanh(√(2/π)·(x + 0.044715·x³))) / 2."""

    name = "num.gelu"
    approximate = prop_def(StringAttr)
    assembly_format = f"$x $approximate {TYPES}"
    FACTS: ClassVar = Facts(
        access=Access.ELEMENTWISE,
        exactness=Exactness.FUNCTION,
        accepts=FLOATING,
        underflows=True,
        real=gelu_formula,
        steps=gelu_steps,
        evaluate=gelu,
        range=gelu_range,
        torch=("aten.gelu",),
        contextual=True,
        early=2.01,  # 2·x·Φ(x) is halved
    )


def mish_slope(m: Any, x: Any) -> tuple[Any]:
    """t + xσ(x)·(1 - t)(1 + t) with t = tanh(log(1 + e^x)), of which t and 1 - t are quotients in e^-|x|."""
    w = m.exp(-m.abs(x))
    t = m.where(x > 0, 1 + 2 * w, w * (w + 2)) / m.where(x > 0, 1 + 2 * w * (1 + w), 2 + w * (w + 2))
    rest = m.where(x > 0, 2 * w * w, 2 + 0 * w) / m.where(x > 0, 1 + 2 * w * (1 + w), 2 + w * (w + 2))
    return (t + x * m.sigmoid(x) * rest * (1 + t),)


@irdl_op_definition
class MishOp(UnaryOp):
    """x·tanh(log(1 + e^x))."""

    name = "num.mish"
    FACTS: ClassVar = Facts(
        access=Access.ELEMENTWISE,
        exactness=Exactness.FUNCTION,
        accepts=FLOATING,
        underflows=True,
        real=lambda m, x: x * (square_of(m, x) - m.const(1)) / (square_of(m, x) + m.const(1)),
        evaluate=lambda x: x * np.tanh(softplus(x)),
        range=dip(lambda t: math.tanh(softplus(t)), -1.1924312, -0.3088435),
        torch=("aten.mish",),
        gradient=mish_slope,
        stray=lost_left,
    )
