"""First-order arithmetic: a value, and how it changes with every source of error.

Contributions of one source over several paths are added with their signs before absolute values are taken, so that what cancels (the
error of the mean in a two-pass variance) cancels here too. Where a reduction adds up a source of error that differs from element to
element, the sum of its contributions becomes a source of its own, with their sum of magnitudes as its bound.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

from hnfc.dialects.num import OPERATIONS
from hnfc.dsl.core import Apply, Axis, Expr, Literal
from hnfc.dsl.error.algebra import Algebra
from hnfc.dsl.error.polynomial import ONE, ZERO, Poly, const, joined, power


class NoErrorFormula(Exception):
    """The rule has no error formula; the message says why."""


@dataclass(eq=False)
class Source:
    """An error of magnitude at most `bound` (in units roundoff), the same for all elements along axes where it does not vary.

    exact: errors below it can add up to the bound, as far as first order goes.
    """

    bound: Poly
    vary: Mapping[Axis, frozenset[Any]]
    exact: bool = True


@dataclass(eq=False)
class Condition:
    """A truth value: a tree of comparisons, hashable."""

    tree: Any
    vary: Mapping[Axis, frozenset[Any]]
    like: Expr
    inexact: bool = False
    """True if an operand of a comparison has an error, so that the other branch may be taken."""


class JetRecorder(Protocol):
    """The `Math` on jets (see `differentiation`), as their operators use it."""

    algebra: Algebra

    def jet(self, value: Any) -> Jet: ...
    def chain(self, value: Poly, *parts: tuple[Poly, Jet]) -> Jet: ...


@dataclass(eq=False)
class Jet:
    """A tensor. `terms`: its derivative with respect to each source; `vary` and `like`: its shape, as sizes and as an expression."""

    math: JetRecorder
    value: Poly
    terms: dict[Source, Poly]
    vary: Mapping[Axis, frozenset[Any]]
    like: Expr

    def __add__(self, other: Any) -> Jet:
        other = self.math.jet(other)
        return self.math.chain(self.value + other.value, (ONE, self), (ONE, other))

    def __sub__(self, other: Any) -> Jet:
        other = self.math.jet(other)
        return self.math.chain(self.value - other.value, (ONE, self), (const(-1), other))

    def __mul__(self, other: Any) -> Jet:
        other = self.math.jet(other)
        return self.math.chain(self.value * other.value, (other.value, self), (self.value, other))

    def __truediv__(self, other: Any) -> Jet:
        other = self.math.jet(other)
        inverse = power(other.value, -1)
        value = self.value * inverse
        return self.math.chain(value, (inverse, self), (-(value * inverse), other))

    def __neg__(self) -> Jet:
        return self.math.chain(-self.value, (const(-1), self))

    __radd__ = __add__
    __rmul__ = __mul__

    def __rsub__(self, other: Any) -> Jet:
        return self.math.jet(other) - self

    def __rtruediv__(self, other: Any) -> Jet:
        return self.math.jet(other) / self

    def magnitude(self) -> Poly:
        """Σ |derivative|·bound: the largest error, to first order."""
        return sum((multiplied_absolute(self.math.algebra, c, s.bound) for s, c in self.terms.items()), ZERO)

    @property
    def exact(self) -> bool:
        """Return whether the magnitude is attained for sure: where all comes from one source over one path."""
        return all(s.exact for s in self.terms) and len(self.terms) < 2

    def varies_along(self, axis: Axis) -> bool:
        """Return whether the magnitude is attained, by errors that differ from element to element along the axis."""
        return self.exact and all(s.vary.get(axis) for s in self.terms)


def multiplied_absolute(algebra: Algebra, coefficient: Poly, bound: Poly) -> Poly:
    return algebra.absolute(algebra.tidy(coefficient)) * bound


def identity(x: Jet) -> tuple[Any, ...]:
    """Identity of a jet: its value and its derivative."""
    return x.value.key, tuple(sorted((id(s), c.key) for s, c in x.terms.items()))


def shape_of(parts: list[tuple[Mapping[Axis, frozenset[Any]], Expr]]) -> Expr:
    """An expression in the shape that tensors of these shapes broadcast to."""
    whole = joined(vary for vary, _ in parts)
    for vary, like in parts:
        if all(vary.get(axis, frozenset()) == members for axis, members in whole.items()) and (whole or not isinstance(like, Literal)):
            return like
    likes = [like for _, like in parts if not isinstance(like, Literal)]
    result: Expr = likes[0] if likes else Literal(Fraction(0))
    for like in likes[1:]:
        result = Apply(OPERATIONS["add"], (result, like))
    return result
