"""Sparse polynomials over atoms of any kind: dictionaries from monomials to exact coefficients, and the flint rings that hold them.

A monomial is a tuple of (atom, exponent) in a fixed order of the atoms. The prover, the error formulas and the search for accurate forms
each have atoms and normal forms of their own; sums, greatest common divisors, quotients and roots are the same for all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any, TypeAlias, TypeVar

from flint import Ordering, fmpq, fmpq_mpoly_ctx, fmpz

Exponent: TypeAlias = int | Fraction
M = TypeVar("M")
A = TypeVar("A")
E = TypeVar("E", int, int | Fraction)


def whole(e: Exponent) -> Exponent:
    """The exponent, as an int if it is one."""
    return int(e) if isinstance(e, Fraction) and e.denominator == 1 else e


def accumulate(terms: dict[M, Fraction], monomial: M, c: Fraction) -> None:
    """Adds c·monomial to the terms, of which none is 0."""
    before = terms.get(monomial)
    total = c if before is None else before + c
    if total:
        terms[monomial] = total
    else:
        terms.pop(monomial, None)


def added(x: Mapping[M, Fraction], y: Mapping[M, Fraction], sign: int = 1) -> dict[M, Fraction]:
    """x + y, or x - y for the sign -1."""
    result = dict(x)
    for monomial, c in y.items():
        accumulate(result, monomial, c if sign > 0 else -c)
    return result


def summed_exponents(x: tuple[tuple[A, E], ...], y: tuple[tuple[A, E], ...]) -> dict[A, E]:
    """The exponents of the product of two monomials; some may be 0."""
    powers = dict(x)
    for atom, e in y:
        powers[atom] = powers.get(atom, 0) + e
    return powers


def rational_root(value: Fraction, degree: int) -> Fraction | None:
    """The real root of a rational number where it is rational."""
    if value < 0:
        opposite = rational_root(-value, degree) if degree % 2 else None
        return None if opposite is None else -opposite
    numerator, denominator = (int(fmpz(part).root(degree)) for part in (value.numerator, value.denominator))
    root = Fraction(numerator, denominator)
    return root if root**degree == value else None


MOST_DEGREE = 1000
"""Degree in an atom up to which polynomials are factored; flint ends the process where exponents need more than a machine word."""


class Ring:
    """The flint ring over the atoms of polynomials without negative exponents; fractional ones are scaled to integers.

    degree: the largest exponent. Exponents beyond MOST_DEGREE are divided by what divides them all.
    """

    def __init__(self, order: Callable[[Any], Any], *polynomials: Mapping[Any, Fraction]) -> None:
        exponents: dict[Any, list[Fraction]] = {}
        for terms in polynomials:
            for m in terms:
                for x, e in m:
                    exponents.setdefault(x, []).append(Fraction(e))
        self.atoms = sorted(exponents, key=order)
        self.scale: dict[Any, int | Fraction] = {x: math.lcm(*(e.denominator for e in found)) for x, found in exponents.items()}
        self.degree = 0
        for x, found in exponents.items():
            whole_ones = [int(e * self.scale[x]) for e in found]
            if max(whole_ones) > MOST_DEGREE:
                divisor = math.gcd(*whole_ones)
                self.scale[x] = Fraction(self.scale[x], divisor)
                whole_ones = [e // divisor for e in whole_ones]
            self.degree = max(self.degree, *whole_ones)
        self.ring = fmpq_mpoly_ctx.get([f"v{i}" for i in range(len(self.atoms))], Ordering.lex)

    def enter(self, terms: Mapping[Any, Fraction]) -> Any:
        assert not any(e < 0 for m in terms for _, e in m)
        result = {}
        for m, c in terms.items():
            powers = dict(m)
            exponents = tuple(int(powers.get(x, 0) * self.scale[x]) for x in self.atoms)
            result[exponents] = fmpq(c.numerator, c.denominator)
        return self.ring.from_dict(result)

    def leave(self, polynomial: Any) -> dict[Any, Fraction]:
        result = {}
        for exponents, c in polynomial.to_dict().items():
            mono = tuple((x, whole(Fraction(int(e)) / self.scale[x])) for x, e in zip(self.atoms, exponents, strict=True) if e)
            result[mono] = Fraction(int(c.p), int(c.q))
        return result
