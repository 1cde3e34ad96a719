"""Arrays and boxes with a first axis of their own, for what is done at once; the axes of a tensor are those behind it."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from hnfc.dialects.facts import NoFormula
from hnfc.dialects.interval_arrays import LINE, ONE, Array, IntervalArray, sqrt

SIGMA = 2.0**-52
"""Twice the unit roundoff of float64, in which all of this is computed."""


def scaled(error: Array, slope: IntervalArray) -> Array:
    """|slope|·error; where there is no error the slope does not matter."""
    return np.where(error == 0, 0.0, error * slope.magnitude)


def places_of(rank: int, axes: Sequence[int]) -> tuple[int, ...]:
    """Positions in its arrays of a tensor's axes, counted from the left or from the right."""
    return tuple(axis % rank + 1 for axis in axes)


def extremum_places(shape: Sequence[int], axes: Sequence[int]) -> tuple[int, ...]:
    """The same for an extremum of elements of this shape. Raises NoFormula where there are none."""
    if 0 in shape:
        raise NoFormula("an extremum of no elements")
    return places_of(len(shape), axes)


def filled(v: Array, shape: tuple[int, ...]) -> Array:
    """Broadcast to the shape, but for the first axis, which may be longer."""
    return np.broadcast_to(v, (max(v.shape[0], shape[0]), *shape[1:]))


def raised(v: Array, rank: int) -> Array:
    """With axes of size 1 between the first axis and the others, up to this rank."""
    return v if v.ndim == rank + 1 else v.reshape(v.shape[0], *(1,) * (rank + 1 - v.ndim), *v.shape[1:])


def either(p: Array | None, q: Array | None, rank: int) -> Array | None:
    """Union of masks; None is the empty one."""
    if p is None or q is None:
        one = q if p is None else p
        return None if one is None else raised(one, rank)
    return np.asarray(raised(p, rank) | raised(q, rank))


def anywhere(p: Array | None, shape: tuple[int, ...], places: tuple[int, ...]) -> Array | None:
    """Return whether it holds anywhere along the axes."""
    return None if p is None else np.any(np.broadcast_to(p, (p.shape[0], *shape)), axis=places, keepdims=True)


def rows_of(p: Array | None, shape: tuple[int, ...], places: tuple[int, ...]) -> Array | None:
    """Elements of an array of this shape that lie in line with one where it holds."""
    return None if p is None else np.broadcast_to(np.any(np.broadcast_to(p, shape), axis=places, keepdims=True), shape)


def multiplied(x: IntervalArray, y: IntervalArray) -> IntervalArray:
    """x·y, of which nothing is known where one of them may have no value; 0 times such a value is none either."""
    return (x * y).where(np.isfinite(x.magnitude) & np.isfinite(y.magnitude), LINE)


def inside(slope: IntervalArray, where: Array) -> IntervalArray:
    """The slope where the function has one, anything elsewhere."""
    return slope.where(where, LINE)


def arc_slope(x: IntervalArray) -> IntervalArray:
    """1/√(1 - x²)."""
    return inside(sqrt((ONE - x.square()).meet(-1.0, 1.0)).reciprocal(), (x.lo > -1) & (x.hi < 1))


def lifted(x: IntervalArray, rank: int) -> IntervalArray:
    return x if x.lo.ndim == rank + 1 == x.hi.ndim else x.map(lambda v: raised(v, rank))


def gathered(g: IntervalArray, shape: tuple[int, ...]) -> IntervalArray:
    """The derivative by an operand of this shape that was broadcast."""
    extra = len(g.shape) - 1 - len(shape)
    axes = tuple(i + 1 for i, n in enumerate(g.shape[1:]) if i < extra or (shape[i - extra] == 1 and n != 1))
    if not axes:
        return g
    summed = total(g, axes)
    return summed.map(lambda v: v.reshape(v.shape[0], *shape))


def spread(g: IntervalArray, shape: tuple[int, ...]) -> IntervalArray:
    return IntervalArray(np.broadcast_to(g.lo, (g.shape[0], *shape)), np.broadcast_to(g.hi, (g.shape[0], *shape)))


def total(x: IntervalArray, axes: tuple[int, ...]) -> IntervalArray:
    """Σ x, kept with size 1; rounding in any order is below n·2u·Σ|x|."""
    full = IntervalArray(*np.broadcast_arrays(x.lo, x.hi))
    n = math.prod(full.lo.shape[axis] for axis in axes)
    ends = []
    for end, sign in ((full.lo, -1.0), (full.hi, 1.0)):
        found = np.sum(end, axis=axes, keepdims=True)
        slack = np.sum(np.abs(end), axis=axes, keepdims=True) * (n * SIGMA) if n > 1 else 0.0
        ends.append(np.where(np.isnan(found + sign * slack), sign * np.inf, found + sign * slack))
    return IntervalArray(*ends)


def product(a: IntervalArray, b: IntervalArray) -> IntervalArray:
    """A·B by midpoints and radii (Rump: Fast and parallel interval arithmetic, 1999), with room for the rounding of all of it."""
    ends = (a.lo, a.hi, b.lo, b.hi)
    if not all(np.isfinite(e).all() for e in ends):
        shape = np.matmul(np.zeros(a.shape), np.zeros(b.shape)).shape
        return IntervalArray(np.full(shape, -np.inf), np.full(shape, np.inf))
    am, bm = a.lo / 2 + a.hi / 2, b.lo / 2 + b.hi / 2
    ar, br = np.maximum(a.hi - am, am - a.lo), np.maximum(b.hi - bm, bm - b.lo)
    size = np.abs(am) @ np.abs(bm)
    radius = np.abs(am) @ br + ar @ (np.abs(bm) + br)
    n = a.shape[-1] + 8
    slack = (size + radius) * (4 * n * SIGMA) + n * 1e-300
    middle = am @ bm
    return IntervalArray(middle - radius - slack, middle + radius + slack)
