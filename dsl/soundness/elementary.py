"""Constructors that bring elementary functions into normal form, under the facts of one case of a proof.

Each is an identity of real analysis, named where it is used. Where an identity needs a sign, it is taken only if the sign is known.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from fractions import Fraction

from flint import fmpz

from hnfc.dsl.soundness.conditions import CaseSplit, Judge, NotProved, negation
from hnfc.dsl.soundness.signs import NEG, NONPOS, POS, ZEROS, Contradiction, flip
from hnfc.dsl.soundness.term import (
    ONE,
    ZERO,
    Exponent,
    Index,
    Place,
    Proposition,
    Rational,
    TooLarge,
    atom,
    const,
    factor,
    of_atom,
    of_mono,
    primitive_coefficient,
)


class ElementaryForms(Judge):
    """Normal forms of pointwise functions."""

    @abstractmethod
    def sum(self, ixs: Sequence[Index], body: Rational) -> Rational:
        """The normal form of a sum: see reductions.py."""

    def capture(self, name: str, places: tuple[Place, ...]) -> Rational:
        base = atom("cap", name, places)
        known = self.subst.get(base)
        return of_atom(base) if known is None else known

    def divide(self, x: Rational, y: Rational) -> Rational:
        self.require(negation(self.relation("=", y)))
        if y.zero:
            raise Contradiction
        return x * y.inverse()

    def exp(self, x: Rational) -> Rational:
        """exp(a + b) = exp(a)·exp(b), exp(c·log a) = a^c; exp(m) of a monomial m is an atom with rational exponents."""
        result = ONE
        for mono, c in x.num.items():
            if x.polynomial and len(mono) == 1 and mono[0][0].kind == "log" and mono[0][1] == 1:
                result = result * self.root_power(mono[0][0].args[0], c)
            elif x.polynomial:
                result = result * of_atom(atom("exp", Rational({mono: Fraction(1)})), c)
            else:
                part = of_mono(mono) * Rational({(): Fraction(1)}, x.den)
                scale = primitive_coefficient(part.num)
                result = result * of_atom(atom("exp", part.scale(1 / scale)), c * scale)
        return result

    def log(self, x: Rational) -> Rational:
        self.require(self.relation(">", x))
        return self.log_of(x)

    def log_of(self, x: Rational) -> Rational:
        """log(ab) = log a + log b for positive factors; what has no known sign stays together."""
        if x.zero:
            raise Contradiction
        result, sign, open_parts = ZERO, 1, ONE
        for base, exponent in self.factored(x):
            c = base.constant()
            if c is not None:
                if c < 0:
                    sign = -sign
                result = result + log_rational(abs(c)).scale(Fraction(exponent))
                continue
            mask = self.sign(base)
            if mask == NEG and isinstance(exponent, int):
                base, mask = -base, POS
                sign = -sign if exponent % 2 else sign
            if mask == POS:
                result = result + self.log_atom(base).scale(Fraction(exponent))
            elif isinstance(exponent, int):
                open_parts = open_parts * base.power(exponent)
            else:
                open_parts = open_parts * of_atom(next(iter(base.atoms)), exponent)
        open_parts = open_parts.scale(Fraction(sign))
        if open_parts == ONE:
            return result
        if open_parts.constant() is not None:
            raise Contradiction
        scale = abs(primitive_coefficient(open_parts.num))
        return result + log_rational(scale) + of_atom(atom("log", open_parts.scale(1 / scale)))

    def log_atom(self, base: Rational) -> Rational:
        """log of a positive factor: log exp a = a, log √a = ½ log a, log Π = Σ log."""
        lone = base.single()
        if lone and len(lone[0]) == 1 and lone[1] == 1:
            (inner, e) = lone[0][0]
            if inner.kind == "exp":
                exponent: Rational = inner.args[0]
                return exponent.scale(Fraction(e))
            if inner.kind == "root":
                return self.log_of(inner.args[0]).scale(Fraction(e))
            if inner.kind == "prod" and not self.sign(inner.args[1]) & NONPOS:
                return self.sum(inner.args[0], self.log_of(inner.args[1]))
        return of_atom(atom("log", base))

    def factored(self, x: Rational) -> list[tuple[Rational, Exponent]]:
        """x as a product of powers of constants, atoms and irreducible polynomials."""
        parts: list[tuple[Rational, Exponent]] = []
        for terms, sign in ((x.num, 1), (x.den, -1)):
            if terms == ONE.num:
                continue
            c, mono, polynomials = factor(terms)
            parts.append((const(c), sign))
            for base, e in mono:
                lone = Rational({((base, 1),): Fraction(1)})
                parts.append((lone, sign * e))
            parts += [(Rational(polynomial), sign * m) for polynomial, m in polynomials]
        return [(base, e) for base, e in parts if base != ONE]

    def sqrt(self, x: Rational) -> Rational:
        self.require(self.relation(">=", x))
        return self.root_power(x, Fraction(1, 2))

    def root_power(self, x: Rational, c: Fraction) -> Rational:
        """x^c for x ≥ 0 (x > 0 if c < 0): (ab)^c = a^c·b^c for nonnegative factors, (a²)^c = |a|^(2c)."""
        if c.denominator == 1:
            return x.power(int(c)) if abs(c) <= 64 else of_atom(atom("powc", x, c))
        if x.zero:
            return ZERO
        result, negative = ONE, False
        open_parts: list[tuple[Rational, Exponent, int]] = []
        for base, e in self.factored(x):
            exponent = Fraction(e) * c
            value = base.constant()
            if value is not None:
                negative ^= value < 0
                result = result * power_of_rational(abs(value), exponent)
                continue
            only = next(iter(base.atoms)) if base.single() and len(base.atoms) == 1 else None
            if only is not None and only.kind in ("root", "exp"):
                result = result * of_mono(((only, exponent),))
                continue
            mask = self.sign(base)
            if isinstance(e, int) and e % 2 == 0:
                mask = power_sign(mask, e)
            elif isinstance(e, int) and not mask & POS:
                base, mask, negative = -base, flip(mask), not negative
            open_parts.append((base, e, mask))
        all_known = not any(mask & NEG for _, _, mask in open_parts)
        together = ONE
        for base, e, mask in open_parts:
            if mask == POS or (all_known and not negative):
                result = result * self._power_of_factor(base, e, Fraction(e) * c)
            else:
                together = together * base.power(int(e))
        if negative:
            together = -together
        if together == ONE:
            return result
        if together.constant() is not None:
            raise TooLarge("a root of a negative number")
        return result * of_mono(((atom("root", together), c),))

    def _power_of_factor(self, base: Rational, e: Exponent, exponent: Fraction) -> Rational:
        """(base^e)^(exponent/e) for base^e ≥ 0: an even e leaves |base|."""
        if isinstance(e, int) and e % 2 == 0:
            base = self.abs(base)
        if exponent.denominator == 1:
            return base.power(int(exponent))
        return of_mono(((atom("root", base), exponent),))

    def pow(self, x: Rational, y: Rational) -> Rational:
        """x^y: a power for integer y, a root for rational y and x ≥ 0, exp(y·log x) for x > 0, and otherwise only itself."""
        c = y.constant()
        if c is not None and c.denominator == 1 and abs(c) <= 64:
            if c < 0:
                self.require(negation(self.relation("=", x)))
                if x.zero:
                    raise Contradiction
            return x.power(int(c))
        if c is not None and c.denominator > 1:
            self.require(self.relation(">=" if c > 0 else ">", x))
            return self.root_power(x, c)
        if self.sign(x) == POS:
            return self.exp(y * self.log_of(x))
        if self.proving and not self.settled and (x, y) not in self.defined_powers:
            raise NotProved("a power on the right side needs", self.relation(">", x))
        if not self.guards and not self.bound:
            self.defined_powers.add((x, y))
        self.obligations += 1
        return of_atom(atom("pow", x, y))

    def abs(self, x: Rational) -> Rational:
        mask = self.sign(x)
        if not mask & NEG:
            return x
        if not mask & POS:
            return -x
        if self.splittable(x.ixs):
            raise CaseSplit(self.relation(">=", x if primitive_coefficient(x.num) > 0 else -x))
        result = ONE
        for base, e in self.factored(x):
            value = base.constant()
            if value is not None:
                result = result.scale(abs(value) ** int(e))
                continue
            known = self.sign(base)
            if not known & NEG:
                part = base
            elif not known & POS:
                part = -base
            elif isinstance(e, int):
                part = of_mono(((atom("abs", base), e),))
                result = result * part
                continue
            else:
                part = base
            result = result * (part.power(int(e)) if isinstance(e, int) else of_mono(((next(iter(part.atoms)), e),)))
        return result

    def maximum(self, x: Rational, y: Rational) -> Rational:
        """max(x, y) = (x + y + |x - y|)/2."""
        return (x + y + self.abs(x - y)).scale(Fraction(1, 2))

    def minimum(self, x: Rational, y: Rational) -> Rational:
        return (x + y - self.abs(x - y)).scale(Fraction(1, 2))

    def odd(self, kind: str, x: Rational) -> Rational:
        """f(-x) = -f(x), f(0) = 0."""
        if x.zero:
            return ZERO
        if x.leading() < 0:
            return -of_atom(atom(kind, -x))
        return of_atom(atom(kind, x))

    def even(self, kind: str, x: Rational) -> Rational:
        """f(-x) = f(x), f(0) = 1."""
        if x.zero:
            return ONE
        return of_atom(atom(kind, -x if x.leading() < 0 else x))

    def opaque(self, kind: str, *xs: Rational) -> Rational:
        return of_atom(atom(kind, *xs))

    def lgamma(self, x: Rational) -> Rational:
        """Defined for x > 0, and (not used here) at negative non-integers."""
        if self.sign(x) != POS and not self.settled and (x, ZERO) not in self.defined_powers:
            if self.proving:
                raise NotProved("a logarithm of Γ on the right side needs", self.relation(">", x))
            if not self.guards and not self.bound:
                self.defined_powers.add((x, ZERO))
        self.obligations += 1
        return of_atom(atom("lgamma", x))

    def ite(self, cond: Proposition, x: Rational, y: Rational, linear: bool) -> Rational:
        """[p]·x + (1 - [p])·y where both branches are defined anyway."""
        if x == y or cond.kind == "true":
            return x
        if cond.kind == "false":
            return y
        if cond.kind == "not":
            return self.ite(cond.args[0], y, x, linear)
        if linear:
            ind = of_atom(atom("ind", cond))
            return ind * x + (ONE - ind) * y
        return of_atom(atom("ite", cond, x, y))


def power_sign(mask: int, e: Exponent) -> int:
    if isinstance(e, int) and e % 2 == 0:
        return (POS if mask & ~ZEROS else 0) | (mask & ZEROS)
    return mask


def prime_powers(n: int) -> list[tuple[int, int]]:
    """The factorization of n by trial division with small primes; what is left and large stays whole."""
    return [(int(p), int(k)) for p, k in fmpz(n).factor(trial_limit=168)]


def log_rational(c: Fraction) -> Rational:
    """log of a positive rational as a combination of logs of primes."""
    result = ZERO
    for n, sign in ((c.numerator, 1), (c.denominator, -1)):
        for p, e in prime_powers(n):
            result = result + of_atom(atom("log", const(p))).scale(Fraction(sign * e))
    return result


def power_of_rational(c: Fraction, e: Fraction) -> Rational:
    """c^e for a nonnegative rational, as a product of roots of primes."""
    if c == 0:
        return ZERO
    result = ONE
    for n, sign in ((c.numerator, 1), (c.denominator, -1)):
        for p, k in prime_powers(n):
            whole = sign * k * e
            if whole.denominator == 1:
                result = result.scale(Fraction(p) ** int(whole))
            else:
                below = math.floor(whole)
                result = result * of_mono(((atom("root", const(p)), whole - below),), Fraction(p) ** below)
    return result
