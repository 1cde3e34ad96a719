"""Rational functions over atoms: exact coefficients, one representation each, so that equal functions are usually equal objects.

An atom is anything that polynomial arithmetic does not look into: an element of a captured tensor, exp of a monomial, log of a
polynomial, a sum over bound indices. Atoms are hash-consed. Exponents are rational on positive atoms (exp, root) and integers
elsewhere; a negative exponent or a denominator stands for a value whose definedness condition (it is not 0) has been dealt
with elsewhere. Arithmetic is modulo √a·√a = a, |a|·|a| = a², sin² = 1 - cos² and p·p = p for indicators.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

from flint import Ordering, fmpq, fmpq_mpoly_ctx

MAX_TERMS = 1500


class TooLarge(Exception):
    """The terms outgrew what is worth computing."""


class Ix(NamedTuple):
    """An index along the axes of one class. kind: `free` (a variable) or `bound` (the canonical name inside a binder)."""

    cls: int
    kind: str
    n: int


class Atom:
    """One node: `kind` says what, `args` hold Rational, Ix tuples and plain values."""

    __slots__ = ("args", "id", "ixs", "kind", "level")
    kind: str
    args: tuple[Any, ...]
    id: int
    ixs: frozenset[Ix]
    level: int

    def __repr__(self) -> str:
        return show_atom(self)


Exponent: TypeAlias = int | Fraction
Mono: TypeAlias = tuple[tuple[Atom, Exponent], ...]
Terms: TypeAlias = dict[Mono, Fraction]

BINDERS = ("sum", "prod", "max", "min")
SPECIAL = frozenset(("root", "abs", "sin", "ind"))

_ATOMS: dict[tuple[Any, ...], Atom] = {}


def reset() -> None:
    """Forgets all atoms; terms made before must not be used afterwards."""
    _ATOMS.clear()


def atom(kind: str, *args: Any) -> Atom:
    key = (kind, args)
    found = _ATOMS.get(key)
    if found is not None:
        return found
    new = Atom()
    new.kind, new.args, new.id = kind, args, len(_ATOMS)
    ixs: set[Ix] = set()
    level = 0
    for arg in args:
        if isinstance(arg, Rational | Cond):
            ixs |= arg.ixs
            level = max(level, arg.level)
        elif isinstance(arg, tuple) and kind not in BINDERS:
            ixs |= {i for i in arg if isinstance(i, Ix)}
    if kind in BINDERS:
        bound = args[0]
        ixs -= set(bound)
        level += 1
    new.ixs, new.level = frozenset(ixs), level
    _ATOMS[key] = new
    return new


# Polynomials ---------------------------------------------------------------------------------------------------------


def _tidy(exponent: Exponent) -> Exponent:
    return int(exponent) if isinstance(exponent, Fraction) and exponent.denominator == 1 else exponent


def mono_mul(a: Mono, b: Mono) -> Mono:
    if not a:
        return b
    if not b:
        return a
    powers: dict[Atom, Exponent] = dict(a)
    for base, exponent in b:
        powers[base] = powers.get(base, 0) + exponent
    return tuple(sorted(((x, _tidy(e)) for x, e in powers.items() if e != 0), key=lambda p: p[0].id))


def mono_pow(a: Mono, exponent: Exponent) -> Mono:
    return tuple((x, _tidy(e * exponent)) for x, e in a)


def _canonical_power(base: Atom, e: Exponent) -> bool:
    match base.kind:
        case "root":
            return 0 < e < 1
        case "abs" | "ind":
            return e == 1
        case "sin":
            return e < 2
    return True


def _good(mono: Mono) -> bool:
    return all(base.kind not in SPECIAL or _canonical_power(base, e) for base, e in mono)


def order(mono: Mono) -> tuple[Any, ...]:
    return tuple((base.id, e) for base, e in mono)


def _raw_mul(a: Terms, b: Terms) -> Terms:
    if len(a) * len(b) > 40 * MAX_TERMS:
        raise TooLarge("too many terms")
    result: Terms = {}
    for m, c in a.items():
        for n, d in b.items():
            key = mono_mul(m, n)
            value = result.get(key, Fraction(0)) + c * d
            if value:
                result[key] = value
            else:
                result.pop(key, None)
    if len(result) > MAX_TERMS:
        raise TooLarge("too many terms")
    return result


def _raw_add(a: Terms, b: Terms) -> Terms:
    result = dict(a)
    for m, c in b.items():
        value = result.get(m, Fraction(0)) + c
        if value:
            result[m] = value
        else:
            result.pop(m, None)
    return result


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
    def ixs(self) -> frozenset[Ix]:
        return frozenset(i for base in self.atoms for i in base.ixs)

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
            return ratio(_raw_add(self.num, other.num), self.den) if not self.polynomial else Rational(_raw_add(self.num, other.num))
        num = _reduce(_raw_add(_raw_mul(self.num, other.den), _raw_mul(other.num, self.den)))
        return _over(num, _reduce(_raw_mul(self.den, other.den)))

    def __neg__(self) -> Rational:
        return Rational({m: -c for m, c in self.num.items()}, self.den)

    def __sub__(self, other: Rational) -> Rational:
        return self + -other

    def __mul__(self, other: Rational) -> Rational:
        if not self.num or not other.num:
            return ZERO
        num = _reduce(_raw_mul(self.num, other.num))
        if self.polynomial and other.polynomial:
            return num
        return _over(num, _reduce(_raw_mul(self.den, other.den)))

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
        if lone and _good(power := mono_pow(lone[0], n)):
            return Rational({power: lone[1] ** n})
        result = ONE
        for _ in range(n):
            result = result * self
        return result

    def __repr__(self) -> str:
        return show(self)


ZERO = Rational({})
ONE = Rational(_UNIT)


def const(value: Fraction | int) -> Rational:
    return Rational({(): Fraction(value)}) if value else ZERO


def of_atom(base: Atom, exponent: Exponent = 1) -> Rational:
    mono: Mono = ((base, _tidy(exponent)),)
    return Rational({mono: Fraction(1)}) if _good(mono) else _expand(mono)


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
    bad = [m for m in terms if not _good(m)]
    if not bad:
        return Rational(terms)
    result = Rational({m: c for m, c in terms.items() if _good(m)})
    for m in bad:
        result = result + _expand(m).scale(terms[m])
    return result


def _expand(mono: Mono) -> Rational:
    result = Rational({tuple((x, e) for x, e in mono if x.kind not in SPECIAL or _canonical_power(x, e)): Fraction(1)})
    for base, e in mono:
        if base.kind not in SPECIAL or _canonical_power(base, e):
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


def content(terms: Terms) -> Mono:
    """The largest monomial (least exponent of each atom, with its sign) that divides every term."""
    least: dict[Atom, Exponent] | None = None
    for mono in terms:
        powers = dict(mono)
        if least is None:
            least = powers
            continue
        for base in set(least) | set(powers):
            least[base] = min(least.get(base, 0), powers.get(base, 0))
    return tuple(sorted(((x, e) for x, e in (least or {}).items() if e != 0), key=lambda p: p[0].id))


def _over(num: Rational, den: Rational) -> Rational:
    if num.polynomial and den.polynomial:
        return ratio(num.num, den.num)
    return ratio_of(num, den)


def ratio_of(num: Rational, den: Rational) -> Rational:
    top = _reduce(_raw_mul(num.num, den.den))
    bottom = _reduce(_raw_mul(num.den, den.num))
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
        top, bottom = _reduce(_raw_mul(num, inverse)), Rational(_raw_mul(den, inverse))
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


# flint does gcd and factorization ---------------------------------------------------------------------------------------


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
            mono = tuple((x, _tidy(Fraction(int(e), self.scale[x]))) for x, e in zip(self.atoms, exponents, strict=True) if e)
            result[mono] = Fraction(int(c.p), int(c.q))
        return result


def _lowered(terms: Terms) -> tuple[Mono, Terms]:
    """(monomial, polynomial without negative exponents) whose product is `terms`."""
    common = content(terms)
    return common, (_raw_mul(terms, {mono_pow(common, -1): Fraction(1)}) if common else terms)


def cancel(num: Terms, den: Terms) -> tuple[Terms, Terms]:
    """num and den without their common polynomial factor."""
    common, lowered = _lowered(num)
    frame = _Frame(lowered, den)
    if not frame.atoms:
        return num, den
    a, b = frame.enter(lowered), frame.enter(den)
    g = a.gcd(b)
    if g.total_degree() == 0:
        return num, den
    return _raw_mul(frame.leave(a / g), {common: Fraction(1)}), frame.leave(b / g)


def factor(terms: Terms) -> tuple[Fraction, Mono, list[tuple[Terms, int]]]:
    """coefficient, monomial and primitive irreducible factors with multiplicity; each factor's leading coefficient is positive."""
    common, lowered = _lowered(terms)
    if len(lowered) == 1:
        return next(iter(lowered.values())), common, []
    frame = _Frame(lowered)
    unit, factors = frame.enter(lowered).factor()
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


