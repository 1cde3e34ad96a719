"""Rational functions over atoms: exact coefficients, one representation each, so that equal functions are usually equal objects.

A negative exponent or a denominator stands for a value whose definedness condition (it is not 0) has been dealt with elsewhere.
Arithmetic is modulo √a·√a = a, |a|·|a| = a², sin² = 1 - cos² and p·p = p for indicators.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from functools import cached_property
from typing import Any

from hnfc.dsl.notation import NEGATED
from hnfc.dsl.polynomials import Exponent, added, whole
from hnfc.dsl.soundness.factoring import cancel, factor, primitive_coefficient
from hnfc.dsl.soundness.monomial import (
    SPECIAL,
    Atom,
    ComputedIndex,
    Index,
    Mono,
    Place,
    Places,
    Terms,
    TooLarge,
    atom,
    canonical_power,
    content,
    good,
    mono_pow,
    order,
    raw_mul,
    reset,
    show_terms,
)

_UNIT: Terms = {(): Fraction(1)}


class Rational:
    """num/den in lowest terms; den has leading coefficient 1 and no monomial factor, and is 1 where it would be a monomial."""

    __slots__ = ("__dict__", "den", "num")

    def __init__(self, num: Terms, den: Terms = _UNIT) -> None:
        self.num, self.den = num, den

    @cached_property
    def key(self) -> tuple[Any, Any]:
        return frozenset(self.num.items()), frozenset(self.den.items())

    @cached_property
    def _hash(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Rational) and self._hash == other._hash and self.key == other.key

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def atoms(self) -> frozenset[Atom]:
        return frozenset(base for terms in (self.num, self.den) for mono in terms for base, _ in mono)

    @cached_property
    def ixs(self) -> frozenset[Index]:
        return frozenset(i for base in self.atoms for i in base.ixs)

    @cached_property
    def places(self) -> frozenset[ComputedIndex]:
        return frozenset(place for base in self.atoms for place in base.places)

    @cached_property
    def level(self) -> int:
        return max((base.level for base in self.atoms), default=0)

    @property
    def polynomial(self) -> bool:
        return len(self.den) == 1

    @property
    def zero(self) -> bool:
        return not self.num

    def constant(self) -> Fraction | None:
        if not self.num:
            return Fraction(0)
        return self.num.get(()) if len(self.num) == 1 and self.polynomial else None

    def single(self) -> tuple[Mono, Fraction] | None:
        """(monomial, coefficient) where that is all there is."""
        return next(iter(self.num.items())) if len(self.num) == 1 and self.polynomial else None

    def leading(self) -> Fraction:
        return self.num[max(self.num, key=order)]

    def __add__(self, other: Rational) -> Rational:
        if self.den == other.den:
            return ratio(added(self.num, other.num), self.den) if not self.polynomial else Rational(added(self.num, other.num))
        num = _reduce(added(raw_mul(self.num, other.den), raw_mul(other.num, self.den)))
        return _over(num, _reduce(raw_mul(self.den, other.den)))

    def __neg__(self) -> Rational:
        return Rational({m: -c for m, c in self.num.items()}, self.den)

    def __sub__(self, other: Rational) -> Rational:
        return self + -other

    def __mul__(self, other: Rational) -> Rational:
        if not self.num or not other.num:
            return ZERO
        num = _reduce(raw_mul(self.num, other.num))
        if self.polynomial and other.polynomial:
            return num
        return _over(num, _reduce(raw_mul(self.den, other.den)))

    def inverse(self) -> Rational:
        """1/self; the caller answers for self ≠ 0."""
        if not self.num:
            raise ZeroDivisionError
        return _over(Rational(self.den), Rational(self.num))

    def __truediv__(self, other: Rational) -> Rational:
        return self * other.inverse()

    def scale(self, c: Fraction) -> Rational:
        return Rational({m: c * d for m, d in self.num.items()}, self.den) if c else ZERO

    def power(self, n: int) -> Rational:
        if n < 0:
            return self.inverse().power(-n)
        if n > 64:
            raise TooLarge("a high power")
        lone = self.single()
        if lone and good(power := mono_pow(lone[0], n)):
            return Rational({power: lone[1] ** n})
        result = ONE
        for _ in range(n):
            result = result * self
        return result

    def __repr__(self) -> str:
        text = show_terms(self.num)
        return text if self.polynomial else f"({text})/({show_terms(self.den)})"


ZERO = Rational({})

ONE = Rational(_UNIT)


def const(value: Fraction | int) -> Rational:
    return Rational({(): Fraction(value)}) if value else ZERO


def of_atom(base: Atom, exponent: Exponent = 1) -> Rational:
    mono: Mono = ((base, whole(exponent)),)
    return Rational({mono: Fraction(1)}) if good(mono) else _expand(mono)


def of_mono(mono: Mono, c: Fraction | int = 1) -> Rational:
    return _reduce({mono: Fraction(c)})


def of_terms(terms: Terms) -> Rational:
    return _reduce(terms)


def total(parts: Iterable[Rational]) -> Rational:
    result = ZERO
    for part in parts:
        result = result + part
    return result


def product(parts: Iterable[Rational]) -> Rational:
    result = ONE
    for part in parts:
        result = result * part
    return result


def _reduce(terms: Terms) -> Rational:
    """The polynomial with every power of a special atom brought into its canonical range."""
    bad = [m for m in terms if not good(m)]
    if not bad:
        return Rational(terms)
    result = Rational({m: c for m, c in terms.items() if good(m)})
    for m in bad:
        result = result + _expand(m).scale(terms[m])
    return result


def _expand(mono: Mono) -> Rational:
    result = Rational({tuple((x, e) for x, e in mono if x.kind not in SPECIAL or canonical_power(x, e)): Fraction(1)})
    for base, e in mono:
        if base.kind not in SPECIAL or canonical_power(base, e):
            continue
        match base.kind:
            case "root":  # (a^(1/q))^e for a ≥ 0
                whole = math.floor(e)
                result = result * base.args[0].power(whole)
                if e != whole:
                    result = result * Rational({((base, e - whole),): Fraction(1)})
            case "abs":  # |a|² = a²
                odd = int(e) % 2
                result = result * base.args[0].power(int(e) - odd)
                if odd:
                    result = result * Rational({((base, 1),): Fraction(1)})
            case "sin":  # sin² = 1 - cos²
                cos = atom("cos", *base.args)
                result = result * (ONE - of_atom(cos, 2)).power(int(e) // 2)
                if int(e) % 2:
                    result = result * Rational({((base, 1),): Fraction(1)})
            case "ind":
                if e < 0:
                    raise TooLarge("division by a truth value")
                result = result * Rational({((base, 1),): Fraction(1)})
    return result


def _over(num: Rational, den: Rational) -> Rational:
    if num.polynomial and den.polynomial:
        return ratio(num.num, den.num)
    return ratio_of(num, den)


def ratio_of(num: Rational, den: Rational) -> Rational:
    top = _reduce(raw_mul(num.num, den.den))
    bottom = _reduce(raw_mul(num.den, den.num))
    if top.polynomial and bottom.polynomial:
        return ratio(top.num, bottom.num)
    raise TooLarge("nested radicals")


def ratio(num: Terms, den: Terms) -> Rational:
    """num/den in canonical form; the caller answers for den ≠ 0."""
    if not num:
        return ZERO
    if not den:
        raise ZeroDivisionError
    common = content(den)
    if common:
        inverse: Terms = {mono_pow(common, -1): Fraction(1)}
        top, bottom = _reduce(raw_mul(num, inverse)), Rational(raw_mul(den, inverse))
        return _over(top, bottom) if top.polynomial else ratio_of(top, bottom)
    if len(den) == 1:
        return Rational({m: c / den[()] for m, c in num.items()})
    shared = {x for m in num for x, _ in m} & {x for m in den for x, _ in m}
    if shared:
        num, den = cancel(num, den)
    lead = den[max(den, key=order)]
    if len(den) == 1:
        return ratio(num, den)
    return Rational({m: c / lead for m, c in num.items()}, {m: c / lead for m, c in den.items()})


class Proposition:
    """A truth value: kind `true false > >= = cap and or not`; a comparison is of a Rational with 0."""

    __slots__ = ("args", "ixs", "kind", "level", "places")
    kind: str
    args: tuple[Any, ...]
    ixs: frozenset[Index]
    level: int
    places: frozenset[ComputedIndex]

    def __init__(self, kind: str, *args: Any) -> None:
        self.kind, self.args = kind, args
        ixs: set[Index] = set()
        places: set[ComputedIndex] = set()
        level = 0
        for arg in args:
            if isinstance(arg, Rational | Proposition):
                ixs |= arg.ixs
                places |= arg.places
                level = max(level, arg.level)
            elif isinstance(arg, tuple):
                ixs |= {i for i in arg if isinstance(i, Index)}
                for place in arg:
                    if isinstance(place, ComputedIndex):
                        ixs |= place.term.ixs
                        places |= {place, *place.term.places}
        self.ixs, self.level, self.places = frozenset(ixs), level, frozenset(places)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Proposition) and self.kind == other.kind and self.args == other.args

    def __hash__(self) -> int:
        return hash((self.kind, self.args))

    def __repr__(self) -> str:
        if self.kind in (">", ">=", "="):
            return f"{self.args[0]} {self.kind.replace('>=', '≥')} 0"
        if self.kind == "not":
            inner = self.args[0]
            flipped = NEGATED.get(inner.kind.replace(">=", "≥"))
            return f"{inner.args[0]} {flipped} 0" if flipped else f"¬({inner})"
        if self.kind == "cap":
            return str(self.args[0])
        return f" {self.kind} ".join(f"({a})" for a in self.args) if self.args else self.kind


TRUE, FALSE = Proposition("true"), Proposition("false")


__all__ = [
    "FALSE", "ONE", "TRUE", "ZERO", "Atom", "ComputedIndex", "Exponent", "Index", "Mono", "Place", "Places", "Proposition", "Rational",
    "Terms", "TooLarge",
    "atom", "const", "content", "factor", "mono_pow", "of_atom", "of_mono", "of_terms", "order", "primitive_coefficient", "product",
    "reset", "total",
]  # fmt: skip
