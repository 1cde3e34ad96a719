"""Closed intervals over the extended reals, rounded outward, that hold floating-point results as well as real ones.

A function that is monotone, or falls and then rises, is written once, as NumPy computes it; `increasing` and the other makers below take
it to intervals, and also to arrays of them (`interval_arrays`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np

Function: TypeAlias = Callable[[Any], Any]
"""A function of numbers, or of each element of an array."""


def _down(x: float) -> float:
    return math.nextafter(x, -math.inf)


def _up(x: float) -> float:
    return math.nextafter(x, math.inf)


@dataclass(frozen=True, slots=True)
class Interval:
    """All x with lo ≤ x ≤ hi. `nan` says whether a NaN may be among the values too.

    An interval whose lower end is 0 holds +0, so that 1/[0, 1] is [1, inf]; `minus` says whether -0 may be among the values too, as
    relu gives for -0. Operations that send negative numbers to -0 may also give the smallest negative number as the lower end.
    """

    lo: float
    hi: float
    nan: bool = False
    minus: bool = False

    @staticmethod
    def point(number: Fraction | float) -> Interval:
        """The least interval that holds the number."""
        return ANYTHING if number != number else Interval(*ends_around(number))

    def __contains__(self, value: float) -> bool:
        return self.nan if math.isnan(value) else self.lo <= value <= self.hi

    @property
    def minus_zero(self) -> bool:
        """Return whether -0 may be among the values."""
        return self.lo <= 0 <= self.hi and (self.lo < 0 or self.minus)

    @property
    def finite(self) -> bool:
        return math.isfinite(self.lo) and math.isfinite(self.hi) and not self.nan

    @property
    def magnitude(self) -> float:
        """The largest |x|."""
        return max(abs(self.lo), abs(self.hi))

    def hull(self, other: Interval) -> Interval:
        return Interval(min(self.lo, other.lo), max(self.hi, other.hi), self.nan or other.nan, self.minus or other.minus)

    def meet(self, lo: float, hi: float) -> Interval:
        """Intersection with [lo, hi]; the caller knows that the values lie there."""
        return Interval(max(self.lo, lo), min(self.hi, hi), self.nan, self.minus or (self.lo < 0 <= self.hi and lo == 0))

    def widened(self, unit_roundoff: float, tiny: float, largest: float) -> Interval:
        """Every value after one rounding to a format: relative error u, underflow up to `tiny`, overflow past `largest`."""
        lo = self.lo if self.lo == 0 or math.isinf(self.lo) else _down(self.lo - abs(self.lo) * unit_roundoff - tiny)
        hi = self.hi if self.hi == 0 or math.isinf(self.hi) else _up(self.hi + abs(self.hi) * unit_roundoff + tiny)
        if self.lo >= 0:
            lo = max(lo, 0.0)
        if self.hi <= 0:
            hi = min(hi, 0.0)
        lo, hi = min(lo, largest), max(hi, -largest)  # a format may saturate
        return Interval(-math.inf if lo < -largest else lo, math.inf if hi > largest else hi, self.nan, self.minus)

    def spread(self, by: float) -> Interval:
        """Everything at most `by` away, on either side of 0."""
        lo, hi = (_down(self.lo - by) if math.isfinite(self.lo) else self.lo), (_up(self.hi + by) if math.isfinite(self.hi) else self.hi)
        return Interval(lo, hi, self.nan, self.minus)

    def rising(self, function: Function, lo: float, hi: float, signed: bool) -> Interval:
        """f(x), f being non-decreasing on its domain [lo, hi]; outside the domain the result is NaN.

        signed: f sends some x < 0, or -0, to -0 (sqrt, rounding towards zero).
        """
        first, last = max(min(self.lo, hi), lo), min(max(self.hi, lo), hi)
        with np.errstate(all="ignore"):
            least, greatest = _loose(float(function(first)), first, _down), _loose(float(function(last)), last, _up)
        nan = self.nan or self.lo < lo or self.hi > hi
        if signed and least == 0 and (self.lo < 0 or self.minus):
            return Interval(0.0, max(greatest, 0.0), nan, True)
        # a function that is 0 at 0 keeps the sign of -0
        return Interval(least, greatest, nan, self.minus and self.lo == 0 == least)

    def __neg__(self) -> Interval:
        """-x, which is -0 for x = +0."""
        return Interval(BELOW_ZERO if self.hi == 0 else -self.hi, -self.lo, self.nan)

    @property
    def mirrored(self) -> Interval:
        """-x, where 0 is no floating-point number but the real one."""
        return Interval(-self.hi, -self.lo, self.nan, 0.0 in self)

    def __add__(self, other: Interval) -> Interval:
        clash = (self.lo == -math.inf and other.hi == math.inf) or (self.hi == math.inf and other.lo == -math.inf)
        lo = -math.inf if math.isnan(self.lo + other.lo) else _outward(self.lo + other.lo, _down)
        hi = math.inf if math.isnan(self.hi + other.hi) else _outward(self.hi + other.hi, _up)
        return Interval(lo, hi, self.nan or other.nan or clash, self.minus_zero and other.minus_zero)

    def __sub__(self, other: Interval) -> Interval:
        return self + other.mirrored

    def __mul__(self, other: Interval) -> Interval:
        products = [_product(a, b) for a in (self.lo, self.hi) for b in (other.lo, other.hi)]
        clash = (0.0 in self and math.isinf(other.magnitude)) or (0.0 in other and math.isinf(self.magnitude))
        lo = _outward(min(products), _down)
        if lo == 0 and (self.lo < 0 or other.lo < 0):
            lo = BELOW_ZERO  # 0 times a negative number is -0
        minus = self.minus_zero or other.minus_zero
        return Interval(lo, _outward(max(products), _up), self.nan or other.nan or clash, minus)

    def reciprocal(self) -> Interval:
        if self.lo > 0 or self.hi < 0:
            return Interval(_outward(1 / self.hi, _down), _outward(1 / self.lo, _up), self.nan)
        if self.lo == 0 and self.hi > 0 and not self.minus:
            return Interval(_outward(1 / self.hi, _down), math.inf, self.nan)
        return Interval(-math.inf, math.inf, self.nan)

    def __truediv__(self, other: Interval) -> Interval:
        if 0.0 in other:
            nan = self.nan or other.nan or 0.0 in self or math.isinf(self.magnitude)
            if self.lo >= 0 and other.lo >= 0 and not other.minus:
                return Interval(0.0, math.inf, nan, self.minus)
            return Interval(-math.inf, math.inf, nan)
        both_infinite = math.isinf(self.magnitude) and math.isinf(other.magnitude)
        result = self * other.reciprocal()
        return Interval(result.lo, result.hi, self.nan or other.nan or both_infinite, result.minus)


def _outward(x: float, step: Callable[[float], float]) -> float:
    return x if x == 0 or math.isinf(x) else step(x)


def _product(a: float, b: float) -> float:
    return 0.0 if a == 0 or b == 0 else a * b


ANYTHING = Interval(-math.inf, math.inf, True)
UNIT = Interval(0.0, 1.0)


def increasing(function: Function, lo: float = -math.inf, hi: float = math.inf, signed: bool = False) -> Callable[..., Any]:
    """The transfer of a non-decreasing function on its domain [lo, hi]; `signed`: it may give -0."""
    return lambda x, **_: x.rising(function, lo, hi, signed)


def decreasing(function: Function, lo: float = -math.inf, hi: float = math.inf) -> Callable[..., Any]:
    """The transfer of a non-increasing function on its domain [lo, hi]."""
    mirrored = increasing(lambda t: -function(t), lo, hi)
    return lambda x, **_: mirrored(x).mirrored


def within(lo: float, hi: float, *, nan_at_infinity: bool = False) -> Callable[..., Interval]:
    """The transfer that knows only where all results lie."""

    def transfer(*xs: Interval, **_: object) -> Interval:
        return Interval(lo, hi, any(x.nan or (nan_at_infinity and math.isinf(x.magnitude)) for x in xs))

    return transfer


_EXACT_ZEROS = 2.0
"""Largest argument at which a computed 0 is the exact value; beyond it, the 0 may be an underflow."""


def _loose(y: float, x: float, step: Callable[[float], float]) -> float:
    """y = f(x) moved four float64 steps outward: functions of NumPy and SciPy are off by at most so many."""
    if math.isnan(y):
        return math.inf if step is _up else -math.inf
    if math.isinf(y):
        return math.nextafter(y, 0) if math.isfinite(x) and (y > 0) == (step is _down) else y
    if y == 0 and (abs(x) <= _EXACT_ZEROS or (math.copysign(1, y) > 0) == (step is _down)):
        return y
    for _ in range(4):
        y = step(y)
    return y


def ends_around(number: Fraction | float) -> tuple[float, float]:
    """The float64 numbers next to a number, below and above; twice the number itself where it is one."""
    try:
        near = float(number)
    except OverflowError:
        largest = math.nextafter(math.inf, 0)
        return (largest, math.inf) if number > 0 else (-math.inf, -largest)
    if not isinstance(number, Fraction) or number == near:
        return near, near
    return (_down(near), near) if number < near else (near, _up(near))


BELOW_ZERO = -5e-324
"""The lower end of an interval that is non-negative but for -0."""


def magnitude(x: Interval, **_: object) -> Interval:
    """|x|."""
    if x.lo >= 0:
        return Interval(x.lo, x.hi, x.nan)
    return Interval(-x.hi + 0.0 if x.hi <= 0 else 0.0, x.magnitude, x.nan)


def square(x: Interval, **_: object) -> Interval:
    """x·x, which is never negative."""
    a = magnitude(x)
    return Interval(_outward(a.lo * a.lo, _down), _outward(a.hi * a.hi, _up), x.nan)


def valley(function: Function, at: float, least: float) -> Callable[..., Interval]:
    """The transfer of a function that falls until `at`, where it is not below `least`, and rises after it."""
    rises: Callable[..., Interval] = increasing(function)
    falls: Callable[..., Interval] = decreasing(function)

    def transfer(x: Interval, **_: object) -> Interval:
        if x.lo >= at:
            return rises(x)
        if x.hi <= at:
            return falls(x)
        ends = falls(Interval(x.lo, at)).hull(rises(Interval(at, x.hi)))
        return Interval(least, ends.hi, x.nan)

    return transfer
