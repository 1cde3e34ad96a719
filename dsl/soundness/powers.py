"""Real powers in normal form, by cases of the sign of the base: a negative base has whole exponents only, and 0 none below 0."""

from __future__ import annotations

from fractions import Fraction

from hnfc.dsl.soundness.angles import Angles, lone_atom, turns
from hnfc.dsl.soundness.conditions import CaseSplit, NotProved
from hnfc.dsl.soundness.signs import NEG, POS, ZEROS
from hnfc.dsl.soundness.term import ONE, ZERO, Rational, const, of_mono, product


class Powers(Angles):
    """Normal forms of x^y."""

    def pow(self, x: Rational, y: Rational) -> Rational:
        if y.constant() is not None or not self.splittable(x.ixs | y.ixs):
            return super().pow(x, y)
        mask = self.sign(x)
        if mask == POS:
            return super().pow(x, y)
        if mask not in (ZEROS, NEG):
            raise CaseSplit(self.relation(">" if mask & POS else "=", x))
        if mask == ZEROS:
            self.require(self.relation(">=", y))
            if self.decide(self.relation(">", y)):
                return ZERO
            exponent = lone_atom(y)
            if exponent is not None and exponent[0].kind == "cap":
                # a case in which it is put in its place
                raise CaseSplit(self.relation("=", y))
            return ONE
        if self.proving and not self.settled and not self.signs.whole(y):
            raise NotProved("a power on the right side needs a whole exponent, or", self.relation(">", x))
        self.obligations += 1
        if not self.proving:
            self.signs.add_whole(y)
        return self.exp(y * self.log_of(-x)) * self._parity(y)

    def _parity(self, y: Rational) -> Rational:
        """(-1)^y for a whole y: that of a sum is the product of those of its terms, where each is whole."""
        terms = [(of_mono(mono), c) for mono, c in y.num.items()] if y.polynomial else []
        if not all(c.denominator == 1 and (m == ONE or self.signs.whole(m)) for m, c in terms):
            terms = [(y, Fraction(1))]
        return product(self._sign_of_power(m) for m, c in terms if c % 2)

    def _sign_of_power(self, m: Rational) -> Rational:
        """(-1)^m is 1 - 2·[cos πm < 0]."""
        if m == ONE:
            return -ONE
        odd = self.relation(">", -self.cos(m * turns(1)))
        return ONE - self.ite(odd, ONE, ZERO, True) * const(2)
