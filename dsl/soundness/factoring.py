"""Greatest common divisors and factors of polynomials over atoms; flint computes them."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

from flint import Ordering, fmpq, fmpq_mpoly_ctx

from hnfc.dsl.soundness.monomial import Mono, Terms, lowered, order, raw_mul, tidy


class _Frame:
    """Atoms as the generators of a flint ring; rational exponents are scaled to integers, negative ones shifted."""

    def __init__(self, *polynomials: Terms) -> None:
        atoms = {x for terms in polynomials for m in terms for x, _ in m}
        self.atoms = sorted(atoms, key=lambda x: x.id)
        self.scale = dict.fromkeys(self.atoms, 1)
        for terms in polynomials:
            for m in terms:
                for x, e in m:
                    self.scale[x] = math.lcm(self.scale[x], Fraction(e).denominator)
        self.ring = fmpq_mpoly_ctx.get([f"v{i}" for i in range(len(self.atoms))], Ordering.lex)

    def enter(self, terms: Terms) -> Any:
        assert not any(e < 0 for m in terms for _, e in m)
        result = {}
        for m, c in terms.items():
            powers = dict(m)
            exponents = tuple(int(powers.get(x, 0) * self.scale[x]) for x in self.atoms)
            result[exponents] = fmpq(c.numerator, c.denominator)
        return self.ring.from_dict(result)

    def leave(self, polynomial: Any) -> Terms:
        result: Terms = {}
        for exponents, c in polynomial.to_dict().items():
            mono = tuple((x, tidy(Fraction(int(e), self.scale[x]))) for x, e in zip(self.atoms, exponents, strict=True) if e)
            result[mono] = Fraction(int(c.p), int(c.q))
        return result


def cancel(num: Terms, den: Terms) -> tuple[Terms, Terms]:
    """num and den without their common polynomial factor."""
    common, rest = lowered(num)
    frame = _Frame(rest, den)
    if not frame.atoms:
        return num, den
    a, b = frame.enter(rest), frame.enter(den)
    g = a.gcd(b)
    if g.total_degree() == 0:
        return num, den
    return raw_mul(frame.leave(a / g), {common: Fraction(1)}), frame.leave(b / g)


def factor(terms: Terms) -> tuple[Fraction, Mono, list[tuple[Terms, int]]]:
    """coefficient, monomial and primitive irreducible factors with multiplicity; each factor's leading coefficient is positive."""
    common, rest = lowered(terms)
    if len(rest) == 1:
        return next(iter(rest.values())), common, []
    frame = _Frame(rest)
    unit, factors = frame.enter(rest).factor()
    coefficient = Fraction(int(unit.p), int(unit.q))
    parts = []
    for polynomial, multiplicity in factors:
        terms_of = frame.leave(polynomial)
        c = primitive_coefficient(terms_of)
        coefficient *= c ** int(multiplicity)
        parts.append(({m: d / c for m, d in terms_of.items()}, int(multiplicity)))
    return coefficient, common, parts


def primitive_coefficient(terms: Terms) -> Fraction:
    """The rational c for which terms/c has coprime integer coefficients and a positive leading one."""
    gcd = math.gcd(*(c.numerator for c in terms.values()))
    lcm = math.lcm(*(c.denominator for c in terms.values()))
    c = Fraction(gcd, lcm)
    return -c if terms[max(terms, key=order)] < 0 else c
