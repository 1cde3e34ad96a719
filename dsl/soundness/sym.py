"""Tensors as functions from a symbolic index to a scalar term."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from hnfc.dsl.core import (
    ALL,
    Axis,
)
from hnfc.dsl.soundness.axis_classes import NOTHING, AxisClasses, Member, Shape
from hnfc.dsl.soundness.normal_form import Normalizer, connect, negation
from hnfc.dsl.soundness.signs import Contradiction
from hnfc.dsl.soundness.term import ONE, ZERO, ComputedIndex, Place, Places, Proposition, Rational, atom, of_atom

Value: TypeAlias = Rational | Proposition

Env: TypeAlias = "dict[Axis, dict[int, Place]]"
"""Index of an element: for each axis a place in every class along it."""

Element: TypeAlias = "Callable[[Normalizer, Env], Value]"

RESULT, QUANTIFIED, BOUND = 0, 500, 1000
"""First numbers of free indices: the result's own, those of a universal fact, those below reductions."""


@dataclass(eq=False)
class Sym:
    """A tensor: its shape, and its element at an index."""

    layout: AxisClasses
    shape: Shape
    element: Element

    def at(self, n: Normalizer, env: Env) -> Value:
        own = {axis: self._own(axis, members, env) for axis, members in self.shape.items() if members}
        memo: dict[Any, tuple[Value, int]] = n.__dict__.setdefault("memo", {})
        key = (id(self), tuple((axis, tuple(sorted(ixs.items()))) for axis, ixs in own.items()), tuple(n.guards))
        if key not in memo:
            before = n.obligations
            value = self.element(n, own)
            memo[key] = value, n.obligations - before
        else:
            n.obligations += memo[key][1]
        return memo[key][0]

    def _own(self, axis: Axis, members: frozenset[Member], env: Env) -> dict[int, Place]:
        classes, places = self.layout.of(members), env[axis]
        if axis == ALL:
            # a tensor that is broadcast has a place of its own, which the place of the others determines
            return {c: places[c] if c in places else ComputedIndex(c, of_atom(atom("restricted", str(c), places_of(env)))) for c in classes}
        return {c: places[c] for c in classes}

    def real(self, n: Normalizer, env: Env) -> Rational:
        value = self.at(n, env)
        if isinstance(value, Rational):
            return value
        known = n.decide(value)
        return n.ite(value, ONE, ZERO, True) if known is None else ONE if known else ZERO

    def cond(self, n: Normalizer, env: Env) -> Proposition:
        value = self.at(n, env)
        return value if isinstance(value, Proposition) else n.compare("ne", value, ZERO)

    def __add__(self, other: Sym) -> Sym:
        return pointwise(lambda n, x, y: x + y, self, other)

    def __sub__(self, other: Sym) -> Sym:
        return pointwise(lambda n, x, y: x - y, self, other)

    def __mul__(self, other: Sym) -> Sym:
        return pointwise(lambda n, x, y: x * y, self, other)

    def __truediv__(self, other: Sym) -> Sym:
        return pointwise(lambda n, x, y: n.divide(x, y), self, other)

    def __neg__(self) -> Sym:
        return pointwise(lambda n, x: -x, self)


def places_of(env: Env) -> Places:
    """The tuple that stands for the axes which are rearranged."""
    return tuple(place for _, place in sorted(env.get(ALL, {}).items()))


def joined(layout: AxisClasses, *tensors: Sym) -> Shape:
    """The shape of a pointwise operation; axes that meet are one from here on."""
    shape = {}
    for axis in layout.universe:
        members = frozenset().union(*(t.shape.get(axis, NOTHING) for t in tensors))
        layout.unite(m for m in members if axis != ALL or not layout.is_partial(m))
        shape[axis] = members
    return shape


def pointwise(function: Callable[..., Rational], *tensors: Sym) -> Sym:
    layout = tensors[0].layout
    return Sym(layout, joined(layout, *tensors), lambda n, env: function(n, *(t.real(n, env) for t in tensors)))


def choose(n: Normalizer, cond: Proposition, yes: Element, no: Element, env: Env) -> Value:
    """Only the branch that is taken needs a value: the other one's definedness is no obligation."""
    known = n.decide(cond)
    if known is not None:
        return (yes if known else no)(n, env)
    before = n.obligations
    found = [branch(n, cond, yes, env), branch(n, negation(cond), no, env)]
    if None in found:
        # one branch is never taken, for any index
        value = found[1] if found[0] is None else found[0]
        if value is None:
            raise Contradiction
        return value
    a, b = found
    if isinstance(a, Proposition) and isinstance(b, Proposition):
        return connect("or", connect("and", cond, a), connect("and", negation(cond), b))
    values = [n.ite(v, ONE, ZERO, True) if isinstance(v, Proposition) else v for v in (a, b)]
    return n.ite(cond, values[0], values[1], n.obligations == before)  # type: ignore[arg-type]


def branch(n: Normalizer, cond: Proposition, element: Element, env: Env) -> Value | None:
    """The element where cond holds; None where that is never."""
    try:
        with n.guard(cond):
            return element(n, env)
    except Contradiction:
        return None
