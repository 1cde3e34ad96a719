"""Doubles by their place among all doubles, and errors in bits.

The error of a computed value is log2(1 + the number of doubles between it and the correctly rounded one), 64 for NaN: as Panchekha and
others define it in "Automatically improving accuracy for floating point expressions" (PLDI 2015), section 4.1.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]

LARGEST = int(np.array(np.finfo(np.float64).max).view(np.int64))
_SIGN = np.int64(-(2**63))


def to_ordinal(x: Floats) -> Ints:
    """The place of each double: 0 for ±0, 1 for the smallest positive one, -1 for its negative."""
    bits = np.ascontiguousarray(x, np.float64).view(np.int64)
    return np.where(bits < 0, _SIGN - bits, bits)


def from_ordinal(n: Ints) -> Floats:
    n = np.asarray(n, np.int64)
    return np.where(n < 0, _SIGN - n, n).astype(np.int64).view(np.float64)


def bits_of_error(computed: Floats, exact: Floats) -> Floats:
    """The error of each value in bits, from 0 to 64."""
    computed = np.broadcast_to(np.asarray(computed, np.float64), exact.shape)
    a, b = to_ordinal(computed), to_ordinal(exact)
    # differences up to 2^64 wrap around as signed numbers, and are right as unsigned ones
    apart = np.where(a > b, a - b, b - a).view(np.uint64)
    bits = np.log2(apart.astype(np.float64) + 1.0)
    return np.where(np.isnan(computed) | np.isnan(exact), 64.0, bits)
