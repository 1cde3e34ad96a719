"""Binary floating-point formats: rounding to nearest even, the distance between two numbers, and numbers as text.

Numbers of every format are held in float64 arrays, which contain all of them exactly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from typing import Any, TypeAlias

import numpy as np

from hnfc.dialects.formats import NUMPY, Float, Overflow, Rounding
from hnfc.dialects.formats import rounded as round_once
from hnfc.dialects.types import FLOATS

Array: TypeAlias = "np.ndarray[Any, Any]"


@dataclass(frozen=True)
class Binary:
    """A format: `precision` bits of significand, least normal number 2^least.

    infinite: results beyond `largest` are ±inf, and NaN where the format has no infinity. signed_zero: whether there is a -0.
    """

    name: str
    bits: int
    precision: int
    least: int
    largest: float
    infinite: bool
    signed_zero: bool

    @property
    def tiny(self) -> float:
        """The smallest positive number."""
        return math.ldexp(1.0, self.least - self.precision + 1)

    @property
    def small(self) -> bool:
        """Return whether all numbers of the format are few enough to be listed."""
        return self.bits <= 16


def _binary(form: Float) -> Binary:
    return Binary(
        name=form.name,
        bits=form.bits,
        precision=form.precision,
        least=form.emin,
        largest=form.largest,
        infinite=form.has_infinity,
        signed_zero=form.has_negative_zero,
    )


BINARY: dict[str, Binary] = {name: _binary(form) for name, form in FLOATS.items()}

_BY_VALUE = {name: replace(form, overflow=Overflow.INFINITY if form.has_infinity else Overflow.NAN) for name, form in FLOATS.items()}
"""Results beyond the largest are visible; a conversion documents what it makes of them."""


def rounded(x: Array, form: Binary) -> Array:
    """Each element rounded once to the format, to nearest, ties to even. x: float64, or wider for the format f64."""
    if form.name == "f64":
        return x.astype(np.float64, copy=False)
    if form.name == "f32":
        with np.errstate(over="ignore", invalid="ignore"):
            return x.astype(np.float32).astype(np.float64)
    return np.asarray(round_once(np.ascontiguousarray(x).reshape(np.shape(x)), _BY_VALUE[form.name], Rounding.NEAREST, NUMPY))


def nearest(value: Fraction | float, form: Binary) -> float:
    """The number of the format next to an exact value, rounded once."""
    if isinstance(value, float):
        return float(rounded(np.array([value]), form)[0])
    try:
        near = value.numerator / value.denominator
    except OverflowError:
        near = math.inf if value > 0 else -math.inf
    if form.name == "f64" or not math.isfinite(near) or Fraction(near) == value:
        return float(rounded(np.array([near]), form)[0])
    # to odd: a second rounding then decides as the first would have
    if (int(np.float64(near).view(np.int64)) & 1) == 0:
        near = math.nextafter(near, math.inf if Fraction(near) < value else -math.inf)
    return float(rounded(np.array([near]), form)[0])


@cache
def magnitudes(form: Binary) -> Array:
    """All finite numbers ≥ 0 of a small format, in order."""
    fractions = 1 << (form.precision - 1)
    index = np.arange(int(_ordinal(form.largest, form)) + 1)
    exponent, fraction = index // fractions, index % fractions
    return np.where(
        exponent == 0,
        np.ldexp(fraction.astype(np.float64), form.least - form.precision + 1),
        np.ldexp((fraction + fractions).astype(np.float64), exponent - 1 + form.least - form.precision + 1),
    )


def _ordinal(value: float, form: Binary) -> float:
    """Number of values of the format in [0, value), for a finite value ≥ 0 of the format."""
    mantissa, exponent = math.frexp(value)
    fractions = 1 << (form.precision - 1)
    if exponent - 1 < form.least:
        return value / form.tiny
    return (exponent - form.least) * fractions + (mantissa * 2 - 1) * fractions


@cache
def all_values(form: Binary) -> Array:
    """Every number of a small format: both zeros, the infinities it has, and one NaN."""
    positive = magnitudes(form)
    negative = -positive if form.signed_zero else -positive[1:]
    special = [np.inf, -np.inf, np.nan] if form.infinite else [np.nan]
    return np.concatenate([positive, negative, special])


def distance(x: Array, y: Array, form: Binary) -> Array:
    """Number of values of the format between two finite ones, as floats; the two zeros are one number."""
    a, b = ordinals(x, form), ordinals(y, form)
    apart = a.astype(np.float64) + b.astype(np.float64)
    return np.where(np.signbit(x) == np.signbit(y), np.abs(a - b).astype(np.float64), apart)


def ordinals(x: Array, form: Binary) -> Array:
    """Number of values of the format in [0, |x|)."""
    if form.small:
        return np.searchsorted(magnitudes(form), np.abs(x)).astype(np.int64)
    if form.name == "f32":
        return np.abs(x).astype(np.float32).view(np.int32).astype(np.int64)
    return np.abs(x).view(np.int64)


def value_at(place: Array, form: Binary) -> Array:
    """The number with so many numbers of the format in [0, |x|), negative for a negative place; infinite beyond the largest."""
    index = np.abs(place)
    if form.small:
        listed = magnitudes(form)
        magnitude = np.where(index < len(listed), listed[np.minimum(index, len(listed) - 1)], np.inf)
    elif form.name == "f32":
        magnitude = np.minimum(index, 0x7F800000).astype(np.int32).view(np.float32).astype(np.float64)
    else:
        magnitude = np.minimum(index, 0x7FF0000000000000).astype(np.int64).view(np.float64)
    return np.where(place < 0, -magnitude, magnitude)


def neighbours(value: float, form: Binary, steps: int) -> list[float]:
    """The numbers of the format up to `steps` places below and above a finite value, with it."""
    centre = nearest(value, form)
    if not math.isfinite(centre):
        return []
    found = {centre}
    for direction in (math.inf, -math.inf):
        x = centre
        for _ in range(steps):
            x = next_after(x, direction, form)
            if not math.isfinite(x):
                break
            found.add(x)
    return sorted(found)


def next_after(x: float, direction: float, form: Binary) -> float:
    """The next number of the format towards ±inf."""
    if form.name == "f64":
        return math.nextafter(x, direction)
    if abs(x) < math.ldexp(1.0, form.least):
        step = form.tiny
    else:
        mantissa, exponent = math.frexp(x)
        # below a power of two the grid is finer
        inward = abs(mantissa) == 0.5 and (x > 0) != (direction > 0) and exponent - 1 > form.least
        step = math.ldexp(1.0, exponent - form.precision - int(inward))
    return nearest(x + math.copysign(step, direction), form)


def text(value: float, form: Binary) -> str:
    """The number as `number` reads it back: integers in full, others with the fewest digits."""
    if not math.isfinite(value):
        return str(value)
    if value == int(value) and abs(value) < 1e6:
        return "-0" if value == 0 and math.copysign(1, value) < 0 else str(int(value))
    for digits in range(17):
        written = f"{value:.{digits}e}"
        if number(written, form) == value:
            mantissa, _, exponent = written.partition("e")
            plain = f"{value:.{max(0, digits - int(exponent))}f}"
            if -4 <= int(exponent) < 6:
                return plain
            return f"{mantissa.rstrip('0').rstrip('.') if '.' in mantissa else mantissa}e{int(exponent)}"
    return repr(value)


def number(written: str, form: Binary) -> float:
    """The number of the format that the text means."""
    value = float(written)
    if not math.isfinite(value) or value == 0:
        return value
    return nearest(Fraction(written), form)
