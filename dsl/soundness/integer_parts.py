"""Floors in normal form: ⌊x + n⌋ = ⌊x⌋ + n for an integer n, ⌊⌊a⌋/n⌋ = ⌊a/n⌋ for a positive one."""

from __future__ import annotations

import math
from fractions import Fraction

from hnfc.dsl.soundness.powers import Powers
from hnfc.dsl.soundness.signs import NEG, POS, ZEROS
from hnfc.dsl.soundness.term import ONE, ZERO, Rational, atom, const, content, of_atom, of_mono, of_terms, product


class IntegerParts(Powers):
    """Normal forms of ⌊x⌋."""

    def floor(self, x: Rational) -> Rational:
        """Take out what is whole; the rest is 0 where it is surely in [0, 1)."""
        whole, rest = self._parted(x)
        if rest.zero or self._is_fraction(rest):
            return whole
        if self.sign(rest) == NEG and self._is_fraction(rest + ONE):
            return whole - ONE
        inner = self._undivided(rest)
        if inner is not None:
            return whole + inner
        base = atom("floor", rest)
        known = self.subst.get(base)
        return whole + (of_atom(base) if known is None else known)

    def _parted(self, x: Rational) -> tuple[Rational, Rational]:
        """The terms of x that are integers, and the rest, with a constant in [0, 1)."""
        if self.signs.whole(x):
            return x, ZERO
        if not x.polynomial:
            return ZERO, x
        whole = of_terms({m: c for m, c in x.num.items() if m and self.signs.whole(of_mono(m, c))})
        whole = whole + const(math.floor(x.num.get((), Fraction(0))))
        return whole, x - whole

    def _is_fraction(self, x: Rational) -> bool:
        """Return whether x is surely in [0, 1)."""
        c = x.constant()
        if c is not None:
            return 0 <= c < 1
        mask = self.sign(x)
        return mask == ZEROS or (not mask & NEG and self.sign(ONE - x) == POS)

    def _undivided(self, x: Rational) -> Rational | None:
        """⌊x⌋ where x is (n + ⌊a⌋)/m for integers n and m > 0, which is ⌊(n + a)/m⌋, or -n/m, which is -⌊(n - 1)/m⌋ - 1."""
        if not x.polynomial:
            return None
        for divisor in self._divisors(x):
            top = x * divisor
            for base in top.atoms:
                if base.kind == "floor" and top.num.get(((base, 1),)) == 1 and self.signs.whole(top):
                    return self.floor((top - of_atom(base) + base.args[0]) * divisor.inverse())
            if self.signs.whole(top) and top.leading() < 0:
                return -self.floor((-top - ONE) * divisor.inverse()) - ONE
            inner = self.floor(top) if not self.signs.whole(top) and len(top.num) > 1 else top
            if inner != top and not any(base.kind == "floor" for base in inner.atoms):
                return self.floor(inner * divisor.inverse())
        return None

    def _divisors(self, x: Rational) -> list[Rational]:
        """Positive integers m by which every term of x is divided."""
        found = []
        denominator = math.lcm(*(c.denominator for c in x.num.values()))
        if denominator > 1:
            found.append(const(denominator))
        under = [of_atom(base, -e) for base, e in content(x.num) if isinstance(e, int) and e < 0]
        names = [base for base in under if self.signs.whole(base) and self.sign(base) == POS]
        if len(names) > 1:
            names.append(product(names))
        return found + [name.scale(Fraction(denominator)) for name in names]
