"""The `Math` whose tensors are functions from a symbolic index to a scalar term."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

from hnfc.dialects.facts import NoFormula
from hnfc.dsl.core import (
    Axis,
)
from hnfc.dsl.soundness.layout import NOTHING, Layout, Member, Shape, Unrelated
from hnfc.dsl.soundness.normal_form import Normalizer, connect, negation
from hnfc.dsl.soundness.signs import Contradiction
from hnfc.dsl.soundness.term import FALSE, ONE, TRUE, ZERO, Cond, Ix, Rational, atom, const, of_atom

Env: TypeAlias = tuple[tuple[Axis, tuple[tuple[int, Ix], ...]], ...]

Value: TypeAlias = Rational | Cond

RESULT, QUANTIFIED, BOUND = 0, 500, 1000
"""Where the numbers of free indices start: the result's own, those of a universal fact, those below reductions."""


@dataclass(eq=False)
class Sym:
    """A tensor: its shape, and its element at an index."""

    layout: Layout
    shape: Shape
    element: Callable[[Normalizer, dict[Axis, dict[int, Ix]]], Value]

    def at(self, n: Normalizer, env: dict[Axis, dict[int, Ix]]) -> Value:
        own = {axis: {c: env[axis][c] for c in self.layout.of(members)} for axis, members in self.shape.items() if members}
        memo: dict[Any, tuple[Value, int]] = n.__dict__.setdefault("memo", {})
        key = (id(self), tuple((axis, tuple(sorted(ixs.items()))) for axis, ixs in own.items()), tuple(n.guards))
        if key not in memo:
            before = n.obligations
            value = self.element(n, own)
            memo[key] = value, n.obligations - before
        else:
            n.obligations += memo[key][1]
        return memo[key][0]

    def real(self, n: Normalizer, env: dict[Axis, dict[int, Ix]]) -> Rational:
        value = self.at(n, env)
        if isinstance(value, Rational):
            return value
        known = n.decide(value)
        return n.ite(value, ONE, ZERO, True) if known is None else ONE if known else ZERO

    def cond(self, n: Normalizer, env: dict[Axis, dict[int, Ix]]) -> Cond:
        value = self.at(n, env)
        return value if isinstance(value, Cond) else n.compare("ne", value, ZERO)

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


def _without_matrix(x: Sym) -> Sym:
    return Sym(x.layout, {axis: members for axis, members in x.shape.items() if axis not in (-1, -2)}, x.element)


def joined(layout: Layout, *tensors: Sym) -> Shape:
    """The shape of a pointwise operation; axes that meet are one from here on."""
    shape = {}
    for axis in layout.universe:
        members = frozenset().union(*(t.shape.get(axis, NOTHING) for t in tensors))
        layout.unite(members)
        shape[axis] = members
    return shape


def pointwise(function: Callable[..., Rational], *tensors: Sym) -> Sym:
    layout = tensors[0].layout
    return Sym(layout, joined(layout, *tensors), lambda n, env: function(n, *(t.real(n, env) for t in tensors)))


