"""Values beside their centres, and how derivatives carry bounds: parts of a tape of linear functions of errors (see `linear`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from hnfc.analysis.batch_axis import raised
from hnfc.analysis.nodes import ABOVE, TapeNode
from hnfc.dialects.interval_arrays import Array, IntervalArray

Errors: TypeAlias = "Array | None"
"""Bounds in a shape that broadcasts to a value's; None where all are 0."""
ArrayMap: TypeAlias = Callable[[Array], Array]


@dataclass
class Dependence:
    """Dependence on an operand.

    pull: g·J. push: |J|·e. change: bound of |J' - J|·e for all derivatives J' on the box; None: there is only J.
    """

    operand: TapeNode
    pull: ArrayMap
    push: ArrayMap
    change: ArrayMap | None = None


@dataclass
class Line:
    """A value as centre + J·(…) + s. away: bound of |v - centre|. drift, fault: bounds of the sources, of |v - centre| and of the error.

    pushed_away, pushed: what the operands' bounds become, before the sources. mixed: whether a sweep may give less. endless: whether one
    has left no element a bound, so that none will behind it.
    """

    centre: Array
    away: Errors = None
    drift: Errors = None
    fault: Errors = None
    pushed_away: Errors = None
    pushed: Errors = None
    parts: Sequence[Dependence] = ()
    mixed: bool = False
    endless: bool = False

    @property
    def sourced(self) -> bool:
        """True if any error reaches the value."""
        return self.drift is not None or self.fault is not None or any(p.operand.line is None or p.operand.line.sources for p in self.parts)

    sources: bool = False
    """The same, once the value is used."""


def middle_and_radius(x: IntervalArray) -> tuple[Array, Errors]:
    """A number, and how far any in the interval is from it; 0 and infinity where the interval has no end."""
    finite = np.isfinite(x.lo) & np.isfinite(x.hi)
    if x.lo is x.hi and finite.all():
        return x.lo, None
    middle = np.where(finite, x.lo / 2 + x.hi / 2, 0.0)
    radius = np.where(finite, np.maximum(x.hi - middle, middle - x.lo) * ABOVE, np.inf)
    return middle, radius if radius.any() else None


def plus(x: Errors, y: Errors) -> Errors:
    if x is None or y is None:
        return y if x is None else x
    return np.asarray((x + y) * ABOVE)


def at_most(x: Errors, limit: Errors) -> Errors:
    """The lesser of both bounds, where the limit is a number."""
    return x if x is None or limit is None else np.asarray(np.fmin(x, limit))


def weighted(adjoint: Array, bounds: Sequence[Errors]) -> Array:
    """Σ adjoint·bound, for each bound and adjoint; an infinite error behind a derivative of 0 belongs to a branch that is not taken."""
    shape = adjoint.shape[1:]
    whole = (1, *shape)
    columns = [np.zeros(shape) if e is None else (e if np.shape(e) == whole else np.broadcast_to(e, whole))[0] for e in bounds]
    finite = np.isfinite(columns)
    if finite.all():
        return np.stack([column.reshape(-1) for column in columns]) @ adjoint.reshape(len(adjoint), -1).T
    each = (np.where((adjoint == 0) | (column == 0), 0.0, adjoint * column) for column in columns)
    return np.stack([np.where(np.isnan(e), np.inf, e).reshape(len(adjoint), -1).sum(axis=1) for e in each])


def summed_to(g: Array, shape: tuple[int, ...]) -> Array:
    """The derivative by an operand of this shape that was broadcast."""
    extra = g.ndim - 1 - len(shape)
    axes = tuple(i + 1 for i, n in enumerate(g.shape[1:]) if i < extra or (shape[i - extra] == 1 and n != 1))
    return g.sum(axis=axes, keepdims=True).reshape(len(g), *shape) if axes else g.reshape(len(g), *shape) if extra else g


def scaling(x: TapeNode, j: Array, off: Errors, rank: int) -> Dependence:
    """f'·δ element by element, with broadcasting."""
    size = np.abs(j)
    return Dependence(
        x, lambda g: summed_to(g * j, x.shape), lambda e: _times(size, raised(e, rank)),
        None if off is None else lambda e: _times(off, raised(e, rank)),
    )  # fmt: skip


def _times(slope: Array, e: Array) -> Array:
    """slope·e; where there is no error the slope does not matter."""
    found = slope * e
    return np.where(np.isnan(found), np.where(e == 0, 0.0, np.inf), found) if np.isnan(found).any() else found


def carried(errors: Sequence[tuple[Dependence, Errors]]) -> tuple[Errors, Errors]:
    """Bounds of operands as |J| carries them, and what the derivatives on the box add."""
    pushed: Errors = None
    own: Errors = None
    with np.errstate(all="ignore"):
        for part, error in errors:
            if error is None:
                continue
            pushed = plus(pushed, part.push(error))
            if part.change is not None:
                own = plus(own, part.change(error))
    return _without_nan(pushed), _without_nan(own)


def _without_nan(x: Errors) -> Errors:
    return x if x is None or not np.isnan(x).any() else np.where(np.isnan(x), np.inf, x)


def around(value: IntervalArray, line: Line) -> IntervalArray:
    """The part of a box that is near enough to the centre, which is moved into it."""
    if line.away is not None:
        near = IntervalArray.of(line.centre).widened(line.away)
        value = value.meet(near.lo, near.hi)
    inside = np.clip(line.centre, value.lo, value.hi)
    if not np.array_equal(inside, np.broadcast_to(line.centre, inside.shape)):
        step = np.abs(inside - line.centre) * ABOVE
        line.centre, line.drift = inside, plus(line.drift, step)
    return value
