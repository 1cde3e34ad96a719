"""Another rounding, from the values alone, and the inputs on which roundings differ."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import torch

from hnfc.precision import round_to

Array = np.ndarray[Any, np.dtype[Any]]
SPECIAL = [0.0, -0.0, math.inf, -math.inf, math.nan, 5e-324, -5e-324, 1.7e308, -1.7e308, 1.0, -1.0]


def same(x: Array, y: Array) -> Array:
    """Bit for bit; all NaNs are one."""
    return ((x == y) & (np.signbit(x) == np.signbit(y))) | (np.isnan(x) & np.isnan(y))


def in_numpy(x: Array, name: str, **how: Any) -> Array:
    return np.asarray(round_to(x, name, **how))


def in_torch(x: Array, name: str, **how: Any) -> Array:
    return np.asarray(round_to(torch.tensor(x), name, **how).numpy())


BOTH = [in_numpy, in_torch]


def around_ties(values: Array, dtype: Any) -> Array:
    """The values, the middles between neighbours, and the numbers of `dtype` next to each."""
    with np.errstate(all="ignore"):
        points = np.concatenate([values, values[:-1] / 2 + values[1:] / 2]).astype(dtype)
        near = [np.nextafter(points, dtype(side)) for side in (-math.inf, math.inf)]
        return np.concatenate([points, *near, np.asarray(SPECIAL).astype(dtype)])


def random_patterns(count: int, dtype: Any, seed: int = 0) -> Array:
    random = np.random.default_rng(seed)
    if dtype is np.float32:
        return random.integers(0, 2**32, count, dtype=np.uint32).view(np.float32)
    wide = random.integers(0, 2**64, count, dtype=np.uint64).view(np.float64)
    ordinary = random.standard_normal(count) * 2.0 ** random.integers(-20, 20, count)
    return np.concatenate([wide, ordinary])


def nearest(x: Array, values: Array, step_beyond: Fraction, beyond: float, below: float, up_on_tie: bool = False) -> list[float]:
    """Each |x| to the nearest of the values ≥ 0 in order, of which the even places are even; the tie beyond the largest goes to `beyond`
    where the largest has an odd place. `below`: what 0 becomes.
    """
    found = []
    tie_beyond = Fraction(float(values[-1])) + step_beyond / 2
    odd = len(values) % 2 == 0
    for number in np.abs(x).tolist():
        place = int(np.searchsorted(values, number))
        if math.isnan(number):
            found.append(math.nan)
        elif number == 0:
            found.append(below)
        elif number == math.inf or Fraction(number) > tie_beyond or (Fraction(number) == tie_beyond and odd):
            found.append(beyond)
        elif place in (0, len(values)):
            found.append(float(values[0] if place == 0 else values[-1]))
        else:
            low, high = float(values[place - 1]), float(values[place])
            lower, upper = Fraction(number) - Fraction(low), Fraction(high) - Fraction(number)
            to_high = upper < lower or (upper == lower and (place % 2 == 0 or up_on_tie))
            found.append(high if to_high else low)
    return found
