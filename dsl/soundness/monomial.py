"""Atoms, and polynomials over them as dictionaries from monomial to coefficient.

An atom is anything that polynomial arithmetic does not look into: an element of a captured tensor, exp of a monomial, log of a
polynomial, a sum over bound indices. Atoms are hash-consed. Exponents are rational on positive atoms (exp, root) and integers elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import Any, NamedTuple, TypeAlias

from hnfc.dsl import notation
from hnfc.dsl.polynomials import Exponent, accumulate, summed_exponents, whole

MAX_TERMS = 1500


class TooLarge(Exception):
    """The terms outgrew what is worth computing."""


class Index(NamedTuple):
    """An index along the axes of one class. kind: `free` (a variable) or `bound` (the canonical name inside a binder)."""

    cls: int
    kind: str
    n: int


class ComputedIndex(NamedTuple):
    """A place along the axes of one class that is computed from indices: `term` is a `Rational` over index values."""

    cls: int
    term: Any


Place: TypeAlias = Index | ComputedIndex

Places: TypeAlias = tuple[Place, ...]


class Atom:
    """One node: `kind` says what, `args` hold terms, conditions, tuples of places and plain values.

    ixs: the free indices below it. places: the computed places below it.
    """

    __slots__ = ("args", "id", "ixs", "kind", "level", "places")
    kind: str
    args: tuple[Any, ...]
    id: int
    ixs: frozenset[Index]
    level: int
    places: frozenset[ComputedIndex]

    def __repr__(self) -> str:
        return NOTATION.atom(self)


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
    ixs: set[Index] = set()
    places: set[ComputedIndex] = set()
    level = 0
    for arg in args:
        if type(arg) is tuple:
            if kind in BINDERS:
                continue
            for place in arg:
                if isinstance(place, Index):
                    ixs.add(place)
                elif isinstance(place, ComputedIndex):
                    places |= {place, *place.term.places}
                    ixs |= place.term.ixs
                    level = max(level, place.term.level)
        elif hasattr(arg, "ixs"):
            ixs |= arg.ixs
            places |= arg.places
            level = max(level, arg.level)
    if kind in BINDERS:
        bound = args[0]
        ixs -= set(bound)
        places = {place for place in places if not place.term.ixs & set(bound)}
        level += 1
    new.ixs, new.level, new.places = frozenset(ixs), level, frozenset(places)
    _ATOMS[key] = new
    return new


def mono_mul(a: Mono, b: Mono) -> Mono:
    if not a:
        return b
    if not b:
        return a
    return tuple(sorted(((x, whole(e)) for x, e in summed_exponents(a, b).items() if e != 0), key=lambda p: p[0].id))


def mono_pow(a: Mono, exponent: Exponent) -> Mono:
    return tuple((x, whole(e * exponent)) for x, e in a)


def canonical_power(base: Atom, e: Exponent) -> bool:
    match base.kind:
        case "root":
            return 0 < e < 1
        case "abs" | "ind":
            return e == 1
        case "sin":
            return e < 2
    return True


def good(mono: Mono) -> bool:
    return all(base.kind not in SPECIAL or canonical_power(base, e) for base, e in mono)


def order(mono: Mono) -> tuple[Any, ...]:
    return tuple((base.id, e) for base, e in mono)


def raw_mul(a: Terms, b: Terms) -> Terms:
    if len(a) * len(b) > 40 * MAX_TERMS:
        raise TooLarge("too many terms")
    result: Terms = {}
    for m, c in a.items():
        for n, d in b.items():
            accumulate(result, mono_mul(m, n), c * d)
    if len(result) > MAX_TERMS:
        raise TooLarge("too many terms")
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


def lowered(terms: Terms) -> tuple[Mono, Terms]:
    """(monomial, polynomial without negative exponents) whose product is `terms`."""
    common = content(terms)
    return common, (raw_mul(terms, {mono_pow(common, -1): Fraction(1)}) if common else terms)


# the notation of a proof


class Notation:
    """Text of atoms, as a proof writes them; `readable` overrides the names of indices and sizes."""

    def place(self, place: Place) -> str:
        if isinstance(place, ComputedIndex):
            return str(place.term)
        free = place.kind == "free"
        return ("ijkpqrst"[place.cls % 8] if free else "abcdefgh"[place.n % 8]) + str(place.n if free else place.cls)

    def places(self, places: Iterable[Place]) -> str:
        return ",".join(map(self.place, places))

    def binder(self, places: Places) -> str:
        """Indices that a sum or an extremum binds."""
        return self.places(places)

    def size(self, cls: int) -> str:
        return f"n{cls}"

    def text(self, value: Any) -> str:
        """An operand: a term, a condition, places, or a plain value."""
        return str(value)

    def atom(self, base: Atom) -> str:
        args = base.args
        match base.kind:
            case "cap":
                return f"{args[0]}[{self.places(args[1])}]" if args[1] else str(args[0])
            case "pi":
                return "π"
            case "size":
                return self.size(args[0])
            case "ix":
                return self.places(args[0])
            case "sum" | "prod" | "max" | "min":
                return f"{notation.BINDERS.get(base.kind, base.kind)}_{self.binder(args[0])}({self.text(args[1])})"
            case "abs":
                return f"|{self.text(args[0])}|"
            case "ind":
                return f"[{self.text(args[0])}]"
            case "root":
                return f"({self.text(args[0])})"
        return f"{base.kind}({', '.join(map(self.text, args))})"


NOTATION = Notation()


def show_terms(terms: Terms) -> str:
    parts: list[str] = []
    for mono, c in sorted(terms.items(), key=lambda p: order(p[0]), reverse=True):
        factors = "·".join(f"{x}" if e == 1 else f"{x}^{e}" if isinstance(e, int) and e > 0 else f"{x}^({e})" for x, e in mono)
        text = str(abs(c)) if not factors else factors if abs(c) == 1 else f"{abs(c)}·{factors}"
        parts.append(("-" if c < 0 else "+" if parts else "") + text)
    return " ".join(parts) if parts else "0"
