"""Sines, cosines and their inverse functions in normal form: sums of angles, values at known angles, functions of inverse functions."""

from __future__ import annotations

from fractions import Fraction

from hnfc.dsl.soundness.conditions import connect, negation
from hnfc.dsl.soundness.elementary import ElementaryForms
from hnfc.dsl.soundness.signs import NEG, POS
from hnfc.dsl.soundness.term import ONE, ZERO, Atom, Rational, atom, const, of_atom, order

MAX_ANGLES = 4
MAX_ARCS = 4

SINES = {Fraction(0): Fraction(0), Fraction(1, 6): Fraction(1, 4), Fraction(1, 4): Fraction(1, 2), Fraction(1, 3): Fraction(3, 4),
         Fraction(1, 2): Fraction(1)}  # fmt: skip
"""The squares of sin(c·π), by c."""


def _foot(turn: Fraction) -> Fraction:
    """The c from 0 to 1/2 with the same |sin(c·π)|."""
    rest = turn % 1
    return min(rest, 1 - rest)


ARCS = {
    "asin": {Fraction(1): Fraction(1, 2), Fraction(1, 2): Fraction(1, 6)},
    "atan": {Fraction(1): Fraction(1, 4)},
}
"""Arcs at numbers, as multiples of π."""


class Angles(ElementaryForms):
    """Normal forms of circular functions and their inverses."""

    def sin(self, x: Rational) -> Rational:
        """sin(a + b) = sin a·cos b + cos a·sin b, over the few terms of x."""
        turn = self._turn(x)
        if turn is not None:
            return self._sine(turn)
        first, rest = self._first_angle(x)
        if rest.zero:
            both = self._of_arc(x)
            return self.odd("sin", x) if both is None else both[0]
        return self.sin(first) * self.cos(rest) + self.cos(first) * self.sin(rest)

    def cos(self, x: Rational) -> Rational:
        """cos(a + b) = cos a·cos b - sin a·sin b, over the few terms of x."""
        turn = self._turn(x)
        if turn is not None:
            return self._sine(turn + Fraction(1, 2))
        first, rest = self._first_angle(x)
        if rest.zero:
            both = self._of_arc(x)
            return self.even("cos", x) if both is None else both[1]
        return self.cos(first) * self.cos(rest) - self.sin(first) * self.sin(rest)

    @staticmethod
    def _turn(x: Rational) -> Fraction | None:
        """c where x = c·π and the sine is known there."""
        lone = x.single()
        if lone is None or len(lone[0]) != 1 or lone[0][0][0].kind != "pi" or lone[0][0][1] != 1:
            return None
        return Fraction(lone[1]) if (12 * Fraction(lone[1])).denominator == 1 and _foot(Fraction(lone[1])) in SINES else None

    def _sine(self, turn: Fraction) -> Rational:
        """sin(c·π) for a multiple of the quarter and the sixth of a right turn."""
        sign = -1 if turn % 2 > 1 else 1
        square = SINES[_foot(turn)]
        return self.root_power(const(square), Fraction(1, 2)).scale(Fraction(sign))

    @staticmethod
    def _first_angle(x: Rational) -> tuple[Rational, Rational]:
        if not x.polynomial or not 2 <= len(x.num) <= MAX_ANGLES:
            return x, ZERO
        mono = max(x.num, key=order)
        return Rational({mono: x.num[mono]}), Rational({m: c for m, c in x.num.items() if m != mono})

    def _of_arc(self, x: Rational) -> tuple[Rational, Rational] | None:
        """Sine and cosine of a small multiple of one arc: sin asin y = y, cos asin y = √(1 - y²), tan atan y = y."""
        lone = lone_atom(x)
        if lone is None or lone[0].kind not in ("asin", "atan") or lone[1].denominator != 1 or abs(lone[1]) > MAX_ARCS:
            return None
        y: Rational = lone[0].args[0]
        half = Fraction(1, 2)
        if lone[0].kind == "asin":
            sine, cosine = y, self.root_power(ONE - y * y, half)
        else:
            cosine = self.root_power(ONE + y * y, half).inverse()
            sine = y * cosine
        turned = ZERO, ONE
        for _ in range(abs(int(lone[1]))):
            turned = turned[0] * cosine + turned[1] * sine, turned[1] * cosine - turned[0] * sine
        return (turned[0] if lone[1] > 0 else -turned[0]), turned[1]

    def arc(self, kind: str, x: Rational) -> Rational:
        """asin and acos, on [-1, 1]; acos x = π/2 - asin x."""
        self.require(self.relation(">=", ONE - x))
        self.require(self.relation(">=", ONE + x))
        if kind == "asin":
            return self.odd(kind, x)
        lone = lone_atom(x)
        if lone is not None and lone[0].kind == "cos" and lone[1] == 1:
            angle: Rational = lone[0].args[0]
            for turned in (angle, -angle):
                if self._between(turned, ZERO, turns(1)):
                    return turned
        return turns(Fraction(1, 2)) - self.odd("asin", x)

    def odd(self, kind: str, x: Rational) -> Rational:
        """f(-x) = -f(x), f(0) = 0; an arc of its own function is the angle, where that is in range."""
        if kind not in ARCS or x.zero:
            return super().odd(kind, x)
        if x.leading() < 0:
            return -self.odd(kind, -x)
        found = self._angle(kind, x)
        return super().odd(kind, x) if found is None else found

    def _angle(self, kind: str, x: Rational) -> Rational | None:
        """The arc as an angle: asin sin t = t and atan tan t = t for |t| ≤ π/2, asin √a = π/4 - asin(1 - 2a)/2, asin 1/2 = π/6."""
        quarter = Fraction(1, 2)
        c = x.constant()
        if c is not None:
            known = ARCS[kind].get(c)
            return None if known is None else turns(known)
        wave = self._sine_in(kind, x)
        if wave is not None:
            t: Rational = wave.args[0]
            return t if self._between(t, turns(-quarter), turns(quarter)) else None
        square = x * x if is_root(x) else ZERO
        if kind == "asin" and not square.zero and not has_root(square):
            return (turns(quarter) - self.odd(kind, ONE - square.scale(Fraction(2)))).scale(quarter)
        if kind == "atan" and has_root(x):
            sine = x * self.root_power(ONE + x * x, -quarter)
            return self.odd("asin", sine) if is_root(sine) or not has_root(sine) else None
        lone = x.single()
        if kind == "atan" and lone and lone[0] and all(e < 0 for _, e in lone[0]) and self.sign(x) == POS:
            return turns(quarter) - self.odd(kind, x.inverse())
        return None

    def atan2(self, y: Rational, x: Rational) -> Rational:
        """The angle of the point (x, y), by the half plane that it lies in; a function of which nothing is known where that is open."""
        zero = connect("and", self.relation("=", y), self.relation("=", x))
        self.require(negation(zero))
        right = self.decide(self.relation(">", x))
        if right:
            return self.odd("atan", y * x.inverse())
        upright = None if right is None else self.decide(self.relation("=", x))
        above = None if upright is None else self.decide(self.relation(">=", y))
        if above is None:
            return self.opaque("atan2", y, x)
        return turns(Fraction(1 if above else -1, 2)) if upright else self.odd("atan", y * x.inverse()) + turns(1 if above else -1)

    @staticmethod
    def _sine_in(kind: str, x: Rational) -> Atom | None:
        """sin t where x is sin t, or for an arc tangent sin t / cos t."""
        lone = x.single()
        if lone is None or lone[1] != 1:
            return None
        parts = dict(lone[0])
        sines = [base for base, e in parts.items() if base.kind == "sin" and e == 1]
        if len(sines) != 1:
            return None
        wanted = {sines[0]: 1} if kind == "asin" else {sines[0]: 1, atom("cos", *sines[0].args): -1}
        return sines[0] if parts == wanted else None

    def _between(self, t: Rational, low: Rational, high: Rational) -> bool:
        return not self.sign(t - low) & NEG and not self.sign(high - t) & NEG


def turns(c: Fraction | int) -> Rational:
    """c·π"""
    return of_atom(atom("pi")).scale(Fraction(c))


def has_root(x: Rational) -> bool:
    return any(base.kind == "root" for base in x.atoms)


def is_root(x: Rational) -> bool:
    """Return whether x is a product of roots and a number."""
    return x.single() is not None and bool(x.atoms) and all(base.kind == "root" for base in x.atoms)


def lone_atom(x: Rational) -> tuple[Atom, Fraction] | None:
    """(a, c) where x is c·a."""
    lone = x.single()
    return (lone[0][0][0], Fraction(lone[1])) if lone and len(lone[0]) == 1 and lone[0][0][1] == 1 else None
