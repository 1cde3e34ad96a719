"""Rounding to a format, once, over `Arrays`: by powers of two, sums of none, so that no step but the one to an integer rounds.

Any other conversion rounds twice: ml_dtypes and torch go from float64 through float32.
"""

from __future__ import annotations

import math
from enum import StrEnum
from typing import Any

from hnfc.dialects.formats.arrays import Arrays
from hnfc.dialects.formats.kinds import Block, Fixed, Float, Format, Overflow

SQRT2 = math.sqrt(2)
"""The float64 next above √2."""


class Rounding(StrEnum):
    """NEAREST: ties to the even significand. STOCHASTIC: up with the probability of how far x is up. TOWARD_ZERO: never larger."""

    NEAREST = "nearest"
    STOCHASTIC = "stochastic"
    TOWARD_ZERO = "toward_zero"


def rounded(x: Any, form: Format, how: Rounding, arrays: Arrays, uniform: Any = None) -> Any:
    """Each element of x as a value of the format (or infinite or NaN where its overflow says so), in the element type of x.

    x: float64 or float32. Blocks lie along the last axis. uniform: for STOCHASTIC, numbers in [0, 1) of the shape of x.
    What the element type of x cannot hold is rounded again to that; a format within it never is.
    """
    work = x if arrays.is_single(x) and _fits_single(form) else arrays.double(x)
    match form:
        case Float():
            result = _to_float(work, form, how, arrays, uniform)
        case Fixed():
            result = _to_fixed(work, form, how, arrays, uniform)
        case Block():
            result = _to_block(work, form, how, arrays, uniform)
        case _:
            raise TypeError(f"{form!r} is no format that numbers are rounded to")
    return arrays.like(result, x)


def _fits_single(form: Format) -> bool:
    """Return whether every step of the rounding of float32 numbers is exact in float32."""
    match form:
        case Float():
            low = form.emin - (form.precision - 1 if form.subnormals else 0)
            return not form.geometric and form.precision <= 24 and form.emin >= -127 and low >= -149 and form.emax <= 127
        case Fixed():
            power = math.frexp(form.scale)[0] == 0.5 and 2.0**-100 <= form.scale <= 2.0**100
            return (
                power
                and form.overflow is Overflow.SATURATE
                and max(abs(form.low - form.zero_point), abs(form.high - form.zero_point), abs(form.low)) < 1 << 24
            )
    return False


def _steps(y: Any, how: Rounding, arrays: Arrays, uniform: Any) -> Any:
    """y ≥ 0 as an integer."""
    if how is Rounding.NEAREST:
        return arrays.rint(y)
    below = arrays.floor(y)
    if how is Rounding.TOWARD_ZERO:
        return below
    # y - below is exact, y + uniform would not be
    return arrays.where(uniform < y - below, below + 1, below)


def _to_float(x: Any, form: Float, how: Rounding, arrays: Arrays, uniform: Any) -> Any:
    magnitude = arrays.abs(x)
    exponents = arrays.clip(arrays.exponents(magnitude), form.emin - (not form.subnormals), form.emax + 1)
    # the values near x are the multiples of 2^grid
    grid = exponents - (form.precision - 1)
    if not form.subnormals:
        grid = arrays.where(exponents < form.emin, form.emin, grid)
    scaled = arrays.times_power(magnitude, -grid)
    if form.geometric and how is Rounding.NEAREST:
        steps = arrays.where(scaled >= SQRT2, 2.0, arrays.clip(scaled, 1.0, 1.0))
    else:
        steps = _steps(scaled, how, arrays, uniform)
    result = arrays.times_power(steps, grid)
    if not form.zero:
        result = arrays.where(result < form.smallest, form.smallest, result)
        if form.overflow is Overflow.NAN:
            result = arrays.where(magnitude == 0, math.nan, result)
    beyond = result > form.largest
    if how is Rounding.TOWARD_ZERO:
        result = arrays.where(beyond & (magnitude < math.inf), form.largest, result)
        beyond = beyond & (magnitude == math.inf)
    instead = {Overflow.INFINITY: math.inf, Overflow.NAN: math.nan}.get(form.overflow, form.largest)
    result = arrays.where(beyond, instead, result)
    if form.signed:
        # without a zero there is no -0 to keep the sign of
        result = arrays.copysign(result, x) if form.zero else arrays.where(x < 0, -result, result)
    else:
        result = arrays.where(x < 0, max(form.lowest, 0.0) if form.overflow is Overflow.SATURATE else math.nan, result)
    return result if form.has_negative_zero else arrays.where(result == 0, 0.0, result)


def _to_fixed(x: Any, form: Fixed, how: Rounding, arrays: Arrays, uniform: Any) -> Any:
    scaled = x / form.scale
    if how is Rounding.TOWARD_ZERO:
        whole = arrays.copysign(arrays.floor(arrays.abs(scaled)), scaled)
    elif how is Rounding.NEAREST:
        whole = arrays.rint(scaled)
    else:
        below = arrays.floor(scaled)
        whole = arrays.where(uniform < scaled - below, below + 1, below)
    if form.overflow is Overflow.WRAP:
        count = float(form.high - form.low + 1)
        # the first one makes sums exact
        code = form.low + arrays.remainder(arrays.remainder(whole, count) + (form.zero_point - form.low), count)
    else:
        code = arrays.clip(whole + form.zero_point, float(form.low), float(form.high))
    result = (code - form.zero_point) * form.scale
    return arrays.where(result == 0, 0.0, result)


def _to_block(x: Any, form: Block, how: Rounding, arrays: Arrays, uniform: Any) -> Any:
    blocks = arrays.in_blocks(x, form.size)
    draws = None if uniform is None else arrays.in_blocks(uniform, form.size)
    greatest = arrays.greatest(arrays.abs(blocks))
    to_element = _to_float if isinstance(form.element, Float) else _to_fixed
    if form.has_exponent_scale:
        exponents = arrays.exponents(greatest) - form.element_exponent
        exponents = arrays.clip(exponents, form.scale.emin, form.scale.emax)
        elements: Any = to_element(arrays.times_power(blocks, -exponents), form.element, how, arrays, draws)  # type: ignore[arg-type]
        result = arrays.times_power(elements, exponents)
    else:
        step: Any = 1.0
        if form.tensor_scale is not None:
            step = _scale_of_tensor(arrays.greatest_of_all(arrays.abs(x)), form, form.tensor_scale, arrays)
        ratio = greatest / form.element.largest / step
        scale = arrays.clip(_to_float(ratio, form.scale, Rounding.NEAREST, arrays, None), form.scale.lowest, form.scale.largest) * step
        divisor = arrays.where(scale == 0, 1.0, scale)
        elements = to_element(blocks / divisor, form.element, how, arrays, draws)  # type: ignore[arg-type]
        result = arrays.where(scale == 0, arrays.copysign(0.0 * elements, blocks), elements * scale)
    result = arrays.where(greatest < math.inf, result, math.nan)
    return arrays.out_of_blocks(result, x.shape[-1])


def _scale_of_tensor(greatest: Any, form: Block, scale: Float, arrays: Arrays) -> Any:
    step = _to_float(arrays.double(greatest / (form.element.largest * form.scale.largest)), scale, Rounding.NEAREST, arrays, None)
    return arrays.where(step == 0, 1.0, step)
