"""Tensors with elements of -∞, as masks make them. Only what has a limit there is defined: e^x is 0, a maximum the other number."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hnfc.dialects.facts import NoFormula
from hnfc.dsl.soundness.normal_form import Normalizer, connect, negation
from hnfc.dsl.soundness.sym import Env, Sym, Value, choose, joined
from hnfc.dsl.soundness.term import FALSE, TRUE, ZERO


def _no_number(n: Normalizer, env: Env) -> Value:
    raise NoFormula("an infinity or a nan is no real number")


@dataclass(eq=False)
class Masked(Sym):
    """`finite` where `kept` holds, and -∞ elsewhere.

    factors: what -∞ was multiplied by, which must be positive where an element is -∞.
    """

    finite: Sym = field(kw_only=True)
    kept: Sym = field(kw_only=True)
    factors: tuple[Sym, ...] = ()

    def exp(self, exponential: Sym) -> Sym:
        """e^x, with `exponential` where it is finite."""
        return self._chosen(exponential, lambda n, env: ZERO)

    def greatest(self, both: Sym, other: Sym) -> Sym:
        """The maximum with another tensor: `both` where it is finite, else the other."""
        return self._chosen(both, other.at)

    def _chosen(self, finite: Sym, elsewhere: Any) -> Sym:
        def at_infinity(n: Normalizer, env: Env) -> Value:
            for factor in self.factors:
                n.require(n.compare("gt", factor.real(n, env), ZERO))
            found: Value = elsewhere(n, env)
            return found

        shape = joined(self.layout, finite, self)
        return Sym(self.layout, shape, lambda n, env: choose(n, self.kept.cond(n, env), finite.at, at_infinity, env))

    def __add__(self, other: Sym) -> Sym:
        if isinstance(other, Masked):
            kept = both_kept(self.kept, other.kept)
            return masked(self.finite + other.finite, kept, self.factors + other.factors)
        return masked(self.finite + other, self.kept, self.factors)

    __radd__ = __add__

    def __sub__(self, other: Sym) -> Sym:
        if isinstance(other, Masked):
            return self.unsayable
        return masked(self.finite - other, self.kept, self.factors)

    def __rsub__(self, other: Sym) -> Sym:
        return self.unsayable

    def __mul__(self, other: Sym) -> Sym:
        return self._scaled(other, lambda x, y: x * y)

    __rmul__ = __mul__

    def __truediv__(self, other: Sym) -> Sym:
        return self._scaled(other, lambda x, y: x / y)

    def __rtruediv__(self, other: Sym) -> Sym:
        return self.unsayable

    def __neg__(self) -> Sym:
        return self.unsayable

    def _scaled(self, factor: Sym, scaled: Any) -> Sym:
        if isinstance(factor, Masked):
            return self.unsayable
        return masked(scaled(self.finite, factor), self.kept, (*self.factors, factor))

    @property
    def unsayable(self) -> Sym:
        """A tensor of this shape without a meaning."""
        return Sym(self.layout, self.shape, _no_number)


def masked(finite: Sym, kept: Sym, factors: tuple[Sym, ...] = ()) -> Masked:
    """The tensor that is finite where `kept` holds."""
    shape = joined(finite.layout, finite, kept, *factors)
    return Masked(finite.layout, shape, _no_number, finite=finite, kept=kept, factors=factors)


def nothing_kept(layout: Any) -> Masked:
    """The number -∞."""
    return masked(Sym(layout, {}, lambda n, env: ZERO), Sym(layout, {}, lambda n, env: FALSE))


def both_kept(x: Sym, y: Sym) -> Sym:
    return Sym(x.layout, joined(x.layout, x, y), lambda n, env: connect("and", x.cond(n, env), y.cond(n, env)))


def masked_choice(p: Sym, x: Sym, y: Sym, where: Any) -> Masked:
    """`where(p, x, y)`, of which one at least is masked. where: the choice between tensors of numbers."""
    parts = [(side.finite, side.kept, side.factors) if isinstance(side, Masked) else (side, _always(side), ()) for side in (x, y)]
    (finite_x, kept_x, factors_x), (finite_y, kept_y, factors_y) = parts

    def kept(n: Normalizer, env: Env) -> Value:
        cond = p.cond(n, env)
        return connect("or", connect("and", cond, kept_x.cond(n, env)), connect("and", negation(cond), kept_y.cond(n, env)))

    return masked(where(p, finite_x, finite_y), Sym(p.layout, joined(p.layout, p, kept_x, kept_y), kept), (*factors_x, *factors_y))


def _always(x: Sym) -> Sym:
    return Sym(x.layout, {}, lambda n, env: TRUE)
