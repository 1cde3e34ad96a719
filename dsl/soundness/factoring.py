"""Greatest common divisors and factors of polynomials over atoms; flint computes them."""

from __future__ import annotations

import math
from fractions import Fraction

from hnfc.dsl.polynomials import MOST_DEGREE, Ring
from hnfc.dsl.soundness.monomial import Atom, Mono, Terms, lowered, order, raw_mul


def by_id(base: Atom) -> int:
    return base.id


def cancel(num: Terms, den: Terms) -> tuple[Terms, Terms]:
    """num and den without their common polynomial factor."""
    common, rest = lowered(num)
    ring = Ring(by_id, rest, den)
    if not ring.atoms or ring.degree > MOST_DEGREE:
        return num, den
    a, b = ring.enter(rest), ring.enter(den)
    g = a.gcd(b)
    if g.total_degree() == 0:
        return num, den
    return raw_mul(ring.leave(a / g), {common: Fraction(1)}), ring.leave(b / g)


def factor(terms: Terms) -> tuple[Fraction, Mono, list[tuple[Terms, int]]]:
    """coefficient, monomial and primitive factors with multiplicity; each factor's leading coefficient is positive.

    The factors are irreducible up to a degree of MOST_DEGREE.
    """
    common, rest = lowered(terms)
    if len(rest) == 1:
        return next(iter(rest.values())), common, []
    ring = Ring(by_id, rest)
    if ring.degree > MOST_DEGREE:
        c = primitive_coefficient(rest)
        return c, common, [({m: d / c for m, d in rest.items()}, 1)]
    unit, factors = ring.enter(rest).factor()
    coefficient = Fraction(int(unit.p), int(unit.q))
    parts = []
    for polynomial, multiplicity in factors:
        terms_of = ring.leave(polynomial)
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
