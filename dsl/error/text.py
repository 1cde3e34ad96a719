"""Formulas in the notation of mathematics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from hnfc.dsl.core import Expr
from hnfc.dsl.description import describe
from hnfc.dsl.error.algebra import Algebra
from hnfc.dsl.error.polynomial import ONE, ZERO, ErrorAtom, Mono, Poly, content, excluded, lowered, multiplied, of_mono, under
from hnfc.dsl.error.rebuilding import cases_apart
from hnfc.dsl.notation import BINDERS, MIRRORED, NEGATED, product, raised, summed
from hnfc.dsl.polynomials import Exponent

RELATIONS = {"ge": "≥", "gt": ">", "eq": "="}
_LETTERS = "pqrstvwyzABCDEFGH"
_LONG = 14
_MOST_LETTERS = 6
_PRICE_OF_MINUS = 10
"""Letters by which a form without a difference may be longer: it shows that an error is not negative."""
_READABLE = 10_000
"""Numbers from here on are not scaled to integers."""


class Printer:
    """Text of polynomials. Parts that are long and occur more than once get a letter; `letters` says which."""

    def __init__(self, taken: frozenset[str] = frozenset()) -> None:
        self.taken = taken
        self.names: dict[str, str] = {}
        self.letters: list[tuple[str, str]] = []
        self.inverted: set[str] = set()
        """Letters that stand for the inverse of the atom."""
        self.sizes: dict[tuple[Any, ...], str] = {}

    def formula(self, x: Poly) -> str:
        """The formula, followed by what its letters stand for."""
        self.sizes = _names_of_sizes({atom.args for atom in _sizes(x)}, self.taken)
        while (best := self._most_repeated(x)) is not None and len(self.letters) < _MOST_LETTERS:
            free = [letter for letter in _LETTERS if letter not in self.taken and letter not in self.names.values()]
            if not free:
                break
            if best.kind == "exp" and sum(e < 0 for e in self._exponents(best, x)) > sum(e > 0 for e in self._exponents(best, x)):
                self.inverted.add(best.key)
            text = self.power(best, -1 if best.key in self.inverted else 1)
            self.names[best.key] = free[0]
            self.letters.append((free[0], text))
        text = self.sum(x)
        return text + "".join(f"{', where' if i == 0 else ','} {name} = {meaning}" for i, (name, meaning) in enumerate(self.letters))

    def _most_repeated(self, x: Poly) -> ErrorAtom | None:
        """The atom whose repetition costs most."""
        counts = Counter(self._shown(x))
        repeated = {atom: count for atom, count in counts.items() if count > 1 and len(self.atom(atom)) > _LONG}
        costs = {atom: (count - 1) * (len(self.atom(atom)) - 2) for atom, count in repeated.items()}
        return max(costs, key=lambda a: (costs[a], a.key)) if costs else None

    def _exponents(self, wanted: ErrorAtom, value: Any) -> Iterator[Exponent]:
        """The exponents with which an atom occurs."""
        if isinstance(value, Poly):
            for mono in value.terms:
                for atom, e in mono:
                    if atom == wanted:
                        yield e
                    yield from self._exponents(wanted, atom.args)
        elif isinstance(value, tuple):
            for part in value:
                yield from self._exponents(wanted, part)

    def _shown(self, x: Poly) -> Iterator[ErrorAtom]:
        """The atoms as often as they are printed, without those below a letter."""
        for mono in factored(x):
            for atom, _ in mono:
                if atom.key in self.names:
                    continue
                if atom.kind not in ("var", "size", "ind", "base"):
                    yield atom
                yield from self._inside(atom.args)

    def _inside(self, value: Any) -> Iterator[ErrorAtom]:
        if isinstance(value, Poly):
            yield from self._shown(value)
        elif isinstance(value, tuple):
            for part in value:
                yield from self._inside(part)

    # sums and products

    def sum(self, x: Poly) -> str:
        """The sum with what its terms share in front of a bracket."""
        if len(x.terms) < 2:
            return self.product(*_only(x)) if x.terms else "0"
        c, mono, rest = content(x)
        if len(rest.terms) == 1:
            return self.product(*_only(multiplied(of_mono(dict(mono), c), rest)))
        if mono or (abs(c) != 1 and max(abs(d) for d in rest.terms.values()) < _READABLE):
            return self.product(abs(c), mono, f"({self.terms(rest if c > 0 else -rest)})")
        return self.terms(x)

    def terms(self, x: Poly) -> str:
        """Positive terms first, numbers last; terms that differ in sizes only are one, and alternatives are `a if p else b`."""
        parts: list[tuple[bool, bool, int, str]] = []
        x = self._alternatives(x, parts)
        groups: dict[Mono, Poly] = {}
        for mono, c in x.terms.items():
            counted = tuple(f for f in mono if f[0].kind == "size")
            rest = tuple(f for f in mono if f not in counted)
            groups[rest] = groups.get(rest, ZERO) + Poly({counted: c})
        for rest, factor in groups.items():
            if len(factor.terms) > 1 and rest:
                below, factor = lowered(factor)
                mono = tuple(sorted([*rest, *_only(below)[1]]))
                parts.append((False, False, len(mono), self.product(Fraction(1), mono, f"({self.terms(factor)})")))
                continue
            for counted, c in factor.terms.items():
                mono = tuple(sorted([*counted, *rest]))
                text = self.product(c, mono)
                parts.append((text.startswith("-"), not mono, len(mono), text.removeprefix("-")))
        return summed((negative, part) for negative, _, _, part in sorted(parts))

    def _alternatives(self, x: Poly, parts: list[tuple[bool, bool, int, str]]) -> Poly:
        """Takes out the terms that hold under a condition, and those that hold under its negation."""
        for atom in sorted(a for a in x.atoms if a.kind == "ind"):
            other = next((a for a in x.atoms if a.kind == "ind" and excluded(atom, a)), None)
            if other is None or atom.args[0][0] == "not":
                continue
            text = f"{self.sum(under(x, atom))} if {self.condition(atom.args[0])} else {self.sum(under(x, other))}"
            x = Poly({m: c for m, c in x.terms.items() if atom not in dict(m) and other not in dict(m)})
            parts.append((False, False, 3, text if x.zero and not parts else f"({text})"))
        return x

    def product(self, c: Fraction, mono: Mono, bracket: str = "") -> str:
        """c·bracket·Π atom^e, with a fraction bar where there are negative exponents."""
        flipped = next((a for a, e in mono if c < 0 and not bracket and self._turns(a, e)), None)
        means, mono = self._means(mono)
        conditions = [f"[{self.condition(a.args[0])}]" for a, _ in mono if a.kind == "ind"]
        upper = [(a, e) for a, e in mono if a.kind != "ind" and self._above(a, e)]
        above = [*means, *(self.power(a, e, a is flipped) for a, e in sorted(upper, key=_for_reading))]
        below = [self.power(a, -e, a is flipped) for a, e in mono if a.kind != "ind" and not self._above(a, e)]
        if bracket:
            above.insert(0, bracket)
        sign = "-" if c < 0 and flipped is None else ""
        c = abs(c)
        if c == 1 and not bracket and len(mono) == 1 and mono[0][1] == 1 and mono[0][0].kind == "matmul":
            return sign + self.atom(mono[0][0])
        if c.denominator >= _READABLE and c == Fraction(repr(float(c))):
            above.insert(0, repr(float(c)))
            c = Fraction(1)
        return sign + product(c, above, below, conditions)

    def _above(self, atom: ErrorAtom, e: Exponent) -> bool:
        """Return whether the factor stands above the fraction bar: exp(-p) does."""
        if atom.key in self.names:
            return e < 0 if atom.key in self.inverted else e > 0
        return e > 0 or atom.kind == "exp"

    def _turns(self, atom: ErrorAtom, e: Exponent) -> bool:
        """Return whether the negation of the factor is as short as the factor: p - q for q - p."""
        if atom.key in self.names:
            return False
        if atom.kind == "base":
            return isinstance(e, int) and e % 2 == 1 and any(c < 0 for c in atom.args[0].terms.values())
        if atom.kind == "sum" and e == 1 and len(atom.args[1].terms) == 1:
            ((mono, _),) = atom.args[1].terms.items()
            return any(self._turns(a, f) for a, f in mono)
        return False

    def _means(self, mono: Mono) -> tuple[list[str], Mono]:
        """Σ_k(p)/n_k as mean_k(p)."""
        powers = dict(mono)
        means = []
        for atom, e in mono:
            if atom.kind == "sum" and isinstance(e, int) and e > 0 and atom.key not in self.names and not atom.args[2]:
                over = [a for a in powers if a.kind == "size" and powers[a] <= -e and (a.args[0],) == atom.args[0]]
                if over and over[0].args[1] == atom.args[1].vary.get(atom.args[0][0]):
                    means.append(raised(f"mean_{atom.args[0][0]}({self.sum(atom.args[1])})", e))
                    powers.pop(atom)
                    powers[over[0]] += e
        return means, tuple((a, e) for a, e in powers.items() if e)

    def power(self, atom: ErrorAtom, e: Exponent, flipped: bool = False) -> str:
        if atom.kind == "exp" and atom.key not in self.names:
            return f"exp({self.sum(atom.args[0].scale(Fraction(e)))})"
        if atom.key in self.inverted:
            e = -e
        if isinstance(e, Fraction) and e.denominator == 2 and e.numerator in (1, -1):
            inner = self.sum(atom.args[0]) if atom.kind == "base" and atom.key not in self.names else self.atom(atom)
            return f"√({inner})" if e > 0 else f"1/√({inner})"
        text = self.atom(atom, flipped)
        if atom.kind in ("base", "matmul") and atom.key not in self.names:
            text = f"({text})"
        return raised(text, e)

    # atoms

    def atom(self, atom: ErrorAtom, flipped: bool = False) -> str:
        """The atom, or its negation where `flipped`."""
        if atom.key in self.names:
            return self.names[atom.key]
        args = atom.args
        match atom.kind:
            case "var":
                return str(args[0])
            case "size":
                return self.sizes.get(args, f"n_{args[0]}")
            case "base":
                return self.sum(-args[0] if flipped else args[0])
            case "exp":
                return f"exp({self.sum(args[0])})"
            case "abs":
                return f"|{self.sum(args[0])}|"
            case "sign":
                return f"sign({self.sum(args[0])})"
            case "ind":
                return f"[{self.condition(args[0])}]"
            case "sum" | "prod" | "max" | "min":
                return f"{BINDERS.get(atom.kind, atom.kind)}_{','.join(map(str, args[0]))}({self.sum(-args[1] if flipped else args[1])})"
            case "matmul":
                return f"{self.factor(args[0])} @ {self.factor(args[1])}"
            case "conv":
                return f"conv({self.sum(args[0])}, {self.sum(args[1])})"
            case "move":
                return self.moved(*args)
        return self.function(args[0], [self.sum(x) for x in args[1]], dict(args[2]))

    def moved(self, values: tuple[Poly, ...], name: str, attributes: tuple[tuple[str, Any], ...]) -> str:
        """As the rule language writes it."""
        given = dict(attributes)
        axes = [given.pop(key) for key in ("squeeze", "unsqueeze", "axis") if key in given] + [*given.pop("axes", ())]
        name = next((key for key, _ in attributes if key in ("squeeze", "unsqueeze")), name)
        bounds = [given[key] for key in given if key in ("start", "stop", "low", "high", "size", "shape")]
        texts = [describe(value) if isinstance(value, Expr) else str(value) for value in bounds]
        bracket = f"[{', '.join(map(str, axes))}]" if axes else ""
        return f"{name}{bracket}({', '.join([*map(self.sum, values), *texts])})"

    def factor(self, x: Poly) -> str:
        text = self.sum(x)
        return f"({text})" if len(x.terms) > 1 or any(sign in text for sign in "·/@") else text

    @staticmethod
    def function(name: str, operands: list[str], attributes: dict[str, Any]) -> str:
        match name:
            case "ceil":
                return f"⌈{operands[0]}⌉"
            case "floor":
                return f"⌊{operands[0]}⌋"
            case "log2":
                return f"log₂({operands[0]})"
            case "atan" if operands == ["1"]:
                return "(π/4)"
            case "pow":
                return f"({operands[0]})^({operands[1]})"
            case "maximum" | "minimum":
                return f"{name[:3]}({', '.join(operands)})"
        shown = [f"{key}={value}" for key, value in attributes.items()]
        return f"{name}({', '.join([*operands, *shown])})"

    def condition(self, tree: Any) -> str:
        match tree[0]:
            case "cap":
                return str(tree[1])
            case "not":
                inner = tree[1]
                return self.relation(inner, NEGATED[RELATIONS[inner[0]]]) if inner[0] in RELATIONS else f"not {self.condition(inner)}"
            case "and":
                return " and ".join(self.condition(part) for part in tree[1:])
        return self.relation(tree, RELATIONS[tree[0]])

    def relation(self, tree: Any, symbol: str) -> str:
        """p - q ≥ 0 as p ≥ q, with the numbers on the right."""
        difference: Poly = tree[1]
        left = Poly({m: c for m, c in difference.terms.items() if c > 0 and m})
        right = Poly({m: -c for m, c in difference.terms.items() if m not in left.terms})
        if left.zero:
            left, right = -right, -left
            constant = Poly({m: c for m, c in left.terms.items() if not m})
            left, right = constant - left, constant - right
            symbol = MIRRORED.get(symbol, symbol)
        return f"{self.sum(left)} {symbol} {self.sum(right)}"


def _names_of_sizes(found: set[tuple[Any, ...]], taken: frozenset[str]) -> dict[tuple[Any, ...], str]:
    """n where there is one size, n_k where each axis has one, and else what it is the size of."""
    if len(found) == 1 and "n" not in taken:
        return dict.fromkeys(found, "n")
    if len({axis for axis, _ in found}) == len(found):
        return {args: f"n_{args[0]}" for args in found}
    return {args: f"size[{min(args[1])[-1]}]({', '.join(sorted(str(member[0]) for member in args[1]))})" for args in found}


def _sizes(value: Any) -> Iterator[ErrorAtom]:
    """Every size in a formula."""
    if isinstance(value, Poly):
        for atom in value.atoms:
            yield from _sizes(atom)
    elif isinstance(value, ErrorAtom):
        if value.kind == "size":
            yield value
        else:
            yield from _sizes(value.args)
    elif isinstance(value, tuple):
        for part in value:
            yield from _sizes(part)


def _only(x: Poly) -> tuple[Fraction, Mono]:
    ((mono, c),) = x.terms.items()
    return c, mono


def _for_reading(factor: tuple[ErrorAtom, Exponent]) -> tuple[int, str]:
    """Sizes and names first, then what is short."""
    order = {"size": 0, "var": 1, "abs": 2}
    return order.get(factor[0].kind, 3), factor[0].key


def factored(x: Poly) -> list[Mono]:
    """The monomials that are printed: what all terms share comes once."""
    if len(x.terms) < 2:
        return list(x.terms)
    _, mono, rest = content(x)
    return [mono, *rest.terms] if mono and rest != ONE else list(rest.terms)


def shortest(x: Poly, algebra: Algebra, taken: frozenset[str] = frozenset()) -> tuple[str, Poly]:
    """The shortest text of the forms that the formula has, and that form."""
    forms = dict.fromkeys(algebra.forms(x))
    if any(atom.kind == "ind" for form in forms for atom in form.atoms):
        forms |= dict.fromkeys(cases_apart(form, algebra) for form in list(forms))
    texts = {Printer(taken).formula(form): form for form in forms}
    return min(texts.items(), key=lambda found: len(found[0]) + _PRICE_OF_MINUS * found[0].count(" - "))


def inequality_text(x: Poly, taken: frozenset[str] = frozenset()) -> str:
    """x ≥ 0 as p ≥ q."""
    return Printer(taken).condition(("ge", x))
