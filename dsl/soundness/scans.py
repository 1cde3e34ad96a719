"""Operations that know at which index an element stands: cumulative sums, triangles, indices of extrema."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable

from hnfc.dsl.core import Axis
from hnfc.dsl.soundness.axis_classes import NOTHING, Unrelated
from hnfc.dsl.soundness.convolution import Convolution
from hnfc.dsl.soundness.normal_form import Normalizer
from hnfc.dsl.soundness.signs import NEG, POS
from hnfc.dsl.soundness.sym import Env, Sym, Value, choose
from hnfc.dsl.soundness.term import ONE, ZERO, Proposition, Rational, of_mono, product, total


class Scans(Convolution):
    """Their part of the `Math` protocol on `Sym`; the axes are arithmetic."""

    @abstractmethod
    def amax(self, x: Sym, axes: Iterable[Axis]) -> Sym:
        """The maximum over the axes."""

    @abstractmethod
    def amin(self, x: Sym, axes: Iterable[Axis]) -> Sym:
        """The minimum over the axes."""

    def cumsum(self, x: Sym, axis: Axis) -> Sym:
        """Σ of the elements up to and with each place."""
        self.check((axis,))
        own = x.shape.get(axis, NOTHING)
        if own:
            self.layout.seen_by_reductions.add(own)

        def element(n: Normalizer, env: Env) -> Value:
            last = self.index(n, env, axis)

            def term(inner: Env) -> Rational:
                here = n.relation(">=", last - self.index(n, inner, axis))
                return number(n, choose(n, here, x.at, lambda n, env: ZERO, {**env, **inner}))

            return self.over(n, [(axis, own)], lambda n, ixs, body: n.sum(ixs, body) if ixs else body, lambda n, parts: total(parts), term)

        return Sym(self.layout, x.shape, element)

    def lower(self, x: Sym) -> Sym:
        """x where its last index is at most the one before, and 0 elsewhere."""
        self.check((-1, -2))

        def element(n: Normalizer, env: Env) -> Value:
            below = n.relation(">=", self.index(n, env, -2) - self.index(n, env, -1))
            return choose(n, below, x.at, lambda n, env: ZERO, env)

        return Sym(self.layout, x.shape, element)

    def index_of(self, x: Sym, axes: Iterable[Axis], greatest: bool) -> Sym:
        """The least index at which x is its maximum or minimum."""
        axes = tuple(axes)
        self.check(axes)
        if len(axes) != 1:
            raise Unrelated("an index along several axes")
        (axis,) = axes
        own = x.shape.get(axis, NOTHING)
        extremum = self.amax(x, axes) if greatest else self.amin(x, axes)

        def element(n: Normalizer, env: Env) -> Value:
            size = self.size_along(n, x, axis)
            outer = {a: env.get(a, {}) for a in self.layout.universe if a != axis}
            value = extremum.real(n, {**outer, axis: {}})

            def term(inner: Env) -> Rational:
                here = n.relation("=", comparable(n, x.real(n, {**outer, **inner}) - value))
                return n.ite(here, self.index(n, inner, axis), size, True)

            return self.over(n, [(axis, own)], lambda n, ixs, body: n.extreme("min", ixs, body) if ixs else body, first, term)

        return Sym(self.layout, {a: NOTHING if a == axis else members for a, members in x.shape.items()}, element)


def number(n: Normalizer, value: Value) -> Rational:
    return n.ite(value, ONE, ZERO, True) if isinstance(value, Proposition) else value


def first(n: Normalizer, parts: list[Rational]) -> Rational:
    """The least of the parts. Raises Unrelated where there are several: each has the size of the whole where it has no such index."""
    if len(parts) != 1:
        raise Unrelated("an index in what consists of parts")
    return parts[0]


def comparable(n: Normalizer, x: Rational) -> Rational:
    """A term that is 0 exactly where x is: without factors that are not 0, and log p - log q for p - q of positive numbers."""
    _, parts = n.signs.factors(x)
    open_parts = [base for base, _ in parts if n.sign(base) & ~(POS | NEG)]
    x = product(open_parts) if open_parts else ONE if parts else x
    if x.polynomial and len(x.num) == 2:
        (p, q) = (of_mono(mono, c) for mono, c in x.num.items())
        if n.sign(p) == POS and n.sign(-q) == POS:
            return n.log_of(p) - n.log_of(-q)
        if n.sign(q) == POS and n.sign(-p) == POS:
            return n.log_of(q) - n.log_of(-p)
    return x