# Conditions -----------------------------------------------------------------------------------------------------------


class Cond:
    """A truth value: kind `true false > >= = cap and or not`; a comparison is of a Rational with 0."""

    __slots__ = ("args", "ixs", "kind", "level")

    def __init__(self, kind: str, *args: Any) -> None:
        self.kind, self.args = kind, args
        ixs: set[Ix] = set()
        level = 0
        for arg in args:
            if isinstance(arg, Rational | Cond):
                ixs |= arg.ixs
                level = max(level, arg.level)
            elif isinstance(arg, tuple):
                ixs |= {i for i in arg if isinstance(i, Ix)}
        self.ixs, self.level = frozenset(ixs), level

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Cond) and self.kind == other.kind and self.args == other.args

    def __hash__(self) -> int:
        return hash((self.kind, self.args))

    def __repr__(self) -> str:
        if self.kind in (">", ">=", "="):
            return f"{self.args[0]} {self.kind.replace('>=', '≥')} 0"
        if self.kind == "not":
            inner = self.args[0]
            flipped = {">": "≤", ">=": "<", "=": "≠"}.get(inner.kind)
            return f"{inner.args[0]} {flipped} 0" if flipped else f"¬({inner})"
        if self.kind == "cap":
            return str(self.args[0])
        return f" {self.kind} ".join(f"({a})" for a in self.args) if self.args else self.kind


