"""Movement of elements on a tape: transposes, slices, look-ups, and their derivatives."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from hnfc.analysis.batch_axis import SIGMA
from hnfc.analysis.nodes import Pull, Recording, TapeNode
from hnfc.dialects.interval_arrays import Array, IntervalArray


def moved(tape: Recording, xs: Sequence[TapeNode], move: Callable[[list[Array]], Array], filling: IntervalArray) -> TapeNode:
    """Elements of the operands at other indices; `move` is applied to arrays of their numbers, and -1 is `filling`."""
    sizes = [math.prod(x.shape) for x in xs]
    firsts = np.cumsum([0, *sizes])
    index = move([np.arange(n).reshape(x.shape) + first for x, n, first in zip(xs, sizes, firsts, strict=False)])
    lead = max(x.value.shape[0] for x in xs)

    def picked(ends: Sequence[Array], fill: Array) -> Array:
        flat = [np.broadcast_to(e, (lead, *x.shape)).reshape(lead, n) for e, x, n in zip(ends, xs, sizes, strict=True)]
        flat.append(np.broadcast_to(fill, (lead, 1)))
        return np.concatenate(flat, axis=1)[:, index]

    def pull(which: int) -> Pull:
        def back(g: IntervalArray) -> IntervalArray:
            ends = [np.broadcast_to(e, (g.shape[0], *index.shape)).reshape(g.shape[0], index.size) for e in (g.lo, g.hi)]
            flat = index.reshape(-1)
            own = (flat >= firsts[which]) & (flat < firsts[which + 1])
            sums = []
            for end, sign in zip(ends, (-1, 1), strict=True):
                found = np.zeros((g.shape[0], sizes[which]))
                size = np.zeros_like(found)
                np.add.at(found.T, flat[own] - firsts[which], end[:, own].T)
                np.add.at(size.T, flat[own] - firsts[which], np.abs(end[:, own]).T)
                once = np.bincount(flat[own] - firsts[which], minlength=sizes[which]) <= 1
                slack = np.where(once, 0.0, size * flat.size * SIGMA)
                sums.append((found + sign * slack).reshape(g.shape[0], *xs[which].shape))
            return IntervalArray(*sums)

        return back

    low = picked([x.value.lo for x in xs], filling.lo)
    same = all(x.value.lo is x.value.hi for x in xs) and filling.lo is filling.hi
    value = IntervalArray(low, low if same else picked([x.value.hi for x in xs], filling.hi))
    lost = None
    if any(x.lost is not None for x in xs):
        lost = picked([np.zeros(1, bool) if x.lost is None else x.lost for x in xs], np.zeros(1, bool))
    error = None
    if any(x.error is not None for x in xs):
        error = picked([np.zeros(1) if x.error is None else x.error for x in xs], np.zeros(1))
    return TapeNode(tape, value, [(x, pull(i)) for i, x in enumerate(xs)], lost=lost, error=error)
