"""Arrays of intervals over the reals, with NumPy's broadcasting: every operation holds the true result, rounded outward.

The four operations are rounded correctly by the hardware, so that one step to the neighbour is enough; NumPy's functions are off by up
to four steps. What has no value (the logarithm of a negative number) is the whole line, so that no bound follows from it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np

from hnfc.dialects.interval import Function, ends_around, increasing

Array: TypeAlias = "np.ndarray[Any, Any]"

FUNCTION_ERROR = 2.0**-50
"""Four steps of float64, relative to a result."""
_TINY = 2.0**-1064
"""Error of functions near the smallest numbers, which have few digits."""


class IntervalArray:
    """All x with lo ≤ x ≤ hi, element by element. lo, hi: float64 arrays that broadcast against each other."""

    __slots__ = ("hi", "lo")
    lo: Array
    hi: Array

    def __init__(self, lo: Any, hi: Any) -> None:
        self.lo, self.hi = lo, hi

    @staticmethod
    def of(value: Any) -> IntervalArray:
        """The number, rounded outward if float64 does not hold it; or the elements of an array, which are exact."""
        if isinstance(value, IntervalArray):
            return value
        if isinstance(value, Fraction):
            lo, hi = ends_around(value)
            if lo != hi:
                return IntervalArray(np.float64(lo), np.float64(hi))
        array = np.asarray(value, np.float64)
        return IntervalArray(array, array)

    @property
    def shape(self) -> tuple[int, ...]:
        return np.broadcast_shapes(np.shape(self.lo), np.shape(self.hi))

    @property
    def magnitude(self) -> Array:
        """The largest |x|."""
        return np.maximum(np.abs(self.lo), np.abs(self.hi))

    @property
    def smallest(self) -> Array:
        """The least |x|."""
        return np.maximum(np.maximum(self.lo, -self.hi), 0.0)

    @property
    def middle(self) -> Array:
        return np.where(np.isfinite(self.lo) & np.isfinite(self.hi), self.lo / 2 + self.hi / 2, 0.0)

    def hull(self, other: IntervalArray) -> IntervalArray:
        return IntervalArray(np.minimum(self.lo, other.lo), np.maximum(self.hi, other.hi))

    def meet(self, lo: Array | float, hi: Array | float) -> IntervalArray:
        """Intersection with [lo, hi]; the caller knows that the values lie there."""
        return IntervalArray(np.maximum(self.lo, lo), np.minimum(self.hi, hi))

    def widened(self, by: Array | float) -> IntervalArray:
        """Everything at most `by` away. Where that is 0, nothing is added."""
        return IntervalArray(
            np.where(by == 0, self.lo, np.nextafter(self.lo - by, -np.inf)), np.where(by == 0, self.hi, np.nextafter(self.hi + by, np.inf))
        )

    def where(self, chosen: Array, other: IntervalArray) -> IntervalArray:
        return IntervalArray(np.where(chosen, self.lo, other.lo), np.where(chosen, self.hi, other.hi))

    def map(self, move: Callable[[Array], Array]) -> IntervalArray:
        """Both ends moved alike."""
        if self.lo is self.hi:
            moved = move(self.lo)
            return IntervalArray(moved, moved)
        lo, hi = np.broadcast_arrays(self.lo, self.hi)
        return IntervalArray(move(lo), move(hi))

    def rising(self, function: Function, lo: float, hi: float, signed: bool = False, error: float = FUNCTION_ERROR) -> IntervalArray:
        """f(x), f being non-decreasing on its domain [lo, hi]; the whole line for elements that reach beyond it.

        error: that of what is computed, relative to the value. Zeros have no sign here.
        """
        inside = (self.lo >= lo) & (self.hi <= hi)
        first, last = np.clip(self.lo, lo, hi), np.clip(self.hi, lo, hi)
        least, greatest = _loose_down(function(first), first, error), _loose_up(function(last), last, error)
        return IntervalArray(np.where(inside, least, -np.inf), np.where(inside, greatest, np.inf))

    @property
    def mirrored(self) -> IntervalArray:
        return -self

    # arithmetic

    def __neg__(self) -> IntervalArray:
        return IntervalArray(-self.hi, -self.lo)

    def __add__(self, other: Any) -> IntervalArray:
        other = IntervalArray.of(other)
        return _held(_down_sum(self.lo, other.lo), _up_sum(self.hi, other.hi))

    def __sub__(self, other: Any) -> IntervalArray:
        other = IntervalArray.of(other)
        return _held(_down_sum(self.lo, -other.hi), _up_sum(self.hi, -other.lo))

    def __mul__(self, other: Any) -> IntervalArray:
        box = IntervalArray.of(other)
        if box is self:
            return self.square()
        # an end that is 0 is no underflow of negative numbers only where there are none
        positive = ((self.lo >= 0) & (box.lo >= 0)) | ((self.hi <= 0) & (box.hi <= 0))
        if self.lo is self.hi:
            products = (_product(self.lo, box.lo), _product(self.lo, box.hi))
        elif box.lo is box.hi:
            products = (_product(self.lo, box.lo), _product(self.hi, box.lo))
        else:
            first, second = _product(self.lo, box.lo), _product(self.lo, box.hi)
            third, fourth = _product(self.hi, box.lo), _product(self.hi, box.hi)
            products = (np.minimum(first, second), np.maximum(first, second))
            products = (np.minimum(products[0], np.minimum(third, fourth)), np.maximum(products[1], np.maximum(third, fourth)))
        return IntervalArray(_down(np.minimum(*products), positive), _up(np.maximum(*products)))

    def square(self) -> IntervalArray:
        a, b = self.smallest, self.magnitude
        return IntervalArray(_down(a * a, True), _up(b * b))

    def reciprocal(self) -> IntervalArray:
        sided = (self.lo > 0) | (self.hi < 0)
        lo, hi = np.where(sided, self.lo, 1.0), np.where(sided, self.hi, 1.0)
        return IntervalArray(np.where(sided, _down(1 / hi, self.lo > 0), -np.inf), np.where(sided, _up(1 / lo), np.inf))

    def __truediv__(self, other: Any) -> IntervalArray:
        other = IntervalArray.of(other)
        sided = (other.lo > 0) | (other.hi < 0)
        lo, hi = np.where(sided, other.lo, 1.0), np.where(sided, other.hi, 1.0)
        positive = ((self.lo >= 0) & (lo > 0)) | ((self.hi <= 0) & (hi < 0))
        a, b, c, d = self.lo / lo, self.lo / hi, self.hi / lo, self.hi / hi
        low, high = np.minimum(np.minimum(a, b), np.minimum(c, d)), np.maximum(np.maximum(a, b), np.maximum(c, d))
        return _held(np.where(sided, _down(low, positive), -np.inf), np.where(sided, _up(high), np.inf))

    __radd__ = __add__
    __rmul__ = __mul__

    def __rsub__(self, other: Any) -> IntervalArray:
        return IntervalArray.of(other) - self

    def __rtruediv__(self, other: Any) -> IntervalArray:
        return IntervalArray.of(other) / self

    def __repr__(self) -> str:
        return f"IntervalArray({self.lo}, {self.hi})"


LINE = IntervalArray(np.float64(-np.inf), np.float64(np.inf))
ZERO = IntervalArray.of(0.0)
ONE = IntervalArray.of(1.0)


def _down(x: Array, positive: Any = False) -> Array:
    """The neighbour below; 0 stays where nothing below it is meant."""
    return np.asarray(np.where((x == 0) & positive, 0.0, np.nextafter(x, -np.inf)))


def _up(x: Array) -> Array:
    return np.nextafter(x, np.inf)


def _down_sum(x: Array, y: Array) -> Array:
    """x + y rounded down; a sum with 0, or one that is 0, is exact."""
    total = x + y
    return np.where((total == x) & (y == 0) | (total == y) & (x == 0) | (total == 0), total, np.nextafter(total, -np.inf))


def _up_sum(x: Array, y: Array) -> Array:
    return -_down_sum(-x, -y)


def _product(x: Array, y: Array) -> Array:
    """x·y, where 0 times anything is 0."""
    product = x * y
    return np.where(np.isnan(product), 0.0, product) if np.isnan(product).any() else product


def _held(lo: Array, hi: Array) -> IntervalArray:
    """The interval; what is not known (∞ - ∞) is unbounded."""
    return IntervalArray(np.where(np.isnan(lo), -np.inf, lo), np.where(np.isnan(hi), np.inf, hi))


def _loose_down(y: Array, x: Array, error: float) -> Array:
    """y = f(x) moved down by its relative error; log 1 = 0 and what is 0 at 0 are exact, elsewhere a 0 may have underflowed."""
    moved = np.where(np.isinf(y), np.where(y > 0, np.finfo(np.float64).max, y), y - np.abs(y) * error - _TINY)
    return np.where((y == 0) & ((x == 0) | (x == 1)), y, moved)


def _loose_up(y: Array, x: Array, error: float) -> Array:
    return -_loose_down(-y, x, error)


log: Callable[..., IntervalArray] = increasing(np.log, 0.0)
sqrt: Callable[..., IntervalArray] = increasing(np.sqrt, 0.0)
arctan: Callable[..., IntervalArray] = increasing(np.arctan)


def exp(x: IntervalArray) -> IntervalArray:
    found: IntervalArray = increasing(np.exp)(x)
    return found.meet(0.0, np.inf)


def cos(x: IntervalArray) -> IntervalArray:
    """Between the values at the ends, and as far as ±1 where a multiple of π lies between them."""
    low, high = np.cos(x.lo), np.cos(x.hi)
    lo, hi = np.minimum(low, high) - FUNCTION_ERROR, np.maximum(low, high) + FUNCTION_ERROR
    # half turns, counted with room for the error of the division by π
    first, last = x.lo / math.pi, x.hi / math.pi
    first, last = np.floor(first - np.abs(first) * 1e-15 - 1e-15), np.ceil(last + np.abs(last) * 1e-15 + 1e-15)
    whole = ~(last - first < 3) | ~(np.maximum(np.abs(first), np.abs(last)) < 2.0**40)
    between = [first + 1, first + 2]
    tops = [(k < last) & (k % 2 == 0) for k in between]
    bottoms = [(k < last) & (k % 2 == 1) for k in between]
    return IntervalArray(
        np.where(whole | bottoms[0] | bottoms[1], -1.0, np.maximum(lo, -1.0)), np.where(whole | tops[0] | tops[1], 1.0, np.minimum(hi, 1.0))
    )


_HALF_PI = IntervalArray(np.float64(math.pi / 2), np.float64(math.nextafter(math.pi / 2, 4)))


def sin(x: IntervalArray) -> IntervalArray:
    """cos(x - π/2) for wide boxes; at a point the sine itself, which keeps the digits of small ones."""
    turned = cos(x - _HALF_PI)
    return x.rising(np.sin, -1.57, 1.57).where((x.lo >= -1.57) & (x.hi <= 1.57), turned)


def atan2(y: IntervalArray, x: IntervalArray) -> IntervalArray:
    """For x > 0 the arc tangent of y/x, for y of one sign π/2 - atan(x/y); elsewhere within ±π."""
    right = arctan(y / x)
    upper, lower = _HALF_PI - arctan(x / y), -_HALF_PI - arctan(x / y)
    anywhere = IntervalArray(np.float64(-3.1415926535897936), np.float64(3.1415926535897936))
    return right.where(x.lo > 0, upper.where(y.lo > 0, lower.where(y.hi < 0, anywhere)))


def power(x: IntervalArray, exponent: Fraction | float) -> IntervalArray:
    """x^c for a number c: any x for a whole one, x ≥ 0 for another (x > 0 for a negative one)."""
    c = float(exponent)
    if c == int(c) and abs(c) <= 64:
        return _whole_power(x, int(c))
    grown = x.rising(lambda t: np.power(t, abs(c)), 0.0, math.inf)
    wide = grown.widened(np.where(np.isfinite(grown.magnitude), grown.magnitude * (abs(c) + 1) * 2.0**-50, 0.0))
    wide = wide.where(x.lo >= 0, LINE).meet(np.where(x.lo >= 0, 0.0, -np.inf), np.inf)
    return wide if c > 0 else wide.reciprocal()


def _whole_power(x: IntervalArray, n: int) -> IntervalArray:
    if n < 0:
        return _whole_power(x, -n).reciprocal()
    if n == 0:
        return IntervalArray.of(np.ones(x.shape))
    if n % 2 == 0:
        half = _whole_power(IntervalArray(x.smallest, x.magnitude), n // 2)
        return half.square() if n > 2 else x.square()
    if n == 1:
        return x
    # an odd power rises with x
    below, above = (
        _whole_power(IntervalArray.of(x.lo), n - 1) * IntervalArray.of(x.lo),
        _whole_power(IntervalArray.of(x.hi), n - 1) * IntervalArray.of(x.hi),
    )
    return IntervalArray(below.lo, above.hi)


def general_power(x: IntervalArray, y: IntervalArray) -> IntervalArray:
    """e^(y·log x), for x > 0."""
    return exp(y * log(x))