TRUE, FALSE = Cond("true"), Cond("false")


# Text -----------------------------------------------------------------------------------------------------------------


def show_atom(base: Atom) -> str:
    def index(ixs: Iterable[Ix]) -> str:
        return ",".join(
            ("ijkpqrst"[i.cls % 8] if i.kind == "free" else "abcdefgh"[i.n % 8]) + str(i.n if i.kind == "free" else i.cls) for i in ixs
        )

    match base.kind:
        case "cap":
            return f"{base.args[0]}[{index(base.args[1])}]" if base.args[1] else str(base.args[0])
        case "size":
            return f"n{base.args[0]}"
        case "sum" | "prod" | "max" | "min":
            sign = {"sum": "Σ", "prod": "Π"}.get(base.kind, base.kind)
            return f"{sign}_{index(base.args[0])}({base.args[1]})"
        case "abs":
            return f"|{base.args[0]}|"
        case "ind":
            return f"[{base.args[0]}]"
        case "root":
            return f"({base.args[0]})"
    return f"{base.kind}({', '.join(map(str, base.args))})"


def _show_terms(terms: Terms) -> str:
    parts = []
    for mono, c in sorted(terms.items(), key=lambda p: order(p[0]), reverse=True):
        factors = "·".join(f"{x}" if e == 1 else f"{x}^{e}" if isinstance(e, int) and e > 0 else f"{x}^({e})" for x, e in mono)
        text = str(abs(c)) if not factors else factors if abs(c) == 1 else f"{abs(c)}·{factors}"
        parts.append(("-" if c < 0 else "+" if parts else "") + text)
    return " ".join(parts) if parts else "0"


def show(x: Rational) -> str:
    text = _show_terms(x.num)
    return text if x.polynomial else f"({text})/({_show_terms(x.den)})"
