"""Errors as linear functions of their sources: a tape whose derivatives are numbers, and what they leave out a source of its own.

A value v = f(u) lies off a number c = f(c'), the centre, by J·(u - c') + s, whatever the matrix J is: s holds the rounding of the
operation, and (f' - J)·(u - c') for the derivatives f' on the box of u. J is taken near the derivative at the centre. In the same way a
computed value is off the true one by d = J·d' + s. These recursions are linear in the sources, so that one sweep backward with numbers
gives the sum of |∂/∂s|·|s|, and errors that cancel do cancel: through residual paths, and through layers whose matrices have large rows
and small norms. No product of intervals is taken. |u - c'| and |d'|, which s needs, come from one pass forward, by |J|, and from sweeps
(`tighten`) where that pass has become too coarse for the second order to stay small.

A sweep computed in float64 is off by η at each node: Σ a·(v - J·u - s) = 0 over all nodes for any numbers a, so that the sum above gains
no more than Σ|η|·|d|, and |η|·|d| ≤ γ·|a|·|J|·|d'|, which the pass forward knows.
"""

from __future__ import annotations

import heapq
import math
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hnfc.analysis.batch_axis import SIGMA, anywhere, either, extremum_places, filled, lifted, places_of, product, raised, rows_of, total
from hnfc.analysis.contraction import vector_product
from hnfc.analysis.lines import Dependence, Errors, Line, around, at_most, carried, middle_and_radius, plus, scaling, summed_to, weighted
from hnfc.analysis.movement import Movement, moved_box
from hnfc.analysis.nodes import ABOVE, Function, Slope, TapeNode, WholeFunction
from hnfc.analysis.tape import Tape
from hnfc.dialects.facts import NoFormula
from hnfc.dialects.interval_arrays import ZERO, Array, IntervalArray

_STEEP = 1e-3
"""Relative width of a derivative above which the box is tightened first."""
_WORK = 2**34
"""Elements that sweeps for tightening may touch, all together: some 30 seconds."""
_SHARE = 1 / 8
"""Part of the work that is left which one sweep may take."""
_VISIT = 2**14
"""Elements that take as long as what a sweep does once for each value."""
_AT_ONCE = 2**20
"""Elements of an array of adjoints."""


