"""One form for what is equal: like terms, common denominators, and sums multiplied out where that is shorter."""

from __future__ import annotations

from hnfc.dsl.error.polynomial import (
    ZERO,
    ErrorAtom,
    Poly,
    as_base,
    const,
    excluded,
    expanded,
    lowered,
    multiplied,
    of_atom,
    of_mono,
    power,
    under,
)
from hnfc.dsl.polynomials import MOST_DEGREE, Ring


class Simplifying:
    """Forms of a formula; what was found is remembered."""

    def __init__(self) -> None:
        self._tidied: dict[str, Poly] = {}

    def tidy(self, x: Poly) -> Poly:
        """x in the shortest form that multiplying out, or a common denominator, gives."""
        if x.key not in self._tidied:
            self._tidied[x.key] = min(self.forms(x), key=lambda p: p.size)
        return self._tidied[x.key]

    def forms(self, x: Poly) -> tuple[Poly, ...]:
        """x, and what it becomes by multiplying out or by a common denominator."""
        inside = ZERO
        for mono, c in x.terms.items():
            part = const(c)
            for atom, e in mono:
                part = part * (power(self.tidy(atom.args[0]), e) if atom.kind == "base" else of_mono({atom: e}))
            inside = inside + part
        inside = self._whichever(inside)
        return inside, expanded(inside), self._together(inside)

    def _whichever(self, x: Poly) -> Poly:
        """[p]·a + [not p]·a = a."""
        for atom in sorted(a for a in x.atoms if a.kind == "ind" and a.args[0][0] != "not"):
            other = next((a for a in x.atoms if a.kind == "ind" and excluded(a, atom)), None)
            if other is None:
                continue
            same = {m: c for m, c in under(x, atom).terms.items() if under(x, other).terms.get(m) == c}
            result = Poly(same)
            for mono, c in x.terms.items():
                bare = tuple(f for f in mono if f[0] not in (atom, other))
                if bare == mono or bare not in same:
                    result = result + Poly({mono: c})
            x = result
        return x

    def _together(self, x: Poly) -> Poly:
        """x over one power of each sum that is a denominator somewhere, where that is shorter."""
        for atom in sorted(a for a in x.atoms if a.kind == "base"):
            candidate = self._over(x, atom)
            if candidate is not None and candidate.size < x.size:
                return self._together(candidate)
        return x

    def over_one_denominator(self, x: Poly) -> Poly:
        """x as one fraction."""
        for atom in sorted(a for a in x.atoms if a.kind == "base"):
            candidate = self._over(x, atom) if len(x.terms) > 1 else None
            if candidate is not None and candidate != x:
                return self.over_one_denominator(candidate)
        return x

    @staticmethod
    def _over(x: Poly, atom: ErrorAtom) -> Poly | None:
        """x over one power of a sum, with that sum cancelled where it divides; None where it is no denominator."""
        exponents = [dict(mono).get(atom, 0) for mono in x.terms]
        least = min(exponents)
        if least >= 0 or any((e - least) % 1 for e in exponents):
            return None
        base = atom.args[0]
        top = ZERO
        for mono, c in x.terms.items():
            e = dict(mono).get(atom, 0) - least
            part = of_mono({a: f for a, f in mono if a != atom}, c)
            for _ in range(int(e)):
                part = multiplied(part, base)
            top = top + part
        top = expanded(top)
        while least < 0 and (quotient := divided(top, base)) is not None:
            top, least = quotient, least + 1
        return multiplied(as_base(top) if len(top.terms) > 1 and least else top, power(of_atom(atom), least))


def divided(top: Poly, base: Poly) -> Poly | None:
    """top / base where that is a polynomial (negative powers of single atoms allowed)."""
    down, divisor = lowered(base)
    up, rest = lowered(top)
    if any(e < 0 for x in (rest, divisor) for mono in x.terms for _, e in mono):
        return None  # a sum in its own right, with denominators inside, was left alone
    ring = Ring(lambda atom: atom.key, rest.terms, divisor.terms)
    if ring.degree > MOST_DEGREE:
        return None
    quotient, remainder = divmod(ring.enter(rest.terms), ring.enter(divisor.terms))
    if remainder != 0:
        return None
    found = sum((of_mono(dict(mono), c) for mono, c in ring.leave(quotient).items()), ZERO)
    return multiplied(found, multiplied(up, power(down, -1)))
