"""Roundings of one element: to the nearest number of a floating-point format, and to integer types."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import cache
from typing import Any

from flint import arb, fmpq

from hnfc.dialects.formats import Float, Overflow
from hnfc.dialects.types import FLOATS
from hnfc.dsl.soundness.elements import UNDECIDED, UNDEFINED
from hnfc.dsl.soundness.integers import BITS, CUT_OFF, bounds

Rounding = Callable[[Any], Any]


@cache
def rounding_to(format: str) -> Rounding | None:
    """The rounding to a format, or what `integers` writes for an integer type; None where there is no such format."""
    if format in BITS:
        return _modulo(format)
    if format.startswith(CUT_OFF):
        return _at_both_ends(_cut_off(format.removeprefix(CUT_OFF)))
    return _at_both_ends(nearest(FLOATS[format])) if format in FLOATS else None


def nearest(form: Float) -> Rounding:
    """x to the nearest number of the format, ties to even; no number where that overflows."""
    tiny, largest = fmpq(*form.smallest.as_integer_ratio()), fmpq(*form.largest.as_integer_ratio())

    def rounded(x: Any) -> Any:
        if x == 0:
            return x
        size = abs(x)
        exponent = int(size.p).bit_length() - int(size.q).bit_length()
        # the power of two at or below |x| is 2^exponent or half of that
        exponent -= int(size < _power(exponent))
        unit = max(_power(exponent - form.precision + 1), tiny)
        scaled = x / unit
        low = scaled.floor()
        rest = scaled - low
        up = rest > fmpq(1, 2) or (rest == fmpq(1, 2) and int(low) % 2 == 1)
        result = fmpq(low + int(up)) * unit
        if abs(result) <= largest:
            return result
        return UNDEFINED if form.overflow is not Overflow.SATURATE else largest if x > 0 else -largest

    return rounded


def _power(exponent: int) -> Any:
    return fmpq(2) ** exponent


def _at_both_ends(function: Rounding) -> Rounding:
    """A function that never falls, at a ball: its value where both ends have the same."""

    def value(x: Any) -> Any:
        if isinstance(x, fmpq):
            return function(x)
        ends = [arb(end) for end in (x.lower(), x.upper())]
        if any(abs(end) > 2**2000 or (end != 0 and abs(end) < arb(2) ** -2000) for end in ends):
            return UNDECIDED
        low, high = (function(end.fmpq()) for end in ends)
        return low if low == high else UNDECIDED

    return value


def _cut_off(element: str) -> Rounding:
    low, high = bounds(element)

    def integer_part(x: Any) -> Any:
        if not low - 1 < x < high + 1:
            return UNDEFINED
        return fmpq(-((-x).floor()) if x < 0 else x.floor())

    return integer_part


def _modulo(element: str) -> Rounding:
    low, _ = bounds(element)
    count = 2 ** BITS[element]

    def wrapped(x: Any) -> Any:
        if not isinstance(x, fmpq) or x.q != 1:
            return UNDECIDED
        return fmpq((int(x.p) - low) % count + low)

    return wrapped


def is_number_of(value: Any, element: str) -> bool:
    """Return whether the fraction is a number of the element type."""
    if element in BITS:
        low, high = bounds(element)
        return bool(value.denominator == 1 and low <= value <= high)
    exact = fmpq(value.numerator, value.denominator)
    return bool(nearest(FLOATS[element])(exact) == exact)


def number_near(value: Fraction, element: str) -> Fraction:
    """The number of the floating-point format that is nearest, the largest where it overflows."""
    form = FLOATS[element]
    found = nearest(form)(fmpq(value.numerator, value.denominator))
    if found is UNDEFINED:
        return Fraction(form.largest) * (1 if value > 0 else -1)
    return Fraction(int(found.p), int(found.q))
