"""Branch and bound on the largest rounding error of a function of numbers over a box of inputs.

Branch and bound (Moore, Kearfott, Cloud: Introduction to interval analysis, 2009, chapter 5): the bound of a box is that of its worst
part. Hundreds of parts are evaluated at once. A search ends when the worst bound is close to what the same formula attains at single
points, or at its limits; the bound holds at any time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from hnfc.dialects.interval_arrays import Array

Evaluate: TypeAlias = Callable[[Array, Array], tuple[Array, Array]]
"""From corners (parts × inputs) to the bound of each part, and whether a part may hold an input at all."""


@dataclass(frozen=True)
class Maximum:
    """bound: no larger error is possible. attained: what the formula of the bound gives at `point`: that is how loose it may be."""

    bound: float
    attained: float
    point: tuple[float, ...]
    parts: int
    seconds: float


@dataclass(frozen=True)
class BoundLimits:
    """tolerance: how far the bound may be above what is attained, relative to it."""

    tolerance: float = 0.01
    parts: int = 400_000
    seconds: float = 10.0


DEFAULT_LIMITS = BoundLimits()


@dataclass
class _Parts:
    """Parts that are not settled: corners, bounds, what each input adds to a bound by its width, and how old that estimate is."""

    lo: Array
    hi: Array
    bounds: Array
    shares: Array
    age: Array

    def __len__(self) -> int:
        return len(self.bounds)

    def __getitem__(self, which: Array) -> _Parts:
        return _Parts(self.lo[which], self.hi[which], self.bounds[which], self.shares[which], self.age[which])

    def joined(self, other: _Parts) -> _Parts:
        return _Parts(*(np.concatenate([a, b]) for a, b in zip(vars(self).values(), vars(other).values(), strict=True)))


def maximum(evaluate: Evaluate, low: Sequence[float], high: Sequence[float], limits: BoundLimits = DEFAULT_LIMITS) -> Maximum:
    """Bounds the maximum over a box, whose ends are finite; 0 where no part of it holds an input."""
    began = time.perf_counter()
    lo, hi = np.array([low], np.float64), np.array([high], np.float64)
    bounds, inhabited = evaluate(lo, hi)
    parts = _Parts(lo, hi, bounds, np.zeros(lo.shape), np.full(1, len(low)))[inhabited]
    attained, settled, evaluated, batch = 0.0, 0.0, 1, 64
    point = tuple(float(a) for a in low)
    while len(parts):
        there, value = _attained(evaluate, parts)
        if value > attained:
            point, attained = there, value
        enough = attained * (1 + limits.tolerance)
        keep = parts.bounds > enough
        settled = max(settled, float(parts.bounds[~keep].max(initial=0.0)))
        parts = parts[keep]
        if not len(parts) or evaluated > limits.parts or time.perf_counter() - began > limits.seconds:
            break
        order = np.argsort(-parts.bounds)
        chosen, rest = parts[order[:batch]], parts[order[batch:]]
        evaluated += _estimate_shares(evaluate, chosen)
        halves = _halved(chosen)
        if halves is None:
            break
        found, inhabited = evaluate(halves.lo, halves.hi)
        evaluated += len(found)
        # a part is never worse than the whole, whatever its own evaluation says
        halves.bounds = np.minimum(found, halves.bounds)
        parts = rest.joined(halves[inhabited])
        batch = min(batch * 2, _BATCH)
    bound = max(settled, float(parts.bounds.max(initial=0.0)))
    return Maximum(bound, min(attained, bound), point, evaluated, time.perf_counter() - began)


_BATCH = 2048


def _attained(evaluate: Evaluate, parts: _Parts) -> tuple[tuple[float, ...], float]:
    """The formula at the middles and corners of the worst parts: where it is largest, and what it is."""
    worst = parts[np.argsort(-parts.bounds)[:16]]
    points = np.concatenate([worst.lo / 2 + worst.hi / 2, worst.lo, worst.hi])
    values, inhabited = evaluate(points, points)
    values = np.where(inhabited & np.isfinite(values), values, 0.0)
    best = int(values.argmax())
    return tuple(float(x) for x in points[best]), float(values[best])


def _estimate_shares(evaluate: Evaluate, parts: _Parts) -> int:
    """Decrease of the bound where an input is held at its middle; estimates that are young are kept."""
    inputs = parts.lo.shape[1]
    old = np.flatnonzero(parts.age >= inputs)
    if inputs == 1 or not len(old):
        return 0
    lo, hi = np.repeat(parts.lo[old], inputs, axis=0), np.repeat(parts.hi[old], inputs, axis=0)
    rows, columns = np.arange(len(lo)), np.tile(np.arange(inputs), len(old))
    middle = lo[rows, columns] / 2 + hi[rows, columns] / 2
    lo[rows, columns] = hi[rows, columns] = middle
    bounds, _ = evaluate(lo, hi)
    with np.errstate(invalid="ignore"):
        gain = parts.bounds[old][:, None] - bounds.reshape(-1, inputs)
    parts.shares[old] = np.where(np.isfinite(gain), gain, 0.0)
    parts.age[old] = 0
    return len(lo)


def _halved(parts: _Parts) -> _Parts | None:
    """Each part halved along the input that adds most to its bound; None where no number lies between the ends of any."""
    lo, hi = parts.lo, parts.hi
    middle = lo / 2 + hi / 2
    splittable = (middle > lo) & (middle < hi)
    if not splittable.any():
        return None
    shares = np.where(splittable, parts.shares, -1.0)
    relative = np.where(splittable, (hi - lo) / np.maximum(np.maximum(np.abs(lo), np.abs(hi)), 1e-300), -1.0)
    axis = np.where(shares.max(axis=1) > 0, shares.argmax(axis=1), relative.argmax(axis=1))
    rows = np.arange(len(lo))
    left_hi, right_lo, halved = hi.copy(), lo.copy(), parts.shares.copy()
    left_hi[rows, axis] = right_lo[rows, axis] = middle[rows, axis]
    halved[rows, axis] /= 2
    return _Parts(
        np.concatenate([lo, right_lo]), np.concatenate([left_hi, hi]), np.tile(parts.bounds, 2), np.tile(halved, (2, 1)),
        np.tile(parts.age + 1, 2),
    )  # fmt: skip
