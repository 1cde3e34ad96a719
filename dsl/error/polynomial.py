"""Polynomials over atoms with exact coefficients: the terms that error formulas are made of.

An atom is what polynomial arithmetic does not look into: an element of a captured tensor, a function of other polynomials, a sum along
axes. Exponents are rational; a fractional one stands for a power of a value that is not negative. A product of two sums is not
multiplied out: a sum becomes an atom `base` of its own, so that (x - m)² prints as it is written.

Equality is that of functions on the points where both are defined: x/x is 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from fractions import Fraction
from functools import cached_property
from typing import Any, TypeAlias

from hnfc.dsl.polynomials import Exponent, added, rational_root, summed_exponents, whole

MAX_TERMS = 400
MAX_KEY = 60_000
BINDING = frozenset(("sum", "prod", "max", "min", "matmul", "conv", "move"))
"""Kinds of atoms whose parts are of other elements than the one in view."""


class TooLong(Exception):
    """A formula outgrew what anybody would read."""


class ErrorAtom:
    """One function or value. `key` names it: atoms with one key are equal. `vary`: what its size along each axis depends on."""

    __slots__ = ("args", "key", "kind", "like", "size", "vary")
    kind: str
    args: tuple[Any, ...]
    key: str
    size: int
    vary: Mapping[Any, frozenset[Any]]
    like: Any

    def __init__(self, kind: str, args: tuple[Any, ...], vary: Mapping[Any, frozenset[Any]], like: Any = None) -> None:
        self.kind, self.args, self.vary, self.like = kind, args, vary, like
        self.key = f"{kind}({','.join(_key(a) for a in args)})"
        self.size = max(1, _size(args) + (kind not in ("base", "var", "size")))
        if len(self.key) > MAX_KEY:
            raise TooLong("a formula is too long")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ErrorAtom) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __lt__(self, other: ErrorAtom) -> bool:
        return self.key < other.key

    def __repr__(self) -> str:
        return self.key


def _key(value: Any) -> str:
    if isinstance(value, Poly | ErrorAtom):
        return value.key
    if isinstance(value, tuple):
        return f"[{','.join(map(_key, value))}]"
    if isinstance(value, frozenset):
        return f"{{{','.join(sorted(map(_key, value)))}}}"
    return repr(value)


def _size(value: Any) -> int:
    """Length for a reader: the atoms and terms at every depth."""
    if isinstance(value, Poly):
        return value.size
    return sum(map(_size, value)) if isinstance(value, tuple) else 0


Mono: TypeAlias = tuple[tuple[ErrorAtom, Exponent], ...]


class Poly:
    """Σ c·Π atom^e. The zero polynomial has no terms."""

    __slots__ = ("__dict__", "terms")

    def __init__(self, terms: dict[Mono, Fraction]) -> None:
        self.terms = terms
        if len(terms) > MAX_TERMS:
            raise TooLong("a formula has too many terms")

    @cached_property
    def key(self) -> str:
        parts = [f"{c}*{'*'.join(f'{a.key}^{e}' for a, e in mono)}" for mono, c in self.terms.items()]
        return "+".join(sorted(parts))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Poly) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __repr__(self) -> str:
        return self.key or "0"

    @property
    def zero(self) -> bool:
        return not self.terms

    def constant(self) -> Fraction | None:
        if not self.terms:
            return Fraction(0)
        return self.terms.get(()) if len(self.terms) == 1 else None

    def single(self) -> tuple[Mono, Fraction] | None:
        """(monomial, coefficient) where that is all there is."""
        return next(iter(self.terms.items())) if len(self.terms) == 1 else None

    @cached_property
    def size(self) -> int:
        return sum(1 + sum(a.size + (e != 1) for a, e in mono) for mono in self.terms)

    @cached_property
    def atoms(self) -> frozenset[ErrorAtom]:
        return frozenset(a for mono in self.terms for a, _ in mono)

    @cached_property
    def vary(self) -> dict[Any, frozenset[Any]]:
        """axis → the captures' axes that the size there depends on; an axis that is absent has size 1."""
        return joined(a.vary for a in self.atoms)

    def __add__(self, other: Poly) -> Poly:
        return Poly(added(self.terms, other.terms))

    def __neg__(self) -> Poly:
        return self.scale(Fraction(-1))

    def __sub__(self, other: Poly) -> Poly:
        return self + -other

    def scale(self, c: Fraction | int) -> Poly:
        return Poly({mono: d * c for mono, d in self.terms.items()}) if c else ZERO

    def __mul__(self, other: Poly) -> Poly:
        if not self.terms or not other.terms:
            return ZERO
        if self.constant() is not None or other.constant() is not None:
            return multiplied(self, other)
        return multiplied(as_base(self), as_base(other))