class SymMath:
    """The `Math` protocol on `Sym`."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout

    @property
    def true(self) -> Sym:
        return Sym(self.layout, {}, lambda n, env: TRUE)

    def const(self, value: Any) -> Sym:
        if isinstance(value, Sym):
            return value
        if isinstance(value, bool):
            return Sym(self.layout, {}, lambda n, env: TRUE if value else FALSE)
        if isinstance(value, float) and value - value != 0:
            raise NoFormula("an infinity or a nan is no real number")
        number = const(Fraction(value))
        return Sym(self.layout, {}, lambda n, env: number)

    def exp(self, x: Sym) -> Sym:
        return pointwise(lambda n, a: n.exp(a), x)

    def log(self, x: Sym) -> Sym:
        return pointwise(lambda n, a: n.log(a), x)

    def sqrt(self, x: Sym) -> Sym:
        return pointwise(lambda n, a: n.sqrt(a), x)

    def pow(self, x: Sym, y: Sym) -> Sym:
        return pointwise(lambda n, a, b: n.pow(a, b), x, y)

    def sin(self, x: Sym) -> Sym:
        return pointwise(lambda n, a: n.sin(a), x)

    def cos(self, x: Sym) -> Sym:
        return pointwise(lambda n, a: n.cos(a), x)

    def atan(self, x: Sym) -> Sym:
        return pointwise(lambda n, a: n.odd("atan", a), x)

    def asin(self, x: Sym) -> Sym:
        return pointwise(lambda n, a: n.arc("asin", a), x)

    def acos(self, x: Sym) -> Sym:
        return pointwise(lambda n, a: n.arc("acos", a), x)

    def atan2(self, y: Sym, x: Sym) -> Sym:
        def value(n: Normalizer, a: Rational, b: Rational) -> Rational:
            zero = connect("and", n.relation("=", a), n.relation("=", b))
            n.require(negation(zero))
            return n.opaque("atan2", a, b)

        return pointwise(value, y, x)

    def erf(self, x: Sym) -> Sym:
        return pointwise(lambda n, a: n.odd("erf", a), x)

    def lgamma(self, x: Sym) -> Sym:
        return pointwise(lambda n, a: n.lgamma(a), x)

    def i0(self, x: Sym) -> Sym:
        return pointwise(lambda n, a: n.even("i0", a), x)

    def floor(self, x: Sym) -> Sym:
        return pointwise(lambda n, a: n.floor(a), x)

    def abs(self, x: Sym) -> Sym:
        return pointwise(lambda n, a: n.abs(a), x)

    def maximum(self, x: Sym, y: Sym) -> Sym:
        return pointwise(lambda n, a, b: n.maximum(a, b), x, y)

    def minimum(self, x: Sym, y: Sym) -> Sym:
        return pointwise(lambda n, a, b: n.minimum(a, b), x, y)

    # conditions

    def compare(self, predicate: str, x: Sym, y: Sym) -> Sym:
        shape = joined(self.layout, x, y)
        return Sym(self.layout, shape, lambda n, env: n.compare(predicate, x.real(n, env), y.real(n, env)))

    def logical_and(self, p: Sym, q: Sym) -> Sym:
        return Sym(self.layout, joined(self.layout, p, q), lambda n, env: connect("and", p.cond(n, env), q.cond(n, env)))

    def logical_or(self, p: Sym, q: Sym) -> Sym:
        return Sym(self.layout, joined(self.layout, p, q), lambda n, env: connect("or", p.cond(n, env), q.cond(n, env)))

    def logical_not(self, p: Sym) -> Sym:
        return Sym(self.layout, p.shape, lambda n, env: negation(p.cond(n, env)))

    def where(self, p: Sym, x: Sym, y: Sym) -> Sym:
        """Only the branch that is taken needs a value: the other one's definedness is no obligation."""

        def element(n: Normalizer, env: dict[Axis, dict[int, Ix]]) -> Value:
            cond = p.cond(n, env)
            known = n.decide(cond)
            if known is not None:
                return (x if known else y).at(n, env)
            before = n.obligations
            yes, no = branch(n, cond, x, env), branch(n, negation(cond), y, env)
            if yes is None or no is None:
                # one branch is never taken, for any index
                value = no if yes is None else yes
                if value is None:
                    raise Contradiction
                return value
            if isinstance(yes, Cond) and isinstance(no, Cond):
                return connect("or", connect("and", cond, yes), connect("and", negation(cond), no))
            values = [n.ite(v, ONE, ZERO, True) if isinstance(v, Cond) else v for v in (yes, no)]
            return n.ite(cond, values[0], values[1], n.obligations == before)

        return Sym(self.layout, joined(self.layout, p, x, y), element)

    # reductions

    def sum(self, x: Sym, axes: Iterable[Axis]) -> Sym:
        return self._reduce(lambda n, ixs, body: n.sum(ixs, body), x, axes, True)

    def prod(self, x: Sym, axes: Iterable[Axis]) -> Sym:
        return self._reduce(lambda n, ixs, body: n.prod(ixs, body), x, axes, True)

    def amax(self, x: Sym, axes: Iterable[Axis]) -> Sym:
        return self._reduce(lambda n, ixs, body: n.extreme("max", ixs, body), x, axes, False)

    def amin(self, x: Sym, axes: Iterable[Axis]) -> Sym:
        return self._reduce(lambda n, ixs, body: n.extreme("min", ixs, body), x, axes, False)

    def _reduce(self, combine: Callable[..., Rational], x: Sym, axes: Iterable[Axis], sized: bool) -> Sym:
        axes = tuple(axes)
        self.check(axes)
        if sized:
            self.layout.seen_by_reductions |= {x.shape[a] for a in axes if x.shape.get(a)}
        shape = {a: NOTHING if a in axes else members for a, members in x.shape.items()}

        def element(n: Normalizer, env: dict[Axis, dict[int, Ix]]) -> Value:
            inner = {
                a: self.bind(n, x.shape.get(a, NOTHING), i) if a in axes else env.get(a, {}) for i, a in enumerate(self.layout.universe)
            }
            ixs = [i for a in axes for i in inner.get(a, {}).values()]
            n.bound += ixs
            try:
                return combine(n, ixs, x.real(n, inner))
            finally:
                del n.bound[len(n.bound) - len(ixs) :]

        return Sym(self.layout, shape, element)

    def bind(self, n: Normalizer, members: frozenset[Member], offset: int) -> dict[int, Ix]:
        """New indices for the classes; their number tells the depth, so none is in use."""
        return {c: Ix(c, "free", BOUND + 8 * len(n.bound) + offset) for c in self.layout.of(members)}

    def check(self, axes: Iterable[Axis]) -> None:
        for axis in axes:
            if axis not in self.layout.universe:
                raise Unrelated(f"how axis {axis} relates to the others of this rule is not known")

    def size(self, x: Sym, axes: Iterable[Axis]) -> Sym:
        axes = tuple(axes)
        self.check(axes)
        self.layout.seen_by_reductions |= {x.shape[a] for a in axes if x.shape.get(a)}

        def element(n: Normalizer, env: dict[Axis, dict[int, Ix]]) -> Value:
            result = ONE
            for axis in axes:
                for c in self.layout.of(x.shape.get(axis, NOTHING)):
                    result = result * of_atom(atom("size", c))
            return result

        return Sym(self.layout, {}, element)

    # contraction and movement

    def matmul(self, a: Sym, b: Sym) -> Sym:
        """Σ_c A[…,i,c]·B[…,c,j]; the contracted sizes are equal, no side is broadcast."""
        self.check((-1, -2))
        left, right = a.shape.get(-1, NOTHING), b.shape.get(-2, NOTHING)
        self.layout.unite(left | right)
        self.layout.equal.add((left, right))
        self.layout.seen_by_reductions |= {s for s in (left, right) if s}
        batch = {
            axis: members for axis, members in joined(self.layout, _without_matrix(a), _without_matrix(b)).items() if axis not in (-1, -2)
        }
        shape = {**batch, -2: a.shape.get(-2, NOTHING), -1: b.shape.get(-1, NOTHING)}

        def element(n: Normalizer, env: dict[Axis, dict[int, Ix]]) -> Value:
            inner = self.bind(n, left | right, 0)
            ixs = list(inner.values())
            n.bound += ixs
            try:
                product = a.real(n, {**env, -2: env.get(-2, {}), -1: inner}) * b.real(n, {**env, -2: inner, -1: env.get(-1, {})})
                return n.sum(ixs, product)
            finally:
                del n.bound[len(n.bound) - len(ixs) :]

        return Sym(self.layout, shape, element)

    def transpose(self, x: Sym, perm: Any) -> Sym:
        if perm != "last_two":
            raise NoFormula("a permutation of axes that are counted from the left")
        self.check((-1, -2))
        return self.moved(x, {-1: -2, -2: -1})

    def moved(self, x: Sym, source: Mapping[Axis, Axis | None]) -> Sym:
        """The tensor whose axis a is the axis source[a] of x (None: an axis of size 1); other axes stay."""
        origin = {axis: source.get(axis, axis) for axis in self.layout.universe}
        shape = {axis: x.shape.get(o, NOTHING) if o is not None else NOTHING for axis, o in origin.items()}
        places = {o: axis for axis, o in origin.items() if o is not None}
        return Sym(self.layout, shape, lambda n, env: x.at(n, {o: env.get(axis, {}) for o, axis in places.items()}))

    def unsqueeze(self, x: Sym, place: int) -> Sym:
        """An axis of size 1 comes in at `place`, counted from the right in the result."""
        return self.moved(x, {a: a if a > place else None if a == place else a + 1 for a in self.layout.universe if isinstance(a, int)})

    def squeeze(self, x: Sym, place: int) -> Sym:
        """The axis at `place`, which has size 1, goes away."""
        if x.shape.get(place, NOTHING):
            raise NoFormula(f"whether axis {place} has size 1 is not known")
        return self.moved(x, {a: a if a > place else a - 1 for a in self.layout.universe if isinstance(a, int)})


def branch(n: Normalizer, cond: Cond, x: Sym, env: dict[Axis, dict[int, Ix]]) -> Value | None:
    """x where cond holds; None where that is never."""
    try:
        with n.guard(cond):
            return x.at(n, env)
    except Contradiction:
        return None