@dataclass
class LinearTape(Tape):
    """points: whether the values are those at the centres, without room for errors. signs: of roundings at their bounds that move these."""

    points: bool = False
    signs: np.random.Generator | None = None
    work: float = _WORK
    _sums: list[tuple[int, int, int]] = field(default_factory=lambda: [(0, 0, 0)])
    """Of the values before each index as far as they were counted: how many a sweep touches, their elements, the largest of any."""

    def line(self, node: TapeNode) -> Line:
        """The line of a node; one that was made without its derivatives is a source."""
        if node.line is None:
            centre, radius = middle_and_radius(node.value)
            node.line = Line(centre, away=radius, drift=radius, fault=node.error)
        line: Line = node.line
        if not line.sources and line.sourced:
            self._use(node, line)
        return line

    def _use(self, node: TapeNode, line: Line) -> None:
        """Marks the value as one that errors come through: sweeps touch it from now on."""
        line.sources = True
        del self._sums[node.index + 1 :]

    def _before(self, index: int) -> tuple[int, int, int]:
        """The entry of `_sums` at the index."""
        sums = self._sums
        for node in self.nodes[len(sums) - 1 : index]:
            (count, elements, widest), size = sums[-1], math.prod(node.shape)
            touched = node.line is not None and node.line.sources
            sums.append((count + touched, elements + size * touched, max(widest, size)))
        return sums[index]

    def box(self, node: TapeNode) -> IntervalArray:
        """Values of the node, and its centre."""
        if self.points:
            return IntervalArray.of(self.line(node).centre)
        centre, value = self.line(node).centre, node.value
        if value.lo is value.hi and value.lo is centre:
            return value
        return IntervalArray(np.minimum(value.lo, centre), np.maximum(value.hi, centre))

    def made(
        self, value: IntervalArray, at_centre: IntervalArray, parts: Sequence[Dependence], lost: Array | None, mixed: bool = False
    ) -> TapeNode:
        """A value on the box `value`, f of the centres being within `at_centre`."""
        centre, radius = middle_and_radius(at_centre)
        line = Line(centre, parts=[part for part in parts if self.line(part.operand).sources])
        errors = [(part, part.operand.error) for part in line.parts]
        line.pushed, line.fault = carried(errors)
        line.pushed_away, line.drift = carried([(part, self.line(part.operand).away) for part in line.parts])
        line.drift = plus(line.drift, radius)
        line.away, error = plus(line.pushed_away, line.drift), plus(line.pushed, line.fault)
        if not self.points:
            # both the true and the computed value lie in the box, before this value is rounded itself
            spread = (value.hi - value.lo) * ABOVE
            reach = np.maximum(value.hi - centre, centre - value.lo) * ABOVE
            error, line.away = at_most(error, spread), at_most(line.away, reach)
            line.fault, line.drift = at_most(line.fault, plus(spread, line.pushed)), at_most(line.drift, plus(reach, line.pushed_away))
        line.mixed = mixed or any(self.line(part.operand).mixed for part in line.parts)
        line.endless = any(self.line(part.operand).endless for part in line.parts)
        exact = all(part.operand.exact for part in parts)
        if self.points:
            value = IntervalArray.of(centre)
        else:
            value = around(value, line)
        node = TapeNode(self, value, exact=exact, lost=lost, error=error)
        node.line = line
        return node

    def work_of(self, node: TapeNode) -> int:
        """Elements that a sweep from all of the value touches."""
        return math.prod(node.shape) * self._before(node.index + 1)[1]

    def tighten(self, node: TapeNode) -> bool:
        """Bounds of a value by one sweep backward, as far as its share of the work goes; False where that changes nothing."""
        line, size = self.line(node), math.prod(node.shape)
        if self.points or not line.mixed or line.endless or node.value.shape[0] != 1:
            return False
        count, elements, widest = self._before(node.index + 1)
        step = max(1, _AT_ONCE // max(widest, 1))
        sweeps = math.ceil(size / step)

        def work(end: int) -> int:
            """Elements that sweeps back to the value at this index touch."""
            visited, touched, _ = self._sums[end]
            return sweeps * (count - visited) * _VISIT + size * (elements - touched)

        end = bisect_left(range(node.index + 1), True, key=lambda end: work(end) <= self.work * _SHARE)
        if end >= node.index:
            return False
        self.work -= work(end)
        sums = np.zeros((2, size))
        slack = (widest + len(self.nodes) + 64) * 4 * SIGMA
        for first in range(0, size, step):
            count = min(step, size - first)
            for source, adjoint in self.adjoint_arrays({node: np.eye(count, size, first).reshape(count, *node.shape)}, end):
                held = self.line(source)
                own = ((held.fault, held.pushed), (held.drift, held.pushed_away))
                bounds = [plus(e, None if pushed is None else pushed * slack) for e, pushed in own]
                if source.index < end:
                    bounds = [source.error, held.away]
                if any(bound is not None for bound in bounds):
                    sums[:, first : first + count] += weighted(np.abs(adjoint), bounds)
        error, away = (sums * (1 + 2.0**-40) + np.where(sums > 0, 1e-300, 0.0)).reshape(2, 1, *node.shape)
        node.error = None if node.error is None else np.minimum(node.error, error)
        line.away = None if line.away is None else np.minimum(line.away, away)
        line.mixed = False
        line.endless = not np.isfinite(sums).any()
        node.value = around(node.value, line)
        return True

    def adjoint_arrays(self, seeds: Mapping[TapeNode, Array], end: int = 0) -> Iterator[tuple[TapeNode, Array]]:
        """Nodes that errors come through, from the last, each with the derivatives of the weighted sums by it.

        Nodes before `end` come last, with the derivatives by what is used of them.
        """
        found = {node.index: seed for node, seed in seeds.items()}
        waiting = sorted(-index for index in found)
        with np.errstate(all="ignore"):
            while waiting:
                node = self.nodes[-heapq.heappop(waiting)]
                adjoint = found.pop(node.index)
                yield node, adjoint
                for part in self.line(node).parts if node.index >= end else ():
                    moved, before = part.pull(adjoint), part.operand.index
                    if before not in found:
                        heapq.heappush(waiting, -before)
                    found[before] = found[before] + moved if before in found else moved

    # what the tape records

    def round(self, x: TapeNode, noise: Array, origin: Any = None) -> TapeNode:
        line = self.line(x)
        value = x.value
        found = super().round(x, noise, origin)
        line.fault, line.drift, line.away = plus(line.fault, noise), plus(line.drift, noise), plus(line.away, noise)
        if not line.sources:
            self._use(x, line)
        if self.points:
            found.value = value
        if self.signs is not None:
            away = np.where(np.isfinite(noise), noise, 0.0) * self.signs.choice([-1.0, 1.0], np.shape(noise))
            line.centre = line.centre + away
            found.value = IntervalArray.of(line.centre)
        return found

    def copy(self, x: TapeNode) -> TapeNode:
        return self.made(x.value, IntervalArray.of(self.line(x).centre), [Dependence(x, lambda g: g, lambda e: e)], x.lost)

    def function(self, x: TapeNode, f: Function, slope: Slope) -> TapeNode:
        def steep() -> tuple[IntervalArray, Array, Errors]:
            box = self.box(x)
            value = f(box)
            return value, *middle_and_radius(slope(box, value))

        value, j, off = steep()
        if self._is_wide(x, j, off) and self.tighten(x):
            value, j, off = steep()
        centre = IntervalArray.of(self.line(x).centre)
        at_centre = value if self.points else f(centre)
        return self.made(value, at_centre, [scaling(x, j, off, len(x.shape))], x.lost)

    def _is_wide(self, x: TapeNode, j: Array, off: Errors) -> bool:
        return off is not None and self.line(x).mixed and bool(np.max(off, initial=0.0) > _STEEP * np.max(np.abs(j), initial=0.0))

    def joined(
        self, combine: Callable[[IntervalArray, IntervalArray], IntervalArray], x: Any, y: Any,
        slopes: Callable[[IntervalArray, IntervalArray], tuple[IntervalArray, IntervalArray]],
    ) -> TapeNode:  # fmt: skip
        x, y = self.node(x), self.node(y)
        rank = max(len(x.shape), len(y.shape))

        def steep() -> tuple[IntervalArray, list[tuple[Array, Errors]]]:
            a, b = lifted(self.box(x), rank), lifted(self.box(y), rank)
            return combine(a, b), [middle_and_radius(s) for s in slopes(a, b)]

        value, found = steep()
        wide = [n for n, (j, off) in zip((y, x), found, strict=True) if self._is_wide(n, j, off)]
        tightened = [self.tighten(n) for n in wide]
        if any(tightened):
            value, found = steep()
        parts = [scaling(n, *s, rank) for n, s in zip((x, y), found, strict=True)]
        a, b = (lifted(IntervalArray.of(self.line(n).centre), rank) for n in (x, y))
        # in a sum of two values errors may cancel
        cancels = all(off is None and self.line(n).sources for n, (_, off) in zip((x, y), found, strict=True))
        return self.made(value, value if self.points else combine(a, b), parts, either(x.lost, y.lost, rank), mixed=cancels)

    def whole(self, x: TapeNode, f: WholeFunction) -> TapeNode:
        centre = IntervalArray.of(self.line(x).centre)
        at_centre = f.values(centre)
        value = self.line(x).centre if self.points else at_centre.middle
        box = self.box(x)
        values = f.values(box)
        there = f.at(centre.lo, at_centre.middle, box, values)
        if self.line(x).mixed and not self.points:
            ones = np.ones(value.shape)
            if np.max(there.change(ones)) > _STEEP * np.max(there.push(ones)) and self.tighten(x):
                box = self.box(x)
                values = f.values(box)
                there = f.at(centre.lo, at_centre.middle, box, values)
        part = Dependence(x, there.pull, lambda e: there.push(filled(e, x.value.shape)), lambda e: there.change(filled(e, x.value.shape)))
        return self.made(values, at_centre, [part], rows_of(x.lost, x.value.shape, f.places), mixed=self.line(x).sources)

    def sum(self, x: Any, axes: Sequence[int]) -> TapeNode:
        x = self.node(x)
        places = places_of(len(x.shape), axes)
        n = math.prod(x.value.shape[place] for place in places)

        def push(e: Array) -> Array:
            return np.asarray(np.sum(filled(e, x.value.shape), axis=places, keepdims=True) * (1 + n * SIGMA))

        part = Dependence(x, lambda g: np.broadcast_to(g, (len(g), *x.shape)), push)
        at_centre = total(IntervalArray.of(np.broadcast_to(self.line(x).centre, x.value.shape)), places)
        return self.made(total(self.box(x), places), at_centre, [part], anywhere(x.lost, x.shape, places), mixed=n > 1)

    def amax(self, x: Any, axes: Sequence[int]) -> TapeNode:
        x = self.node(x)
        places = extremum_places(x.shape, axes)
        box, centre = self.box(x), np.broadcast_to(self.line(x).centre, x.value.shape)
        value = box.map(lambda a: np.max(a, axis=places, keepdims=True))
        top = np.max(centre, axis=places, keepdims=True)
        taken = centre == top
        # one of several that are equal, so that |J| is 1
        share = taken / np.sum(taken, axis=places, keepdims=True)
        near = np.broadcast_to(box.hi, x.value.shape) >= value.lo
        several = np.sum(near, axis=places, keepdims=True) > 1

        def change(e: Array) -> Array:
            return np.where(several, 2 * np.max(np.where(near, filled(e, x.value.shape), 0.0), axis=places, keepdims=True), 0.0)

        def push(e: Array) -> Array:
            return np.asarray(np.sum(share * e, axis=places, keepdims=True) * ABOVE)

        part = Dependence(x, lambda g: g * share, push, change if several.any() else None)
        return self.made(value, IntervalArray.of(top), [part], anywhere(x.lost, x.shape, places))

    def matmul(self, a: Any, b: Any) -> TapeNode:
        a, b = self.node(a), self.node(b)
        if not a.shape or not b.shape:
            raise NoFormula("a matrix product with a number")
        if len(a.shape) < 2 or len(b.shape) < 2:
            return vector_product(self, a, b)
        rank = max(len(a.shape), len(b.shape))
        for x, other in ((a, b), (b, a)):
            if self.line(other).sources and self._is_wide(x, self.line(x).centre, self.line(x).away):
                self.tighten(x)
        first, second = raised(self.line(a).centre, rank), raised(self.line(b).centre, rank)
        n = 1 + 2 * first.shape[-1] * SIGMA

        def shaped(e: Array, like: Array) -> Array:
            return filled(raised(e, rank), like.shape)

        away = [None if self.points else self.line(x).away for x in (a, b)]
        off_a, off_b = (None if e is None else shaped(e, c) for e, c in zip(away, (first, second), strict=True))

        parts = [
            Dependence(a, lambda g: summed_to(g @ np.swapaxes(second, -1, -2), a.shape), lambda e: shaped(e, first) @ np.abs(second) * n,
                 None if off_b is None else lambda e: shaped(e, first) @ off_b * n),
            Dependence(b, lambda g: summed_to(np.swapaxes(first, -1, -2) @ g, b.shape), lambda e: np.abs(first) @ shaped(e, second) * n,
                 None if off_a is None else lambda e: off_a @ shaped(e, second) * n),
        ]  # fmt: skip
        lost = np.ones((1,) * (rank + 1), bool) if a.lost is not None or b.lost is not None else None
        at_centre = product(IntervalArray.of(first), IntervalArray.of(second))
        value = at_centre if self.points else product(lifted(self.box(a), rank), lifted(self.box(b), rank))
        return self.made(value, at_centre, parts, lost, mixed=True)

    def moved(self, operands: Sequence[Any], move: Callable[[list[Array]], Array], filling: IntervalArray = ZERO) -> TapeNode:
        xs = [self.node(x) for x in operands]
        movement = Movement([x.shape for x in xs], move)
        parts = [self._picking(movement, xs, i) for i in range(len(xs))]
        lost = None
        if any(x.lost is not None for x in xs):
            lost = movement.picked([np.zeros((1,) * (len(x.shape) + 1), bool) if x.lost is None else x.lost for x in xs], np.zeros(1, bool))
        centres = moved_box(movement, [IntervalArray.of(self.line(x).centre) for x in xs], filling)
        value = centres if self.points else moved_box(movement, [self.box(x) for x in xs], filling)
        return self.made(value, centres, parts, lost)

    def _picking(self, movement: Movement, xs: Sequence[TapeNode], which: int) -> Dependence:
        def push(e: Array) -> Array:
            return movement.picked([e if i == which else np.zeros((1,) * (len(x.shape) + 1)) for i, x in enumerate(xs)], np.zeros(1))

        return Dependence(xs[which], lambda g: movement.summed(g, which)[0], push)
