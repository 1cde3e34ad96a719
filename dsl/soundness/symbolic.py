"""The `Math` whose tensors are functions from a symbolic index to a scalar term."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

from hnfc.dialects.facts import NoFormula
from hnfc.dsl.constants import Constant
from hnfc.dsl.core import (
    Axis,
)
from hnfc.dsl.soundness.axis_classes import NOTHING, AxisClasses, Member, Unrelated
from hnfc.dsl.soundness.element_types import NO_TYPE
from hnfc.dsl.soundness.masked import Masked, masked_choice, nothing_kept
from hnfc.dsl.soundness.normal_form import Normalizer, connect, negation
from hnfc.dsl.soundness.rounding import rounded
from hnfc.dsl.soundness.scans import Scans
from hnfc.dsl.soundness.signs import Contradiction
from hnfc.dsl.soundness.sym import BOUND, Env, Sym, Value, choose, joined, pointwise
from hnfc.dsl.soundness.term import FALSE, ONE, TRUE, ZERO, Index, Rational, atom, const, of_atom, product, total

Combine: TypeAlias = "Callable[[Normalizer, list[Index], Rational], Rational]"

Join: TypeAlias = "Callable[[Normalizer, list[Rational]], Rational]"


@dataclass
class Choice:
    """One part of what a reduction runs over: an index for each class, or a place where the part is a single element."""

    axes: list[Axis]
    fixed: list[tuple[Axis, int, Index]]
    parts: list[tuple[Axis, int, Index | None, Rational, Rational]]

    @property
    def ranged(self) -> list[Index]:
        return [ix for _, _, ix, _, _ in self.parts if ix is not None]

    @property
    def ixs(self) -> list[Index]:
        return [ix for _, _, ix in self.fixed] + self.ranged

    def env(self, n: Normalizer, flips: Sequence[bool]) -> Env:
        """The places; `flips` says which ranges are read from right to left."""
        found: Env = {axis: {} for axis in self.axes}
        for axis, c, ix in self.fixed:
            found[axis][c] = ix
        turned = iter(flips)
        for axis, c, part_ix, offset, length in self.parts:
            index = ZERO if part_ix is None else n.index_value(part_ix)
            found[axis][c] = n.place(c, offset + (length - ONE - index if part_ix is not None and next(turned) else index))
        return found


def add_up(n: Normalizer, ixs: list[Index], body: Rational) -> Rational:
    return n.sum(ixs, body) if ixs else body


def greatest(n: Normalizer, parts: list[Rational]) -> Rational:
    """The maximum of at least one part."""
    if not parts:
        n.require(FALSE)
        raise Contradiction
    result = parts[0]
    for part in parts[1:]:
        result = n.maximum(result, part)
    return result


def least(n: Normalizer, parts: list[Rational]) -> Rational:
    return -greatest(n, [-part for part in parts])


def _without_matrix(x: Sym) -> Sym:
    return Sym(x.layout, {axis: members for axis, members in x.shape.items() if axis not in (-1, -2)}, x.element)


class SymMath(Scans):
    """The `Math` protocol on `Sym`."""

    def __init__(self, layout: AxisClasses) -> None:
        self.layout = layout

    @property
    def true(self) -> Sym:
        return Sym(self.layout, {}, lambda n, env: TRUE)

    def const(self, value: Any) -> Sym:
        if isinstance(value, Sym):
            return value
        if isinstance(value, bool):
            return Sym(self.layout, {}, lambda n, env: TRUE if value else FALSE)
        if value == -math.inf:
            return nothing_kept(self.layout)
        if isinstance(value, float) and value - value != 0:
            raise NoFormula("an infinity or a nan is no real number")
        number = const(Fraction(value)) if not isinstance(value, Constant) else of_atom(atom("pi")).scale(value.factor)
        return Sym(self.layout, {}, lambda n, env: number)

    def exp(self, x: Sym) -> Sym:
        if isinstance(x, Masked):
            return x.exp(self.exp(x.finite))
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
        return pointwise(lambda n, a, b: n.atan2(a, b), y, x)

    def erf(self, x: Sym) -> Sym:
        return pointwise(lambda n, a: n.odd("erf", a), x)

    def lgamma(self, x: Sym) -> Sym:
        return pointwise(lambda n, a: n.lgamma(a), x)

    def i0(self, x: Sym) -> Sym:
        return pointwise(lambda n, a: n.even("i0", a), x)

    def floor(self, x: Sym) -> Sym:
        return pointwise(lambda n, a: n.floor(a), x)

    def round_to(self, x: Sym, format: Any) -> Sym:
        """Rounding is an odd function; see `rounding` for what is known of it, and of integer types."""
        if format == NO_TYPE:
            self.layout.bounds.append(lambda n: [FALSE])
            return x
        return pointwise(lambda n, a: rounded(n, str(format), a), x)

    def abs(self, x: Sym) -> Sym:
        return pointwise(lambda n, a: n.abs(a), x)

    def maximum(self, x: Sym, y: Sym) -> Sym:
        for one, other in ((x, y), (y, x)):
            if isinstance(one, Masked) and not isinstance(other, Masked):
                return one.greatest(self.maximum(one.finite, other), other)
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
        if isinstance(x, Masked) or isinstance(y, Masked):
            return masked_choice(p, x, y, self.where)

        def element(n: Normalizer, env: Env) -> Value:
            return choose(n, p.cond(n, env), x.at, y.at, env)

        return Sym(self.layout, joined(self.layout, p, x, y), element)

    def weight(self, mask: Sym) -> Sym:
        if isinstance(mask, Masked):
            return self.exp(mask)

        def element(n: Normalizer, env: Env) -> Value:
            value = mask.at(n, env)
            return n.exp(value) if isinstance(value, Rational) else mask.real(n, env)

        return Sym(self.layout, mask.shape, element)

    # reductions

    def sum(self, x: Sym, axes: Iterable[Axis]) -> Sym:
        return self._reduce(add_up, x, axes, True, lambda n, parts: total(parts))

    def prod(self, x: Sym, axes: Iterable[Axis]) -> Sym:
        return self._reduce(lambda n, ixs, body: n.prod(ixs, body) if ixs else body, x, axes, True, lambda n, parts: product(parts))

    def amax(self, x: Sym, axes: Iterable[Axis]) -> Sym:
        return self._reduce(lambda n, ixs, body: n.extreme("max", ixs, body), x, axes, False, greatest)

    def amin(self, x: Sym, axes: Iterable[Axis]) -> Sym:
        return self._reduce(lambda n, ixs, body: n.extreme("min", ixs, body), x, axes, False, least)

    def _reduce(self, combine: Combine, x: Sym, axes: Iterable[Axis], sized: bool, join: Join) -> Sym:
        axes = tuple(axes)
        self.check(axes)
        if sized:
            self.layout.seen_by_reductions |= {x.shape[a] for a in axes if x.shape.get(a)}
        shape = {a: NOTHING if a in axes else members for a, members in x.shape.items()}

        def element(n: Normalizer, env: Env) -> Value:
            outer = {a: env.get(a, {}) for a in self.layout.universe if a not in axes}
            reduced = [(a, x.shape.get(a, NOTHING)) for a in self.layout.universe if a in axes]
            return self.over(n, reduced, combine, join, lambda inner: x.real(n, {**outer, **inner}))

        return Sym(self.layout, shape, element)

    def over(
        self, n: Normalizer, axes: Sequence[tuple[Axis, frozenset[Member]]], combine: Combine, join: Join, body: Callable[[Env], Rational]
    ) -> Rational:
        """The body combined over all places of the classes along the axes; the parts of an arithmetic axis one by one."""
        results = []
        for choice in self._choices(n, axes):
            ways = []
            for flips in itertools.product((False, True), repeat=len(choice.ranged) if self.layout.reversing else 0):
                inner = choice.env(n, flips or (False,) * len(choice.ranged))
                n.bound += choice.ixs
                try:
                    ways.append(combine(n, choice.ixs, body(inner)))
                finally:
                    del n.bound[len(n.bound) - len(choice.ixs) :]
            # the order of the elements does not matter: of all readings the least stands for all
            results.append(min(ways, key=lambda x: (len(x.places), str(x))) if len(ways) > 1 else ways[0])
        return join(n, results)

    def _choices(self, n: Normalizer, axes: Sequence[tuple[Axis, frozenset[Member]]]) -> Iterator[Choice]:
        """New indices for the classes; their number tells the depth, so none is in use."""
        fixed: list[tuple[Axis, int, Index]] = []
        options: list[list[tuple[Axis, int, Index | None, Rational, Rational]]] = []
        for axis, members in axes:
            if n.empty.intersection(self.layout.of(members)):
                return
            depth = BOUND + 8 * len(n.bound) + self.layout.universe.index(axis)
            for c in self.layout.of(members):
                if c not in self.layout.ranged:
                    fixed.append((axis, c, Index(c, "free", depth)))
                    continue
                options.append(
                    [
                        (axis, c, None if length == ONE else Index(n.range_of(length), "free", depth), offset, length)
                        for offset, length in n.pieces(self.segments(n, c))
                    ]
                )
        for chosen in itertools.product(*options):
            yield Choice([a for a, _ in axes], fixed, list(chosen))

    def check(self, axes: Iterable[Axis]) -> None:
        for axis in axes:
            if axis not in self.layout.universe:
                raise Unrelated(f"how axis {axis} relates to the others of this rule is not known")

    def size(self, x: Sym, axes: Iterable[Axis]) -> Sym:
        axes = tuple(axes)
        self.check(axes)
        self.layout.seen_by_reductions |= {x.shape[a] for a in axes if x.shape.get(a)}

        def element(n: Normalizer, env: Env) -> Value:
            result = ONE
            for axis in axes:
                result = result * self.size_along(n, x, axis)
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

        def element(n: Normalizer, env: Env) -> Value:
            def term(inner: Env) -> Rational:
                across, down = {**env, -1: inner[-1]}, {**env, -2: inner[-1]}
                return a.real(n, {-2: {}, **across}) * b.real(n, {-1: {}, **down})

            return self.over(n, [(-1, left | right)], add_up, lambda n, parts: total(parts), term)

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
