"""Random points for a rule: exact special values in small tensors, broadcast in every way."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from hnfc.dialects.types import FLOATS, FORMATS
from hnfc.dsl.core import (
    ALL,
    Apply,
    Capture,
    Free,
    Property,
    Rule,
    conjuncts,
)
from hnfc.dsl.soundness import balls
from hnfc.dsl.soundness.balls import Balls, positions
from hnfc.dsl.soundness.element_roundings import number_near
from hnfc.dsl.soundness.integers import BITS, bounds
from hnfc.dsl.soundness.scan import (
    arithmetic_axes,
    boolean_captures,
    convolution_ranks,
    declared_bounds,
    integral_captures,
    known_ranks,
    of_matrices,
    order_captures,
    orthogonal_captures,
    rule_expressions,
    scalar_captures,
    used_axes,
    value_types,
)

F = Fraction

SPECIAL = (F(0), F(1), F(-1), F(2), F(-2), F(1, 2), F(-1, 2), F(3), F(-3), F(1, 3))

POSITIVE = (F(1), F(2), F(1, 2), F(3), F(1, 3), F(5, 4), F(10), F(1, 100))

NEGATIVE = tuple(-v for v in POSITIVE)

UNIT = (F(0), F(1, 2), F(1, 4), F(-1, 2), F(9, 10), F(-9, 10), F(1, 10), F(3, 4))

EXTREME = (F(10**6), F(-(10**6)), F(1, 10**12), F(-1, 10**12), F(200), F(-200), F(0), F(1))

ABOVE_ONE = (F(1), F(2), F(3, 2), F(5), F(11, 10), F(4))


@dataclass
class Point:
    """One sample: exact inputs and the places of the axis variables."""

    inputs: dict[str, np.ndarray[Any, Any]]
    axes: dict[str, tuple[int, ...]]

    def tensors(self) -> dict[str, Balls]:
        return {name: Balls.of(value) for name, value in self.inputs.items()}


@dataclass
class Sampler:
    """Random points for a rule. any_rank: tensors may also have fewer axes than what they meet."""

    rule: Rule
    random: random.Random
    any_rank: bool = False
    names: list[str] = field(init=False)
    booleans: frozenset[str] = field(init=False)
    scalars: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        nodes = rule_expressions(self.rule)
        self.booleans, self.scalars = boolean_captures(self.rule), scalar_captures(self.rule)
        self.names = sorted({n.name for n in nodes if isinstance(n, Capture)} | self.scalars)
        self.ranks = known_ranks(self.rule)
        axes = used_axes(self.rule)
        self.named = sorted(a for a in axes if isinstance(a, str))
        self.placed = sorted(a for a in axes if isinstance(a, int))
        self.contracting = contracts(self.rule)
        self.promoting = any(isinstance(n, Apply) and n.name in PROMOTING for n in nodes)
        self.integral = {
            c.operands[0].name
            for c in conjuncts(self.rule.where)
            if isinstance(c, Property) and c.name == "integral" and isinstance(c.operands[0], Capture)
        }
        self.indexing = integral_captures(self.rule)
        self.orders = order_captures(self.rule)
        self.types = value_types(self.rule)
        self.corners = corners_of_formats(self.rule)
        self.orthogonal = sorted(orthogonal_captures(self.rule))
        self.declared = declared_intervals(self.rule)
        self.spatial = spatial_ranks(self.rule)
        self.settings = conv_settings(self.rule)
        self.arithmetic = arithmetic_axes(self.rule, max(self.spatial, default=0)) - {ALL}

    def point(self) -> Point:
        choose = self.random
        rank = choose.choice((1, 1, 2, 2, 3)) if self.named or self.placed or self.contracting else choose.choice((0, 0, 1, 2))
        if self.orders:
            rank = choose.choice((2, 3, 3))
        if self.any_rank and self.ranks and not self.spatial and choose.random() < 0.3:
            # the others may have the rank that conditions fix
            rank = choose.choice(sorted(set(self.ranks.values())))
        if self.spatial:
            rank = choose.choice(self.spatial) + 2
        rank = max(rank, 2 * self.contracting, len(self.named), *[-a if a < 0 else a + 1 for a in self.placed], 0)
        places = list(range(-rank, 0))
        axes: dict[str, tuple[int, ...]] = {}
        free = choose.sample(places, len(places))
        for name in self.named:
            axes[name] = (free.pop(),)
        for name in self.named:
            if free and name not in self.arithmetic and choose.random() < 0.3:
                axes[name] += (free.pop(),)
        square = choose.random() < 0.5
        sizes = [choose.choice((1, 2, 2, 2, 3)) for _ in places]
        if square and self.contracting:
            sizes[-2:] = [sizes[-1]] * 2
        broadcast = choose.choice((0.0, 0.0, 0.15, 0.4))
        styles = self._styles()
        same = choose.random() < 0.1
        plain = [name for name in self.names if name not in self.orders and name not in self.orthogonal]
        inputs = {name: self._values(name, self._shape(name, sizes, broadcast, axes), styles[name], same) for name in plain}
        for name in self.orthogonal:
            inputs[name] = self._orthogonal(choose.choice(sizes), tuple(sizes[:-2]) if choose.random() < 0.1 else ())
        for name, kind in self.orders.items():
            inputs[name] = self._order(kind, inputs, axes)
        return Point(inputs, axes)

    def near(self, point: Point) -> Point:
        """The point with other values in one of its tensors."""
        plain = [name for name in self.names if name not in self.orders]
        if not plain:
            return point
        name = self.random.choice(plain)
        if name in self.orthogonal:
            shape = point.inputs[name].shape
            return Point({**point.inputs, name: self._orthogonal(shape[-1], shape[:-2])}, point.axes)
        values = self._values(name, point.inputs[name].shape, self._styles()[name], self.random.random() < 0.1)
        return Point({**point.inputs, name: values}, point.axes)

    def _orthogonal(self, size: int, batch: tuple[int, ...]) -> np.ndarray[Any, Any]:
        """Orthogonal matrices of rationals: permutations with signs, turned in planes by angles of Pythagorean triangles."""
        choose = self.random
        found = np.empty((*batch, size, size), dtype=object)
        for place in np.ndindex(batch):
            h = [[F(0)] * size for _ in range(size)]
            for row, column in enumerate(choose.sample(range(size), size)):
                h[row][column] = F(choose.choice((1, -1)))
            for _ in range(choose.choice((0, 1, 1, 2)) if size > 1 else 0):
                i, j = choose.sample(range(size), 2)
                cosine, sine = choose.choice(((F(3, 5), F(4, 5)), (F(5, 13), F(-12, 13)), (F(-4, 5), F(3, 5)), (F(8, 17), F(15, 17))))
                h[i], h[j] = (
                    [cosine * a - sine * b for a, b in zip(h[i], h[j], strict=True)],
                    [sine * a + cosine * b for a, b in zip(h[i], h[j], strict=True)],
                )
            for row, column in np.ndindex(size, size):
                found[(*place, row, column)] = h[row][column]
        return found

    def _order(self, kind: str, inputs: dict[str, np.ndarray[Any, Any]], axes: dict[str, tuple[int, ...]]) -> np.ndarray[Any, Any]:
        """The sizes of a reshape of one of the tensors, or an order of its axes."""
        shapes = sorted({a.shape for a in inputs.values() if a.ndim}) or [()]
        shape = list(self.random.choice(shapes))
        found = self.random.sample(range(len(shape)), len(shape))
        if kind == "shape":
            kept = {place % len(shape) for places in axes.values() for place in places if shape}
            count = int(np.prod([size for i, size in enumerate(shape) if i not in kept], dtype=int))
            divisors = [d for d in range(1, count + 1) if count % d == 0]
            first = self.random.choice(divisors)
            found = self.random.choice(([count], [first, count // first], [1, count], [first, 1, count // first]))
        array = np.empty(len(found), dtype=object)
        array[:] = [F(i) for i in found]
        return array

    def _shape(self, name: str, sizes: list[int], broadcast: float, axes: dict[str, tuple[int, ...]]) -> tuple[int, ...]:
        if name in self.scalars:
            return ()
        choose = self.random
        if name in self.rule.parameters and name not in self.ranks and choose.random() < 0.25:
            return (1,) * len(sizes)
        if name in self.ranks:
            while len(sizes) < self.ranks[name]:
                sizes = [choose.choice((1, 2, 3)), *sizes]
            sizes = sizes[len(sizes) - self.ranks[name] :]
        shape = [1 if choose.random() < broadcast else size for size in sizes]
        for axis in self.arithmetic:
            # tensors that are put side by side have sizes of their own there
            for place in positions(balls.resolve((axis,), axes), len(shape)):
                if choose.random() < 0.6:
                    shape[place] = choose.choice((1, 2, 3, 4))
        for condition in conjuncts(self.rule.where):
            if (
                isinstance(condition, Free)
                and isinstance(condition.operand, Capture)
                and condition.operand.name == name
                and choose.random() < 0.9
            ):
                for place in positions(balls.resolve(condition.axes, axes), len(shape)):
                    shape[place] = 1
        if self.contracting:
            # sizes of matrices differ: any of a few
            pool = sorted(set(sizes)) or [1]
            shape[-2:] = [choose.choice(pool) if choose.random() < 0.6 else s for s in shape[-2:]]
        elif choose.random() < 0.15 and name not in self.ranks and not self.orders:
            while shape and shape[0] == 1:
                shape = shape[1:]
        if self.any_rank and not self.promoting and name not in self.ranks and choose.random() < 0.08:
            # fewer axes than what it meets
            shape = shape[choose.randint(0, len(shape)) :]
        return tuple(shape)

    def _styles(self) -> dict[str, tuple[Fraction, ...] | str]:
        pools: tuple[tuple[Fraction, ...] | str, ...] = (
            SPECIAL, SPECIAL, POSITIVE, POSITIVE, NEGATIVE, UNIT, EXTREME, ABOVE_ONE, "random", "tiny", "ints",
        )  # fmt: skip
        if self.corners:
            pools = (*pools, self.corners, self.corners, self.corners)
        if self.declared:
            pools = (*pools, "declared", "declared", "declared")
        if self.random.random() < 0.6:
            one = self.random.choice(pools)
            return dict.fromkeys(self.names, one)
        return {name: self.random.choice(pools) for name in self.names}

    def _values(self, name: str, shape: tuple[int, ...], style: tuple[Fraction, ...] | str, same: bool) -> np.ndarray[Any, Any]:
        choose = self.random

        def one() -> Any:
            if name in self.booleans:
                return choose.random() < 0.5
            if name in self.settings:
                return F(choose.choice(self.settings[name]))
            if name in self.indexing:
                return F(choose.choice((0, 0, 1, 1, 2, 3, -1, -2)))
            if name in self.integral or style == "ints":
                return F(choose.randint(-4, 5))
            if style == "declared":
                return _within(*self.declared.get(name, (F(-4), F(4))), choose)
            if style == "random":
                return F(choose.randint(-4096, 4096), 1024)
            if style == "tiny":
                return F(choose.randint(-64, 64), 2 ** choose.choice((8, 20, 40)))
            assert not isinstance(style, str)
            return choose.choice(style)

        element = choose.choice(self.types[name]) if name in self.types else ""
        typed = _of_type(element, one, choose)
        array = np.empty(shape, dtype=object)
        flat = array.reshape(-1)
        first = typed()
        for i in range(flat.size):
            flat[i] = first if same else typed()
        return flat.reshape(shape)


def declared_intervals(rule: Rule) -> dict[str, tuple[Fraction, Fraction]]:
    """The ends between which the conditions keep a capture, if they are two numbers."""
    found = declared_bounds(rule).items()
    return {name: (lo, hi) for name, (lo, hi) in found if isinstance(lo, Fraction) and isinstance(hi, Fraction) and lo <= hi}


def _within(low: Fraction, high: Fraction, choose: random.Random) -> Fraction:
    """A number between both ends: one of them, or in the middle by difference or by ratio."""
    if choose.random() < 0.2:
        return choose.choice((low, high))
    if low > 0 and choose.random() < 0.5:
        doublings = math.floor(high / low).bit_length() - 1
        return min(high, low * F(2 ** choose.randint(0, doublings)))
    return low + (high - low) * F(choose.randint(0, 64), 64)


def corners_of_formats(rule: Rule) -> tuple[Fraction, ...]:
    """Numbers around which the roundings of a rule change: the smallest, the largest, the first beyond 1, and their neighbours."""
    names = {str(dict(n.attributes).get("format")) for n in rule_expressions(rule) if isinstance(n, Apply) and n.name == "round_to"}
    found: list[Fraction] = []
    for form in (FLOATS[name] for name in sorted(names & FLOATS.keys())):
        smallest, unit = F(form.smallest), F(form.unit_roundoff)
        found += [smallest, smallest / 2, smallest * 3 / 4, F(form.smallest_normal), F(form.largest), 1 + unit, 1 + 3 * unit, 1 - unit / 2]
    return tuple(value for corner in found for value in (corner, -corner))


def _of_type(element: str, draw: Callable[[], Any], choose: random.Random) -> Callable[[], Any]:
    """Draws numbers of the element type: of integers also the least and the greatest."""
    if element in FORMATS:
        return lambda: number_near(F(draw()), element)
    if element not in BITS:
        return draw
    low, high = bounds(element)
    corners = [i for i in (0, 1, 2, -1, low, high, low + 1, high - 1, low // 2, high // 2 + 1) if low <= i <= high]

    def whole() -> Any:
        if choose.random() < 0.5:
            return F(choose.choice(corners))
        return F(choose.randint(max(low, -9), min(high, 9)) if choose.random() < 0.6 else choose.randint(low, high))

    return whole


PROMOTING = frozenset(("matmul", "attention", "affine"))
"""Operations that take a vector for a matrix."""


def conv_settings(rule: Rule) -> dict[str, tuple[int, ...]]:
    """Values that captured settings of convolutions are drawn from."""
    pools = {"stride": (1, 1, 2), "padding": (0, 0, 1), "dilation": (1, 1, 2), "groups": (1, 1, 2)}
    return {
        value.name: pools[key]
        for node in rule_expressions(rule)
        if isinstance(node, Apply) and node.name == "conv"
        for key, value in node.attributes
        if isinstance(value, Capture)
    }


def spatial_ranks(rule: Rule) -> tuple[int, ...]:
    """Values that the number of spatial axes is drawn from; none where the rule has no convolution."""
    found = convolution_ranks(rule)
    return tuple(sorted(rank for rank in found if rank > 0)) or ((1, 2) if found else ())


def contracts(rule: Rule) -> bool:
    """The rule speaks of matrices; vectors, which `matmul` promotes, are left out (see `proof.shape_conditions`)."""
    return any(map(of_matrices, rule_expressions(rule)))
