"""Rearrangements of all axes at once: reshapes and permutations whose sizes and orders are not known.

The index of a tensor along the axes that are rearranged is one tuple. A reshape takes a tuple to its number in row-major order and back
to a tuple of the other shape; a permutation takes it to another order. Both are unknown functions here of which two things are used: a
number determines its tuple and is determined by it, and permutations compose.
"""

from __future__ import annotations

from collections.abc import Iterable

from hnfc.dsl.core import ALL, Apply, Axis, Capture, Expr
from hnfc.dsl.soundness.axis_classes import NOTHING, AxisClasses, Member, Unrelated
from hnfc.dsl.soundness.normal_form import Normalizer
from hnfc.dsl.soundness.sym import Env, Sym, Value, places_of
from hnfc.dsl.soundness.term import Atom, ComputedIndex, Place, Places, Rational, atom, of_atom


def word(order: Expr) -> tuple[str, ...]:
    """The names in a product of orders, from left to right."""
    if isinstance(order, Capture):
        return (order.name,)
    assert isinstance(order, Apply)
    return tuple(name for operand in order.operands for name in word(operand))


class Rearranging:
    """Reshapes and permutations of `Sym`s. A reshaped tensor has one class of its own for each shape, named by its sizes."""

    def __init__(self, layout: AxisClasses) -> None:
        self.layout = layout

    def reshape(self, x: Sym, kept: Iterable[Axis], sizes: str) -> Sym:
        """The elements of x in the same order, in the shape `sizes` along all axes but `kept`."""
        self._moves_all(x, frozenset(kept))
        shape = {**{a: m for a, m in x.shape.items() if a in set(kept)}, ALL: self._named(f"shape {sizes}")}

        def element(n: Normalizer, env: Env) -> Value:
            number = flat(self.classes(shape[ALL]), places_of(env))
            token = self.classes(x.shape.get(ALL, NOTHING))
            return x.at(n, {**env, ALL: {c: unflat(token, c, number) for c in token}})

        return Sym(self.layout, shape, element)

    def permute(self, x: Sym, order: tuple[str, ...]) -> Sym:
        """Axis j of the result is axis order[j] of x. What is broadcast in x is broadcast in the same way afterwards."""
        self._moves_all(x, frozenset())
        images = {member: self._image(member, order) for member in x.shape.get(ALL, NOTHING)}
        shape = {**x.shape, ALL: frozenset(images.values())}

        def element(n: Normalizer, env: Env) -> Value:
            places: dict[int, Place] = {}
            for member, image in images.items():
                (c,), (from_,) = self.classes(frozenset((member,))), self.classes(frozenset((image,)))
                places[c] = permuted(order, c, env[ALL][from_])
            return x.at(n, {**env, ALL: places})

        return Sym(self.layout, shape, element)

    def _moves_all(self, x: Sym, kept: frozenset[Axis]) -> None:
        """Raises Unrelated where the operand has an axis that is named elsewhere and moves here."""
        moved = [axis for axis, members in x.shape.items() if members and axis != ALL and axis not in kept]
        if moved:
            raise Unrelated(f"where axis {moved[0]} comes to lie is not known")

    def _image(self, member: Member, order: tuple[str, ...]) -> Member:
        """The axes of a captured tensor in another order; permutations compose."""
        base, inner = self.layout.images.get(member, (member, ()))
        image = (f"{' '.join((*inner, *order))} of {base[0]}", ALL)
        self.layout.images[image] = base, (*inner, *order)
        self.layout.unite((image,))
        return image

    def classes(self, members: frozenset[Member]) -> tuple[int, ...]:
        return self.layout.of(members)

    def _named(self, name: str) -> frozenset[Member]:
        member = (name, ALL)
        self.layout.unite((member,))
        return frozenset((member,))


def flat(token: tuple[int, ...], places: Places) -> Rational:
    """The number of a tuple in the row-major order of the shape `token`."""
    parts = [place for place in places if isinstance(place, ComputedIndex)]
    if len(parts) == len(places) and tuple(place.cls for place in parts) == token:
        numbers = {_number(place, token) for place in parts}
        if len(numbers) == 1 and (number := numbers.pop()) is not None:
            return number
    return of_atom(atom("flat", token, places))


def unflat(token: tuple[int, ...], c: int, number: Rational) -> Place:
    """The part along class c of the tuple with this number in the shape `token`."""
    base = lone_atom(number)
    if base is not None and base.kind == "flat" and base.args[0] == token:
        place: Place = base.args[1][token.index(c)]
        return place
    return ComputedIndex(c, of_atom(atom("unflat", token, str(c), number)))


def permuted(order: tuple[str, ...], c: int, place: Place) -> Place:
    """The tuple along class c that is the one at `place` in another order; permutations compose."""
    base = lone_atom(place.term) if isinstance(place, ComputedIndex) else None
    if base is not None and base.kind == "permuted":
        order, place = (*order, *base.args[0]), base.args[2][0]
    return ComputedIndex(c, of_atom(atom("permuted", order, str(c), (place,))))


def lone_atom(x: Rational) -> Atom | None:
    """The atom that x is."""
    lone = x.single()
    return lone[0][0][0] if lone and lone[1] == 1 and len(lone[0]) == 1 and lone[0][0][1] == 1 else None


def _number(place: ComputedIndex, token: tuple[int, ...]) -> Rational | None:
    """The number in the shape `token` of the tuple that the place is a part of."""
    base = lone_atom(place.term)
    if base is None or base.kind != "unflat" or base.args[0] != token:
        return None
    number: Rational = base.args[2]
    return number
