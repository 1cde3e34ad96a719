"""Rounding of longdouble results to float64 where they are too near to the middle between two numbers: by ball arithmetic."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from flint import arb, fmpq

from hnfc.dialects.num.base import NumOp
from hnfc.dsl.ieee.formats import BINARY, Array, nearest
from hnfc.dsl.soundness.balls import MATH, Balls, apply, precision

ERROR = 16
"""Assumed error of longdouble results, in units in their last place: several functions in turn."""
BITS = 250
SUBNORMAL = -1020


def rounded_safely(operation: type[NumOp], operands: Sequence[Array], attributes: dict[str, Any], result: Array) -> Array:
    """`result`, which is the operation on the operands in longdouble, rounded to float64 as its exact value would be.

    An element whose exact value ball arithmetic does not find closely enough is rounded as it is.
    """
    near = result.astype(np.float64)
    if operation.FACTS.real is None or np.finfo(np.longdouble).nmant <= np.finfo(np.float64).nmant:
        return near
    error = np.abs(result) * np.finfo(np.longdouble).eps * ERROR
    unsettled = np.isfinite(result) & ((result - error).astype(np.float64) != (result + error).astype(np.float64))
    if not unsettled.any():
        return near
    operands = [np.broadcast_to(x, result.shape)[unsettled] for x in operands]
    with precision(BITS):
        exact = apply(MATH, operation, [Balls.of(x) for x in operands], attributes)
        values = [_number(x) for x in exact.values.reshape(-1)]
    near[unsettled] = [before if value is None else value for before, value in zip(near[unsettled].tolist(), values, strict=True)]
    return near


def _number(x: Any) -> float | None:
    """The float64 next to every number of the ball, if there is one."""
    if isinstance(x, fmpq):
        return nearest(Fraction(int(x.p), int(x.q)), BINARY["f64"])
    if not isinstance(x, arb) or not x.is_finite():
        return None
    mantissa, exponent = map(int, x.mid().man_exp())
    error, place = map(int, x.rad().man_exp())
    radius = error << (place - exponent) if place >= exponent else (error >> (exponent - place)) + 1
    if exponent + mantissa.bit_length() < SUBNORMAL:
        ends = [nearest(Fraction(end) * Fraction(2) ** exponent, BINARY["f64"]) for end in (mantissa - radius, mantissa + radius)]
    else:
        # a whole number becomes a float by one rounding, and a power of two changes nothing in it
        ends = [_scaled(float(end), exponent) for end in (mantissa - radius, mantissa + radius)]
    return ends[0] if ends[0] == ends[1] else None


def _scaled(x: float, exponent: int) -> float:
    try:
        return math.ldexp(x, exponent)
    except OverflowError:
        return math.copysign(math.inf, x)
