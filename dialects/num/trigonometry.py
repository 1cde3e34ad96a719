"""Circular and hyperbolic functions and their inverses."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
from xdsl.irdl import irdl_op_definition

from hnfc.dialects.facts import Access, Exactness, Facts, Parity, RealDomain
from hnfc.dialects.interval import decreasing, increasing, valley, within
from hnfc.dialects.num.base import UnaryOp
from hnfc.dialects.types import FLOATING


@irdl_op_definition
class SinOp(UnaryOp):
    """The sine of x radians."""

    name = "num.sin"
    FACTS: ClassVar = Facts(
        access=Access.ELEMENTWISE,
        exactness=Exactness.FUNCTION,
        accepts=FLOATING,
        parity=Parity.ODD,
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
        access=Access.ELEMENTWISE,
        exactness=Exactness.FUNCTION,
        accepts=FLOATING,
        parity=Parity.EVEN,
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
        access=Access.ELEMENTWISE,
        exactness=Exactness.FUNCTION,
        accepts=FLOATING,
        parity=Parity.ODD,
        domain=RealDomain(irregular=True),
        real=lambda m, x: m.sin(x) / m.cos(x),
        evaluate=np.tan,
        range=lambda x: increasing(np.tan)(x) if x.lo >= -1.5 and x.hi <= 1.5 else within(-math.inf, math.inf, nan_at_infinity=True)(x),
        torch=("aten.tan",),
    )


@irdl_op_definition
class AsinOp(UnaryOp):
    """The angle in [-π/2, π/2] whose sine is x."""

    name = "num.asin"
    FACTS: ClassVar = Facts(
        access=Access.ELEMENTWISE,
        exactness=Exactness.FUNCTION,
        accepts=FLOATING,
        parity=Parity.ODD,
        domain=RealDomain(-1, 1),
        real=lambda m, x: m.asin(x),
        evaluate=np.arcsin,
        range=increasing(np.arcsin, -1.0, 1.0),
        torch=("aten.asin",),
    )


@irdl_op_definition
class AcosOp(UnaryOp):
    """The angle in [0, π] whose cosine is x."""

    name = "num.acos"
    FACTS: ClassVar = Facts(
        access=Access.ELEMENTWISE,
        exactness=Exactness.FUNCTION,
        accepts=FLOATING,
        domain=RealDomain(-1, 1),
        real=lambda m, x: m.acos(x),
        evaluate=np.arccos,
        range=decreasing(np.arccos, -1.0, 1.0),
        torch=("aten.acos",),
    )


@irdl_op_definition
class AtanOp(UnaryOp):
    """The angle in (-π/2, π/2) whose tangent is x."""

    name = "num.atan"
    FACTS: ClassVar = Facts(
        access=Access.ELEMENTWISE,
        exactness=Exactness.FUNCTION,
        accepts=FLOATING,
        parity=Parity.ODD,
        real=lambda m, x: m.atan(x),
        evaluate=np.arctan,
        range=increasing(np.arctan),
        torch=("aten.atan",),
    )


@irdl_op_definition
class SinhOp(UnaryOp):
    """(e^x - e^-x) / 2."""

    name = "num.sinh"
    FACTS: ClassVar = Facts(
        access=Access.ELEMENTWISE,
        exactness=Exactness.FUNCTION,
        accepts=FLOATING,
        parity=Parity.ODD,
        real=lambda m, x: (m.exp(x) - m.exp(-x)) / m.const(2),
        evaluate=np.sinh,
        range=increasing(np.sinh),
        torch=("aten.sinh",),
        early=2.01,  # e^|x| overflows first
    )


@irdl_op_definition
class CoshOp(UnaryOp):
    """(e^x + e^-x) / 2."""

    name = "num.cosh"
    FACTS: ClassVar = Facts(
        access=Access.ELEMENTWISE,
        exactness=Exactness.FUNCTION,
        accepts=FLOATING,
        parity=Parity.EVEN,
        real=lambda m, x: (m.exp(x) + m.exp(-x)) / m.const(2),
        evaluate=np.cosh,
        range=valley(np.cosh, 0.0, 1.0),
        torch=("aten.cosh",),
        early=2.01,  # e^|x| overflows first
    )


@irdl_op_definition
class TanhOp(UnaryOp):
    """(e^2x - 1) / (e^2x + 1)."""

    name = "num.tanh"
    FACTS: ClassVar = Facts(
        access=Access.ELEMENTWISE,
        exactness=Exactness.FUNCTION,
        accepts=FLOATING,
        parity=Parity.ODD,
        real=lambda m, x: (m.exp(x + x) - m.const(1)) / (m.exp(x + x) + m.const(1)),
        evaluate=np.tanh,
        range=increasing(np.tanh),
        torch=("aten.tanh",),
        derivative=lambda m, x, y: m.const(1) - y * y,
        gradient=lambda m, x: (4 * m.sigmoid(2 * x) * m.sigmoid(-2 * x),),
    )


@irdl_op_definition
class AsinhOp(UnaryOp):
    """log(x + sqrt(x² + 1))."""

    name = "num.asinh"
    FACTS: ClassVar = Facts(
        access=Access.ELEMENTWISE,
        exactness=Exactness.FUNCTION,
        accepts=FLOATING,
        parity=Parity.ODD,
        real=lambda m, x: m.log(x + m.sqrt(x * x + m.const(1))),
        evaluate=np.arcsinh,
        range=increasing(np.arcsinh),
        torch=("aten.asinh",),
        derivative=lambda m, x, y: m.const(1) / m.sqrt(m.const(1) + x * x),
        gradient=lambda m, x: (1 / m.hypot(x, 1 + 0 * x),),
    )


@irdl_op_definition
class AcoshOp(UnaryOp):
    """log(x + sqrt(x² - 1)), for x ≥ 1."""

    name = "num.acosh"
    FACTS: ClassVar = Facts(
        access=Access.ELEMENTWISE,
        exactness=Exactness.FUNCTION,
        accepts=FLOATING,
        domain=RealDomain(1),
        real=lambda m, x: m.log(x + m.sqrt(x * x - m.const(1))),
        evaluate=np.arccosh,
        range=increasing(np.arccosh, 1.0),
        torch=("aten.acosh",),
        gradient=lambda m, x: (1 / (m.sqrt(x - 1) * m.sqrt(x + 1)),),
    )


@irdl_op_definition
class AtanhOp(UnaryOp):
    """log((1 + x) / (1 - x)) / 2."""

    name = "num.atanh"
    FACTS: ClassVar = Facts(
        access=Access.ELEMENTWISE,
        exactness=Exactness.FUNCTION,
        accepts=FLOATING,
        parity=Parity.ODD,
        domain=RealDomain(-1, 1, open=True),
        real=lambda m, x: m.log((m.const(1) + x) / (m.const(1) - x)) / m.const(2),
        evaluate=np.arctanh,
        range=increasing(np.arctanh, -1.0, 1.0),
        torch=("aten.atanh",),
        derivative=lambda m, x, y: m.const(1) / (m.const(1) - x * x),
        gradient=lambda m, x: (1 / ((1 - x) * (1 + x)),),
    )
