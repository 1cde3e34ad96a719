"""Sines and cosines of angles in rational proportion, as polynomials in those of one angle."""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction

from hnfc.dsl.soundness.signs import primitive
from hnfc.dsl.soundness.term import ONE, ZERO, Atom, Rational, atom, of_atom, primitive_coefficient

MAX_ANGLE = 8


def angle_table(atoms: Iterable[Atom]) -> dict[Atom, Rational]:
    """sin kθ and cos kθ in sin θ and cos θ (Chebyshev), for the angles among these atoms; without those that stay as they are."""
    families: dict[Rational, list[Atom]] = {}
    for base in atoms:
        if base.kind in ("sin", "cos"):
            families.setdefault(primitive(base.args[0]), []).append(base)
    table: dict[Atom, Rational] = {}
    for angle, members in families.items():
        # of a sine or cosine the leading coefficient of the angle is positive
        ratios = [primitive_coefficient(base.args[0].num) for base in members]
        unit = Fraction(math.gcd(*(r.numerator for r in ratios)), math.lcm(*(r.denominator for r in ratios)))
        if any(not 0 < r / unit <= MAX_ANGLE for r in ratios):
            continue
        theta = angle.scale(unit)
        c, s = of_atom(atom("cos", theta)), of_atom(atom("sin", theta))
        for base, ratio in zip(members, ratios, strict=True):
            k = int(ratio / unit)
            if base.kind == "cos":
                table[base] = _chebyshev(c, ONE, c, k)
            else:
                table[base] = s * _chebyshev(c, ONE, c.scale(Fraction(2)), k - 1) if k else ZERO
    return {base: image for base, image in table.items() if image != of_atom(base)}


def _chebyshev(c: Rational, zeroth: Rational, first: Rational, k: int) -> Rational:
    """The k-th term of t₀, t₁, tₖ₊₁ = 2c·tₖ - tₖ₋₁."""
    if k == 0:
        return zeroth
    before, now = zeroth, first
    for _ in range(k - 1):
        before, now = now, c.scale(Fraction(2)) * now - before
    return now
