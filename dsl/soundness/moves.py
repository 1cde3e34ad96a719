"""Movement as index maps: the element of a slice, a concatenation … at an index is an element of an operand at a computed one.

Along the axis of a movement an index is a number (see ranges.py). Bounds that do not fit the operand leave the value undefined.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any

from hnfc.dsl.core import Axis
from hnfc.dsl.soundness.axis_classes import NOTHING, AxisClasses, Extent, Member
from hnfc.dsl.soundness.normal_form import Normalizer, connect
from hnfc.dsl.soundness.sym import Env, Sym, Value, choose, joined
from hnfc.dsl.soundness.term import ONE, ZERO, Place, Proposition, Rational

Segments = list[tuple[Rational, Rational]]


def number(n: Normalizer, bound: Sym) -> Rational:
    """A bound or size, which depends on no index."""
    return bound.real(n, {})


class Moves(ABC):
    """The movement part of the `Math` protocol on `Sym`."""

    layout: AxisClasses

    @abstractmethod
    def check(self, axes: Iterable[Axis]) -> None:
        """Raises Unrelated for an axis whose relation to those of the rule is not known."""

    # sizes

    def size_along(self, n: Normalizer, x: Sym, axis: Axis) -> Rational:
        result = ONE
        for c in self.layout.of(x.shape.get(axis, NOTHING)):
            result = result * n.size_of(c)
        return result

    def segments(self, n: Normalizer, c: int) -> Segments:
        """The parts that the axis of a class consists of, as (offset, length)."""
        members = sorted(self.layout.classes[c], key=repr)
        for member in members:
            extent = self.layout.extents.get(member)
            if extent is not None and len(parts := extent.segments(n)) > 1:
                return parts
        points = [cut(n) for member in members for cut in self.layout.cuts.get(member, ())]
        return n.segments(points, n.size_of(c))

    def segments_along(self, n: Normalizer, x: Sym, axis: Axis) -> Segments:
        classes = self.layout.of(x.shape.get(axis, NOTHING))
        return self.segments(n, classes[0]) if classes else [(ZERO, ONE)]

    # reading

    def read(self, n: Normalizer, x: Sym, env: Env, axis: Axis, index: Rational) -> Value:
        """x at this number along the axis, and at the places of `env` elsewhere."""
        places: dict[int, Place] = {c: n.place(c, index) for c in self.layout.of(x.shape.get(axis, NOTHING))}
        return x.at(n, {**env, axis: places})

    def index(self, n: Normalizer, env: Env, axis: Axis) -> Rational:
        """The number of the result's index along the axis; 0 where the result has size 1 there."""
        for place in env.get(axis, {}).values():
            return n.index_value(place)
        return ZERO

    # movement

    def slice(self, x: Sym, axis: Axis, start: Sym, stop: Sym, step: Sym) -> Sym:
        """Elements start, start + step, … before stop, for 0 ≤ start ≤ stop ≤ size and step ≥ 1."""
        self.check((axis,))
        own = x.shape.get(axis, NOTHING)

        def size(n: Normalizer) -> Rational:
            by = number(n, step)
            length = number(n, stop) - number(n, start)
            return length if by == ONE else -n.floor(-length * by.inverse())

        def segments(n: Normalizer) -> Segments:
            low, high = number(n, start), number(n, stop)
            if number(n, step) == ONE:
                inner = self.segments_along(n, x, axis)
                bounds = [offset for offset, _ in inner] + [self.size_along(n, x, axis)]
                if low in bounds and high in bounds:
                    return [(offset - low, length) for offset, length in inner[bounds.index(low) : bounds.index(high)]]
            return [(ZERO, size(n))]

        def element(n: Normalizer, env: Env) -> Value:
            return self.read(n, x, env, axis, number(n, start) + number(n, step) * self.index(n, env, axis))

        def bounds(n: Normalizer) -> list[Proposition]:
            low, high, by = number(n, start), number(n, stop), number(n, step)
            return [n.relation(">=", room) for room in (low, high - low, self.size_along(n, x, axis) - high, by - ONE)]

        self.layout.bounds.append(bounds)
        for member in own:
            self.layout.cuts.setdefault(member, []).extend((lambda n: number(n, start), lambda n: number(n, stop)))
        shape = {**x.shape, axis: self.layout.introduce("slice", axis, Extent(size, segments))}
        return Sym(self.layout, shape, element)

    def concat(self, parts: Sequence[Sym], axis: Axis) -> Sym:
        """The parts one after the other; their other sizes are equal."""
        self.check((axis,))
        parts = tuple(parts)
        others = [{a: members for a, members in part.shape.items() if a != axis} for part in parts]
        for other in others[1:]:
            for a in self.layout.universe:
                self.layout.equal.add((others[0].get(a, NOTHING), other.get(a, NOTHING)))
        shape = dict(joined(self.layout, *(Sym(self.layout, other, part.element) for other, part in zip(others, parts, strict=True))))

        def size(n: Normalizer) -> Rational:
            result = ZERO
            for part in parts:
                result = result + self.size_along(n, part, axis)
            return result

        def segments(n: Normalizer) -> Segments:
            offset, found = ZERO, []
            for part in parts:
                found += [(offset + at, length) for at, length in self.segments_along(n, part, axis)]
                offset = offset + self.size_along(n, part, axis)
            return found

        def element(n: Normalizer, env: Env) -> Value:
            def within(number: int, offset: Rational) -> Value:
                part = parts[number]
                index = self.index(n, env, axis)
                if number == len(parts) - 1:
                    return self.read(n, part, env, axis, index - offset)
                end = offset + self.size_along(n, part, axis)
                here = n.relation(">", end - index)
                return choose(
                    n, here, lambda n, env: self.read(n, part, env, axis, index - offset), lambda n, env: within(number + 1, end), env
                )

            return within(0, ZERO)

        shape[axis] = self.layout.introduce("concat", axis, Extent(size, segments))
        return Sym(self.layout, shape, element)

    def pad(self, x: Sym, axis: Axis, low: Sym, high: Sym, value: Sym) -> Sym:
        """`low` elements of `value` before x and `high` after; negative numbers cut, no more than there is."""
        self.check((axis,))

        def size(n: Normalizer) -> Rational:
            return number(n, low) + self.size_along(n, x, axis) + number(n, high)

        def segments(n: Normalizer) -> Segments:
            before, after, whole = number(n, low), number(n, high), self.size_along(n, x, axis)
            if not n.surely(">=", before) or not n.surely(">=", after):
                return [(ZERO, size(n))]
            inner = [(before + offset, length) for offset, length in self.segments_along(n, x, axis)]
            return [(ZERO, before), *inner, (before + whole, after)]

        def element(n: Normalizer, env: Env) -> Value:
            before, whole = number(n, low), self.size_along(n, x, axis)
            index = self.index(n, env, axis) - before
            inside = connect("and", n.relation(">=", index), n.relation(">", whole - index))
            return choose(n, inside, lambda n, env: self.read(n, x, env, axis, index), value.at, env)

        def bounds(n: Normalizer) -> list[Proposition]:
            before, after, whole = number(n, low), number(n, high), self.size_along(n, x, axis)
            return [n.relation(">=", whole + cut) for cut in (before, after, before + after)]

        self.layout.bounds.append(bounds)
        shape = {**x.shape, axis: self.layout.introduce("pad", axis, Extent(size, segments))}
        return Sym(self.layout, shape, element)

    def reverse(self, x: Sym, axes: Iterable[Axis]) -> Sym:
        """The element at size - 1 - i."""
        axes = tuple(axes)
        self.check(axes)
        self.layout.reversing = True

        def element(n: Normalizer, env: Env) -> Value:
            turned = dict(env)
            for axis in axes:
                turned[axis] = {c: n.place(c, n.size_of(c) - ONE - n.index_value(place)) for c, place in env.get(axis, {}).items()}
            return x.at(n, turned)

        return Sym(self.layout, x.shape, element)

    def repeat(self, x: Sym, axis: Axis, size: Sym) -> Sym:
        """x, which has size 1 along the axis, `size` ≥ 1 times."""
        self.check((axis,))
        own: frozenset[Member] = x.shape.get(axis, NOTHING)
        self.layout.must_be_single(own)

        def element(n: Normalizer, env: Env) -> Value:
            return x.at(n, {**env, axis: {}})

        self.layout.bounds.append(lambda n: [n.relation(">=", number(n, size) - ONE)])
        extent = Extent(lambda n: number(n, size), lambda n: [(ZERO, number(n, size))])
        shape = {**x.shape, axis: self.layout.introduce("broadcast", axis, extent)}
        return Sym(self.layout, shape, element)

    def gather(self, x: Sym, index: Sym, axis: Axis) -> Sym:
        """x[…, index[…], …], for indices within x; the other sizes are equal."""
        self.check((axis,))
        for a in self.layout.universe:
            if a != axis:
                self.layout.equal.add((x.shape.get(a, NOTHING), index.shape.get(a, NOTHING)))
        others: dict[Any, frozenset[Member]] = {a: members for a, members in x.shape.items() if a != axis}
        shape = dict(joined(self.layout, Sym(self.layout, others, x.element), index))

        def element(n: Normalizer, env: Env) -> Value:
            at = index.real(n, env)
            n.require(n.relation(">=", at))
            n.require(n.relation(">", self.size_along(n, x, axis) - at))
            return self.read(n, x, env, axis, at)

        return Sym(self.layout, shape, element)