def joined(varies: Iterable[Mapping[Any, frozenset[Any]]]) -> dict[Any, frozenset[Any]]:
    """The shape of a pointwise operation on tensors of these shapes."""
    result: dict[Any, frozenset[Any]] = {}
    for vary in varies:
        for axis, members in vary.items():
            result[axis] = result.get(axis, frozenset()) | members
    return result


ZERO, ONE = Poly({}), Poly({(): Fraction(1)})


def const(value: Fraction | int) -> Poly:
    return Poly({(): Fraction(value)}) if value else ZERO


def of_atom(atom: ErrorAtom, exponent: Exponent = 1) -> Poly:
    return of_mono({atom: exponent})


def of_mono(powers: Mapping[ErrorAtom, Exponent], c: Fraction | int = 1) -> Poly:
    """c·Π atom^e in normal form: |p|² is p², a sign squared is 1, conditions that exclude each other make 0."""
    if not c:
        return ZERO
    found: dict[ErrorAtom, Exponent] = {a: whole(e) for a, e in powers.items() if e}
    for atom in [a for a in found if a.kind in ("abs", "sign", "ind")]:
        match atom.kind:
            case "ind":
                found[atom] = 1
                if any(other.kind == "ind" and excluded(atom, other) for other in found):
                    return ZERO
            case "abs":
                _merge_absolute(found, atom)
    for atom in [a for a in found if a.kind == "sign"]:
        _merge_sign(found, atom)
    alone = [a for a, e in found.items() if a.kind == "base" and e == 1]
    if len(found) == 1 and alone:
        return alone[0].args[0].scale(c)  # type: ignore[no-any-return]
    return Poly({tuple(sorted(found.items())): Fraction(c)})


def excluded(p: ErrorAtom, q: ErrorAtom) -> bool:
    """Return whether two conditions are each other's negation."""
    return bool(p.args[0] == ("not", q.args[0]) or q.args[0] == ("not", p.args[0]))


def under(x: Poly, condition: ErrorAtom) -> Poly:
    """The terms that hold under a condition, without it."""
    return Poly({tuple(f for f in mono if f[0] != condition): c for mono, c in x.terms.items() if condition in dict(mono)})


def _plain(atom: ErrorAtom) -> ErrorAtom:
    """The atom for the value whose absolute value or sign `atom` is."""
    inner: Poly = atom.args[0]
    lone = inner.single()
    if lone and lone[1] == 1 and len(lone[0]) == 1 and lone[0][0][1] == 1:
        return lone[0][0][0]
    return ErrorAtom("base", (inner,), inner.vary)


def _merge_absolute(found: dict[ErrorAtom, Exponent], atom: ErrorAtom) -> None:
    """Even powers of p are powers of |p|; an even power of |p| is one of p."""
    plain = _plain(atom)
    other = found.get(plain, 0)
    if isinstance(other, int) and other % 2 == 0:
        found.pop(plain, None)
        exponent = found.pop(atom) + other
        if isinstance(exponent, int) and exponent % 2 == 0:
            if exponent:
                found[plain] = exponent
        else:
            found[atom] = whole(exponent)


def _merge_sign(found: dict[ErrorAtom, Exponent], atom: ErrorAtom) -> None:
    """sign(p)² = 1, sign(p)·p = |p|, sign(p)·|p| = p."""
    if int(found.pop(atom)) % 2 == 0:
        return
    plain, absolute = _plain(atom), ErrorAtom("abs", atom.args, atom.vary)
    if isinstance(e := found.get(plain, 0), int) and e % 2:
        found.pop(plain)
        found[absolute] = found.get(absolute, 0) + e
        _merge_absolute(found, absolute)
    elif isinstance(e := found.get(absolute, 0), int) and e % 2:
        found.pop(absolute)
        found[plain] = found.get(plain, 0) + e
        if not found[plain]:
            found.pop(plain)
    else:
        found[atom] = 1


def multiplied(x: Poly, y: Poly) -> Poly:
    """The product with every term of one times every term of the other."""
    if len(x.terms) * len(y.terms) > 4 * MAX_TERMS:
        raise TooLong("a formula has too many terms")
    result = ZERO
    for m, c in x.terms.items():
        for n, d in y.terms.items():
            result = result + of_mono(summed_exponents(m, n), c * d)
    return result


def as_base(x: Poly) -> Poly:
    """x as its content times one atom, so that a product with it stays a product; a polynomial of sizes is multiplied out."""
    if len(x.terms) < 2 or all(a.kind == "size" for a in x.atoms):
        return x
    c, mono, rest = content(x)
    return Poly({tuple(sorted([*mono, (ErrorAtom("base", (rest,), rest.vary), 1)])): c})


