"""Reach of a truncated series: the arguments for which what is left off is proved to be below the digits of a double."""

from __future__ import annotations

import math
from collections.abc import Callable

from hnfc.accuracy.remainder import NoBound, bound
from hnfc.accuracy.terms import Term
from hnfc.accuracy.truncation import Truncated

ENOUGH = 2.0**-45
"""The largest part of the value that may be left off: 8 bits of a double."""

Reach = tuple[float, float]
"""The arguments from the first number to the second."""


def proved(original: Term, cut: Truncated, lo: float, hi: float) -> bool:
    """Return whether the series has a remainder of at most ENOUGH on the whole interval."""
    try:
        return bound(original, cut, lo, hi).relative <= ENOUGH
    except NoBound:
        return False


def reach(original: Term, cut: Truncated, lo: float, hi: float) -> Reach | None:
    """The largest part of the argument's range where that is proved; None where no part is found."""

    def part(size: float) -> Reach:
        at = cut.place.at
        return (max(lo, -size), min(hi, size)) if at == 0 else (max(lo, size), hi) if at > 0 else (lo, min(hi, -size))

    def good(exponent: float) -> bool:
        a, b = part(2.0**exponent)
        return a <= b and proved(original, cut, a, b)

    at_zero = cut.place.at == 0
    near, far = (-60.0, min(64.0, math.log2(max(abs(lo), abs(hi), 2.0**-59)))) if at_zero else (400.0, -10.0)
    if not at_zero:
        most = hi if cut.place.at > 0 else -lo
        near = min(near, math.log2(most) - 1) if most > 0 else near
    found = _last(good, near, far)
    return None if found is None else part(2.0**found)


def _last(good: Callable[[float], bool], near: float, far: float) -> float | None:
    """The exponent next to `far` that is good, to an eighth, where all are good from `near` up to some one."""
    if good(far):
        return far
    if not good(near):
        return None
    while abs(far - near) > 0.125:
        middle = (near + far) / 2
        near, far = (middle, far) if good(middle) else (near, middle)
    return near
