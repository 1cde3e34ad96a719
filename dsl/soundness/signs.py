"""Signs of terms: facts, their instances, and the sign of a term by the rules of arithmetic.

A sign is the set of signs a real may still have, as a bit mask of POS, ZERO and NEG. Facts hold in one case of a proof:
the rule's `where`, the left side's definedness, and the assumptions of the case.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction

from hnfc.dsl.soundness.term import (
    ONE,
    ZERO,
    Atom,
    Index,
    Place,
    Proposition,
    Rational,
    Terms,
    TooLarge,
    const,
    factor,
    of_atom,
    of_mono,
    primitive_coefficient,
)

POS, ZEROS, NEG = 1, 2, 4
ANY = POS | ZEROS | NEG
NONNEG, NONPOS, NONZERO = POS | ZEROS, NEG | ZEROS, POS | NEG

MAX_INSTANCES = 60
_VERSIONS = itertools.count()


class Contradiction(Exception):
    """The facts of this case exclude each other: nothing is left to prove."""


def flip(mask: int) -> int:
    return (mask & ZEROS) | (NEG if mask & POS else 0) | (POS if mask & NEG else 0)


def times(a: int, b: int) -> int:
    result = 0
    if (a | b) & ZEROS:
        result |= ZEROS
    if a & POS:
        result |= b & NONZERO
    if a & NEG:
        result |= flip(b) & NONZERO
    return result


def power(mask: int, exponent: object) -> int:
    if mask in (POS, NONNEG):
        return mask
    if isinstance(exponent, int):
        if exponent % 2 == 0:
            return (POS if mask & NONZERO else 0) | (mask & ZEROS)
        return mask
    return ANY


def plus(a: int, b: int) -> int:
    """The signs of a sum."""
    if a == ZEROS:
        return b
    if b == ZEROS:
        return a
    for side in (POS, NEG):
        weak = side | ZEROS
        if not (a | b) & ~weak:
            return side if side in (a, b) else weak
    return ANY


def mask_of(relation: str) -> int:
    return {">": POS, ">=": NONNEG, "=": ZEROS}[relation]


class Signs:
    """The facts of one case. `rename` substitutes indices in a term."""

    def __init__(self, rename: Callable[[Rational, Mapping[Index, Place]], Rational], integral: frozenset[str] = frozenset()) -> None:
        self.rename, self.integral = rename, integral
        self.ground: dict[Rational, int] = {}
        self.universal: list[tuple[tuple[Index, ...], Rational, int]] = []
        self.integers: frozenset[Rational] = frozenset()
        self.truths: dict[Proposition, bool] = {}
        self.formulas: list[tuple[tuple[Index, ...], Proposition]] = []
        self.memo: dict[Rational, int] = {}
        self.instances: dict[frozenset[Place], dict[Rational, int]] = {}
        self.busy: set[Rational] = set()
        self.version = next(_VERSIONS)

    def copy(self) -> Signs:
        other = Signs(self.rename, self.integral)
        other.ground, other.universal = dict(self.ground), list(self.universal)
        other.truths, other.formulas, other.integers = dict(self.truths), list(self.formulas), self.integers
        return other

    # facts

    def whole(self, x: Rational) -> bool:
        """Return whether x is an integer by its form: a polynomial over the integers in sizes, indices, floors and captured integers."""
        if x in self.integers:
            return True
        if not self.integral and not self.integers and not any(base.kind in ("ix", "size", "floor") for base in x.atoms):
            return False
        return (
            x.polynomial
            and all(c.denominator == 1 for c in x.num.values())
            and all(isinstance(e, int) and e > 0 and self._counts(base) for mono in x.num for base, e in mono)
        )

    def _counts(self, base: Atom) -> bool:
        if base.kind in ("ix", "size", "floor") or base.kind.startswith("wrap "):
            return True
        return (base.kind == "cap" and base.args[0].split(".")[0] in self.integral) or of_atom(base) in self.integers

    def add_whole(self, x: Rational) -> None:
        """x is an integer, and the one term that it has besides integers."""
        terms = x.num.items() if x.polynomial else ()
        open_terms = [(mono, c) for mono, c in terms if c.denominator != 1 or not self.whole(of_mono(mono))]
        rest = of_mono(*open_terms[0]) if len(open_terms) == 1 and open_terms[0][0] else x
        self.integers |= {x, rest, -rest}
        self.version = next(_VERSIONS)
        self.memo.clear()

    def add(self, x: Rational, mask: int, quantified: tuple[Index, ...] = ()) -> None:
        """sign(x) is in mask, for all values of the quantified indices."""
        quantified = tuple(i for i in quantified if i in x.ixs)
        if mask in (POS, NEG) and self.whole(x):
            # an integer above 0 is 1 or more
            self.add(x - ONE if mask == POS else x + ONE, NONNEG if mask == POS else NONPOS, quantified)
        self.version = next(_VERSIONS)
        self.memo.clear()
        self.instances.clear()
        for base, allowed in self._split(x, mask):
            if quantified:
                self.universal.append((quantified, base, allowed))
                continue
            known = self.ground.get(base, ANY) & allowed
            if not known or not known & self.base_sign(base):
                raise Contradiction
            self.ground[base] = known
            self.memo.clear()
            self.instances.clear()

    def _split(self, x: Rational, mask: int) -> Iterable[tuple[Rational, int]]:
        """The fact about x as facts about x itself and about the factors that it determines."""
        unit, parts = self.factors(x)
        sign = flip(mask) if unit < 0 else mask
        if not parts:
            if not mask & (POS if unit > 0 else NEG if unit < 0 else ZEROS):
                raise Contradiction
            return
        whole = primitive(x)
        if len(parts) > 1 or parts[0][1] != 1:
            yield whole, (flip(mask) if primitive_coefficient(x.num) < 0 else mask)
        unknown = []
        for base, exponent in parts:
            known = power(self.base_sign(base), exponent)
            if not mask & ZEROS:
                yield base, NONZERO
                lone = base.single()
                inner = lone[0][0][0] if lone and len(lone[0]) == 1 else None
                if inner is not None and inner.kind in ("root", "abs"):
                    # √a ≠ 0 and |a| ≠ 0 only where a ≠ 0, and √a is defined only for a ≥ 0
                    yield from self._split(inner.args[0], POS if inner.kind == "root" else NONZERO)
            if known == POS:
                continue
            if known == NEG:
                sign = flip(sign)
                continue
            unknown.append((base, exponent))
        if not unknown and not sign & POS:
            raise Contradiction
        if len(unknown) == 1:
            base, exponent = unknown[0]
            if isinstance(exponent, int) and exponent % 2:
                yield base, sign
            elif sign == ZEROS:
                yield base, ZEROS

    def assume(self, cond: Proposition, value: bool = True, quantified: tuple[Index, ...] = ()) -> None:
        match cond.kind:
            case "true" | "false":
                if (cond.kind == "true") != value:
                    raise Contradiction
            case "not":
                self.assume(cond.args[0], not value, quantified)
            case "and" | "or" if (cond.kind == "and") == value:
                for part in cond.args:
                    self.assume(part, value, quantified)
            case ">" | ">=" | "=":
                mask = mask_of(cond.kind)
                self.add(cond.args[0], mask if value else ANY & ~mask, quantified)
            case _:
                fact = cond if value else Proposition("not", cond)
                self.version = next(_VERSIONS)
                self.formulas.append((tuple(i for i in quantified if i in cond.ixs), fact))
                if not any(i in cond.ixs for i in quantified):
                    if self.truths.get(cond, value) != value:
                        raise Contradiction
                    self.truths[cond] = value

    def instantiated(self, ixs: frozenset[Place]) -> dict[Rational, int]:
        """Instances of the universal facts at these indices."""
        if ixs not in self.instances:
            found: dict[Rational, int] = {}
            self.instances[ixs] = found  # a renaming may ask for signs itself
            for quantified, x, mask in self.universal:
                for renaming in assignments(quantified, ixs):
                    instance = self.rename(x, renaming)
                    if instance.constant() is not None:
                        continue
                    base = primitive(instance)
                    allowed = flip(mask) if primitive_coefficient(instance.num) < 0 else mask
                    found[base] = found.get(base, ANY) & allowed
            self.memo.clear()
        return self.instances[ixs]

    # signs

    def factors(self, x: Rational) -> tuple[int, list[tuple[Rational, object]]]:
        """x as ±1 times a positive rational times powers of atoms and primitive polynomials."""
        if x.zero:
            return 0, []
        parts: dict[Rational, object] = {}
        unit = 1
        for terms, sign in ((x.num, 1), (x.den, -1)):
            if len(terms) == 1 and not next(iter(terms)):
                unit *= 1 if terms[()] > 0 else -1
                continue
            c, mono, polynomials = factor(terms)
            unit *= 1 if c > 0 else -1
            for base, e in mono:
                parts[of_atom(base) if base.kind != "root" else Rational({((base, e),): next(iter(ONE.num.values()))})] = (
                    sign * e if base.kind != "root" else sign
                )
            for polynomial, multiplicity in polynomials:
                parts[Rational(polynomial)] = sign * multiplicity
        return unit, list(parts.items())

    def sign(self, x: Rational) -> int:
        """The signs that x may have, by arithmetic and the facts alone."""
        known = self.memo.get(x)
        if known is not None:
            return known
        c = x.constant()
        if c is not None:
            return POS if c > 0 else NEG if c < 0 else ZEROS
        if x in self.busy:
            return ANY
        self.busy.add(x)
        try:
            mask = self._sign(x)
        finally:
            self.busy.discard(x)
        if not self.busy:
            self.memo[x] = mask
        return mask

    def _sign(self, x: Rational) -> int:
        whole = primitive(x)
        flipped = primitive_coefficient(x.num) < 0
        mask = self.known(whole)
        if mask not in (POS, NEG, ZEROS):
            unit, parts = self.factors(x)
            combined = POS if unit > 0 else NEG
            for base, exponent in parts:
                combined = times(combined, power(self.base_sign(base), exponent))
            mask &= flip(combined) if flipped else combined
            if len(parts) > 1 or (parts and parts[0][1] != 1):
                by_terms = self._by_terms(whole)
                mask &= by_terms
        if not mask:
            raise Contradiction
        return flip(mask) if flipped else mask

    def known(self, base: Rational) -> int:
        mask = self.ground.get(base, ANY)
        if self.universal and base.ixs:
            mask &= self.instantiated(base.ixs | base.places).get(base, ANY)
        return mask

    def base_sign(self, base: Rational) -> int:
        """The sign of a primitive polynomial or an atom."""
        known = self.memo.get(base)
        if known is not None:
            return known
        mask = self.known(base)
        lone = base.single()
        if lone and len(lone[0]) == 1 and lone[1] == 1:
            return mask & self.atom_sign(lone[0][0][0])
        if mask in (POS, NEG, ZEROS):
            return mask
        return mask & self._by_terms(base)

    def _by_terms(self, x: Rational) -> int:
        if not x.polynomial:
            return times(self._sum_sign(x.num), self._sum_sign(x.den))
        return self._sum_sign(x.num)

    def _sum_sign(self, terms: Terms) -> int:
        squared = _without_root(terms)
        if squared is not None:
            return self.sign(squared)
        mask = ZEROS
        for mono, c in terms.items():
            part = POS if c > 0 else NEG
            for base, exponent in mono:
                part = times(part, power(self.base_sign(of_atom(base)) if base.kind != "root" else self.atom_sign(base), exponent))
            mask = plus(mask, part)
            if mask == ANY:
                break
        return mask

    def atom_sign(self, base: Atom) -> int:
        """Theorems on single functions: exp > 0, |a| ≥ 0, a sum of positives is positive, the maximum is one of the values, …"""
        match base.kind:
            case "exp" | "size" | "i0" | "pi":
                return POS
            case "ix":
                return NONNEG
            case "root" | "abs":
                inner = self.sign(base.args[0])
                return NONNEG if inner & ZEROS else POS
            case "ind":
                return NONNEG
            case "log":
                return self.sign(base.args[0] - ONE)
            case "max" | "min":
                return self.sign(base.args[1])
            case "sum":
                inner = self.sign(base.args[1])
                return ANY if inner == NONZERO else inner
            case "prod":
                inner = self.sign(base.args[1])
                return inner if inner in (POS, NONNEG) else NONZERO if not inner & ZEROS else ANY
            case "erf" | "atan" | "asin":
                return self.sign(base.args[0])
            case kind if kind.startswith("round to"):
                # a small number becomes 0
                return self.sign(base.args[0]) | ZEROS
            case "acos":
                return NONNEG
            case "ite":
                return self.sign(base.args[1]) | self.sign(base.args[2])
            case "floor":
                inner = self.sign(base.args[0])
                return NONNEG if not inner & NEG else NEG if inner == NEG else NONPOS if not inner & POS else ANY
        return ANY


def _without_root(terms: Terms) -> Rational | None:
    """A term of the sign of a·x^(1/q) + c, where a and c are numbers of different signs: ±(x - (-c/a)^q); None for another sum."""
    lone = next((mono for mono in terms if mono), ())
    if len(terms) != 2 or () not in terms or len(lone) != 1:
        return None
    (base, exponent), slope, rest = lone[0], terms[lone], terms[()]
    if base.kind != "root" or Fraction(exponent).numerator != 1 or slope * rest > 0:
        return None
    beyond: Rational = base.args[0] - const(Fraction(-rest / slope) ** Fraction(exponent).denominator)
    return beyond if slope > 0 else -beyond


def primitive(x: Rational) -> Rational:
    """x over a rational, so that the leading coefficient is positive and coefficients are coprime integers."""
    if x.zero:
        return ZERO
    return x.scale(1 / primitive_coefficient(x.num))


def assignments(quantified: tuple[Index, ...], ixs: frozenset[Place]) -> Iterable[dict[Index, Place]]:
    """Ways to put the given places for the quantified indices, class by class."""
    choices = [sorted((i for i in ixs if i.cls == q.cls), key=repr) for q in quantified]
    count = 1
    for choice in choices:
        count *= len(choice)
    if not count or count > MAX_INSTANCES:
        return
    for chosen in itertools.product(*choices):
        yield dict(zip(quantified, chosen, strict=True))


__all__ = [
    "ANY", "NEG", "NONNEG", "NONPOS", "NONZERO", "POS", "ZEROS", "Contradiction", "Signs", "TooLarge",
    "assignments", "const", "flip", "mask_of", "primitive", "times",
]  # fmt: skip