def content(x: Poly) -> tuple[Fraction, Mono, Poly]:
    """(c, m, p) with x = c·m·p: what all terms share, and a p of which every multiple of x has the same, with a positive leading term."""
    if not x.terms:
        return Fraction(0), (), ONE
    monos = [dict(mono) for mono in x.terms]
    common = {a: e for a, e in monos[0].items() if all(powers.get(a, 0) * e > 0 for powers in monos)}
    for atom, e in common.items():
        exponents = [powers[atom] for powers in monos]
        common[atom] = min(exponents) if e > 0 else max(exponents)
    values = list(x.terms.values())
    c = Fraction(math.gcd(*(v.numerator for v in values)), math.lcm(*(v.denominator for v in values)))
    rest = ZERO
    for powers, v in zip(monos, values, strict=True):
        rest = rest + of_mono({a: e - common.get(a, 0) for a, e in powers.items()}, v / c)
    first = rest.terms[max(rest.terms, key=leading)] if rest.terms else Fraction(1)
    if first < 0:
        c, rest = -c, -rest
    if first % 10 == 0 and len(rest.terms) == 2 and () in rest.terms:
        # x + 1/10 rather than 10·x + 1
        c, rest = c * abs(first), rest.scale(1 / abs(first))
    return c, tuple(sorted((a, whole(e)) for a, e in common.items())), rest


def lowered(x: Poly, *kinds: str) -> tuple[Poly, Poly]:
    """(monomial, polynomial without negative exponents) whose product is x; of atoms of these kinds only, if any are named."""
    least: dict[ErrorAtom, Exponent] = {}
    for mono in x.terms:
        for atom, e in mono:
            if not kinds or atom.kind in kinds:
                least[atom] = min(least.get(atom, 0), e)
    return of_mono(least), multiplied(x, of_mono({a: -e for a, e in least.items()}))


def leading(mono: Mono) -> tuple[Any, ...]:
    """An order of monomials for which constants come last."""
    return (bool(mono), [(a.key, e) for a, e in mono])


def power(x: Poly, e: Exponent) -> Poly:
    """x^e for an integer e; for a fractional one x is taken to be not negative (which is what makes the power defined)."""
    e = whole(e)
    if e == 0:
        return ONE
    if e == 1:
        return x
    if not x.terms:
        return ZERO
    lone = x.single()
    if lone is None:
        c, mono, rest = content(x)
        if isinstance(e, int):
            outside = of_mono({a: f * e for a, f in mono}, c**e)
            return multiplied(outside, of_atom(ErrorAtom("base", (rest,), rest.vary), e))
        if c < 0 or any(f % 2 for _, f in mono):
            return of_atom(ErrorAtom("base", (x,), x.vary), e)
        return multiplied(power(of_mono(dict(mono), c), e), of_atom(ErrorAtom("base", (rest,), rest.vary), e))
    mono, c = lone
    if isinstance(e, int):
        return of_mono({a: f * e for a, f in mono}, c**e)
    odd = [a for a, f in mono if f % 2]
    if c < 0 or len([a for a in odd if a.kind not in POSITIVE]) > 1:
        return of_atom(ErrorAtom("base", (x,), x.vary), e)
    result = constant_power(c, e)
    for atom, f in mono:
        inner = atom if f % 2 or atom.kind in POSITIVE else _absolute_atom(atom)
        result = multiplied(result, of_mono({inner: f * e}))
    return result


POSITIVE = frozenset(("exp", "size", "abs"))
"""Kinds of atoms that are never negative."""


def _absolute_atom(atom: ErrorAtom) -> ErrorAtom:
    if atom.kind == "base":
        return ErrorAtom("abs", atom.args, atom.vary)
    return ErrorAtom("abs", (of_atom(atom),), atom.vary)


def constant_power(c: Fraction, e: Fraction) -> Poly:
    """c^e for c > 0, exact where it is rational."""
    root = rational_root(c, e.denominator)
    return of_atom(ErrorAtom("base", (const(c),), {}), e) if root is None else const(root**e.numerator)


def expanded(x: Poly) -> Poly:
    """x with every positive whole power of a sum multiplied out."""
    result = ZERO
    for mono, c in x.terms.items():
        part = of_mono({a: e for a, e in mono if not _expandable(a, e)}, c)
        for atom, e in mono:
            if _expandable(atom, e):
                for _ in range(int(e)):
                    part = multiplied(part, expanded(atom.args[0]))
        result = result + part
    return result


def _expandable(atom: ErrorAtom, e: Exponent) -> bool:
    return atom.kind == "base" and isinstance(e, int) and e > 0
