"""Arithmetic of indices in a proof: values of indices, places that are computed from them, and ranges of any length.

An index of a class runs over 0 … size - 1. Besides the classes of a layout there are ranges that arise in a proof, one for each length:
the elements of a slice, the padding beside a tensor. Every range in use has at least one element; whether it has is decided before.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Set
from fractions import Fraction
from types import MappingProxyType

from hnfc.dsl.soundness.integer_parts import IntegerParts
from hnfc.dsl.soundness.signs import ANY, NEG, NONNEG, POS, Signs, primitive
from hnfc.dsl.soundness.term import (
    ONE,
    ZERO,
    ComputedIndex,
    Index,
    Place,
    Proposition,
    Rational,
    atom,
    const,
    of_atom,
    primitive_coefficient,
)

FIRST_RANGE = 10_000
"""The numbers of ranges that are no class of the layout start here."""

MAX_UNROLLED = 4
"""Ranges of at most so many elements are written out."""

Size = Callable[["IndexRanges"], Rational]


class IndexRanges(IntegerParts):
    """Sizes and places. `definitions`: how the sizes of classes follow from others. `ranged`: the classes whose indices are numbers.
    `empty`: the classes without elements, in a case about such shapes."""

    definitions: Mapping[int, Size] = MappingProxyType({})
    ranged: Set[int] = frozenset()

    def __init__(self, entails: Callable[[Signs, Proposition], bool] | None = None, integral: frozenset[str] = frozenset()) -> None:
        super().__init__(entails, integral)
        self.lengths: dict[int, Rational] = {}
        self.empty: frozenset[int] = frozenset()

    def size_of(self, cls: int) -> Rational:
        if cls in self.empty:
            return ZERO
        if cls in self.lengths:
            return self.lengths[cls]
        if cls in self.definitions:
            return self.definitions[cls](self)
        base = atom("size", cls)
        known = self.subst.get(base)
        return of_atom(base) if known is None else known

    def range_of(self, length: Rational) -> int:
        """The range of this length; one that is the size of a class is that class."""
        lone = length.single()
        if lone and lone[1] == 1 and len(lone[0]) == 1 and lone[0][0][0].kind == "size" and lone[0][0][1] == 1:
            return int(lone[0][0][0].args[0])
        for number, known in self.lengths.items():
            if known == length:
                return number
        number = FIRST_RANGE + len(self.lengths)
        self.lengths[number] = length
        return number

    def index_value(self, place: Place) -> Rational:
        """The place as a number, which lies in its range."""
        if isinstance(place, ComputedIndex):
            term: Rational = place.term
            return term
        value, size = of_atom(atom("ix", (place,))), self.size_of(place.cls)
        if size == ONE:
            return ZERO
        if place.kind == "free":
            room = size - value - ONE
            known = self.signs.ground.get(primitive(room), ANY)
            if room.constant() is None and known & (NEG if primitive_coefficient(room.num) > 0 else POS):
                self.signs.add(room, NONNEG)
        return value

    def place(self, cls: int, value: Rational) -> Place:
        """The place with this number; an index of the class itself stays one."""
        lone = value.single()
        if lone and lone[1] == 1 and len(lone[0]) == 1 and lone[0][0][0].kind == "ix" and lone[0][0][1] == 1:
            (index,) = lone[0][0][0].args[0]
            if isinstance(index, Index) and index.cls == cls:
                return index
        return ComputedIndex(cls, value)

    def normal_place(self, place: Place) -> Place:
        """The place, which is the first where there is only one."""
        single = isinstance(place, Index) and place.cls in self.ranged and self.size_of(place.cls) == ONE
        return ComputedIndex(place.cls, ZERO) if single else place

    def segments(self, points: list[Rational], size: Rational) -> list[tuple[Rational, Rational]]:
        """[0, size) cut at the points inside it, as (offset, length); by cases where the order of the points is open."""
        inside: list[Rational] = []
        for point in points:
            if not self.surely(">", point) or not self.surely(">", size - point):
                continue
            at = 0
            while at < len(inside) and self.surely(">", point - inside[at]):
                at += 1
            if at == len(inside) or self.surely(">", inside[at] - point):
                inside.insert(at, point)
        bounds = [ZERO, *inside, size]
        return [(a, b - a) for a, b in itertools.pairwise(bounds)]

    def surely(self, kind: str, x: Rational) -> bool:
        """Return whether x kind 0; by cases where that is open. Sizes and bounds have no index, so it always can be."""
        return self.decide(self.relation(kind, x)) is True

    def pieces(self, segments: list[tuple[Rational, Rational]]) -> list[tuple[Rational, Rational]]:
        """The segments that have elements; short ones are single elements."""
        found: list[tuple[Rational, Rational]] = []
        for offset, length in segments:
            count = length.constant()
            if count is not None:
                whole = int(count)
                if whole <= MAX_UNROLLED:
                    found += [(offset + const(Fraction(i)), ONE) for i in range(whole)]
                    continue
            elif not self.surely(">", length):
                continue
            found.append((offset, length))
        return found
