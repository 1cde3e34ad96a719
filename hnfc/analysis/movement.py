"""Movement of elements on a tape: transposes, slices, look-ups, and their derivatives."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from hnfc.analysis.batch_axis import SIGMA
from hnfc.analysis.nodes import Pull, Recording, TapeNode
from hnfc.dialects.interval_arrays import Array, IntervalArray


class Movement:
    """Elements of several operands at other indices; `move` is applied to arrays of their numbers, and -1 is a filling."""

    def __init__(self, shapes: Sequence[tuple[int, ...]], move: Callable[[list[Array]], Array]) -> None:
        self.shapes, self.sizes = shapes, [math.prod(shape) for shape in shapes]
        self.firsts = np.cumsum([0, *self.sizes])
        self._plans: dict[int, tuple[Array, Array, Array | None]] = {}
        self.index = move([np.arange(n).reshape(s) + first for s, n, first in zip(shapes, self.sizes, self.firsts, strict=False)])

    def picked(self, arrays: Sequence[Array], filling: Array) -> Array:
        """The elements of these arrays, which broadcast to the shapes behind their first axis."""
        lead = max(len(a) for a in arrays)
        flat = [np.broadcast_to(a, (lead, *s)).reshape(lead, n) for a, s, n in zip(arrays, self.shapes, self.sizes, strict=True)]
        flat.append(np.broadcast_to(filling, (lead, 1)))
        return np.asarray(np.concatenate(flat, axis=1)[:, self.index])

    def summed(self, g: Array, which: int) -> tuple[Array, bool]:
        """For each element of an operand the sum of g where it went; and whether any went to several indices."""
        spread = np.broadcast_to(g, (len(g), *self.index.shape)).reshape(len(g), self.index.size)
        shape, (sources, targets, starts) = (len(g), *self.shapes[which]), self._plan(which)
        if starts is not None:
            found = np.zeros((len(g), self.sizes[which]))
            found[:, targets] = np.add.reduceat(np.take(spread, sources, axis=1), starts, axis=1)
            return found.reshape(shape), True
        if len(targets) < self.sizes[which]:
            found = np.zeros((len(g), self.sizes[which]))
            found[:, targets] = np.take(spread, sources, axis=1)
            return found.reshape(shape), False
        still = len(sources) == spread.shape[1] and bool((np.diff(sources) == 1).all())
        return (spread if still else np.take(spread, sources, axis=1)).reshape(shape), False

    def _plan(self, which: int) -> tuple[Array, Array, Array | None]:
        """Indices of an operand's elements in the result, by the operand's; these; and where each begins, if any has several."""
        if which not in self._plans:
            flat = self.index.reshape(-1)
            own = np.flatnonzero((flat >= self.firsts[which]) & (flat < self.firsts[which + 1]))
            targets = flat[own] - self.firsts[which]
            order = np.argsort(targets, kind="stable")
            starts = np.flatnonzero(np.diff(targets[order], prepend=-1))
            once = len(starts) == len(targets)
            self._plans[which] = own[order], targets[order][starts], None if once else starts
        return self._plans[which]


def moved(tape: Recording, xs: Sequence[TapeNode], move: Callable[[list[Array]], Array], filling: IntervalArray) -> TapeNode:
    """Elements of the operands at other indices."""
    movement = Movement([x.shape for x in xs], move)

    def pull(which: int) -> Pull:
        def back(g: IntervalArray) -> IntervalArray:
            sums = []
            for end, sign in ((g.lo, -1), (g.hi, 1)):
                found, several = movement.summed(end, which)
                slack = movement.summed(np.abs(end), which)[0] * (movement.index.size * SIGMA) if several else 0.0
                sums.append(found + sign * slack)
            return IntervalArray(*sums)

        return back

    value = moved_box(movement, [x.value for x in xs], filling)
    lost = None
    if any(x.lost is not None for x in xs):
        lost = movement.picked([np.zeros((1,) * (len(x.shape) + 1), bool) if x.lost is None else x.lost for x in xs], np.zeros(1, bool))
    error = None
    if any(x.error is not None for x in xs):
        error = movement.picked([np.zeros((1,) * (len(x.shape) + 1)) if x.error is None else x.error for x in xs], np.zeros(1))
    return TapeNode(tape, value, [(x, pull(i)) for i, x in enumerate(xs)], lost=lost, error=error)


def moved_box(movement: Movement, boxes: Sequence[IntervalArray], filling: IntervalArray) -> IntervalArray:
    low = movement.picked([box.lo for box in boxes], filling.lo)
    same = all(box.lo is box.hi for box in boxes) and filling.lo is filling.hi
    return IntervalArray(low, low if same else movement.picked([box.hi for box in boxes], filling.hi))
