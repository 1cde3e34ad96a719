"""The prover's terms for reading: in a fixed order, with raised exponents and fraction bars, and indices named as they come.

The prover orders factors as it meets them, which differs from run to run; here the order is that of the texts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from fractions import Fraction
from types import MappingProxyType
from typing import Any

from hnfc.dsl import notation
from hnfc.dsl.polynomials import Exponent
from hnfc.dsl.soundness.monomial import Atom, ComputedIndex, Index, Mono, Notation, Place, Places, Terms
from hnfc.dsl.soundness.term import Proposition, Rational

SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")
FREE, BOUND = "ijlmpqrst", "abcdefgh"
_TOKEN = re.compile(r"\x01([fbs])(\d+):(\d+)\x02")
_RANGE = re.compile(r"\x03(.*?)\x04")
RELATIONS = {">": ">", ">=": "≥", "=": "="}


def shown(text: str, names: Iterable[str], known: Mapping[int, str] = MappingProxyType({})) -> str:
    """A text of `term` and `condition` with its indices and sizes named; `names` are taken. known: the sizes of classes."""
    taken = set(names)
    found: dict[str, str] = {}
    letters = {kind: [c for c in pool if c not in taken] for kind, pool in (("f", FREE), ("b", BOUND))}
    found |= {match[0]: known[int(match[2])] for match in _TOKEN.finditer(text) if match[1] == "s" and int(match[2]) in known}
    sizes = {match[0] for match in _TOKEN.finditer(text) if match[1] == "s"} - found.keys()
    for match in _TOKEN.finditer(_RANGE.sub("", text)):
        if match[0] in found:
            continue
        kind = match[1]
        if kind == "s":
            count = sum(token in sizes for token in found)
            found[match[0]] = "n" if len(sizes) == 1 else f"n{str(count + 1).translate(SUBSCRIPTS)}"
            continue
        pool = letters[kind]
        found[match[0]] = pool.pop(0) if pool else f"{kind}{match[2]}"

    def bound(match: re.Match[str]) -> str:
        return ",".join(sorted(found.get(token[0], "a") for token in _TOKEN.finditer(match[1])))

    return _TOKEN.sub(lambda match: found[match[0]], _RANGE.sub(bound, text))


def term(x: Rational) -> str:
    """num/den."""
    text = _sum(x.num)
    return text if x.polynomial else f"{_bracketed(text)}/{_bracketed(_sum(x.den))}"


def condition(cond: Proposition) -> str:
    """`p ≥ q`, with what is subtracted on the other side."""
    match cond.kind:
        case ">" | ">=" | "=":
            return _relation(cond.args[0], RELATIONS[cond.kind])
        case "not" if cond.args[0].kind in RELATIONS:
            return _relation(cond.args[0].args[0], notation.NEGATED[RELATIONS[cond.args[0].kind]])
        case "not":
            return f"not {condition(cond.args[0])}"
        case "and" | "or":
            return f" {cond.kind} ".join(sorted(f"({condition(part)})" for part in cond.args))
        case "cap":
            places = _MARKED.places(cond.args[1])
            return f"{cond.args[0]}[{places}]" if places else str(cond.args[0])
    return cond.kind


def _relation(x: Rational, symbol: str) -> str:
    if not x.polynomial:
        return f"{term(x)} {symbol} 0"
    left = {m: c for m, c in x.num.items() if c > 0}
    right = {m: -c for m, c in x.num.items() if c < 0}
    if (not left or (() in left and len(left) == 1)) and right:
        left, right, symbol = right, left, notation.MIRRORED.get(symbol, symbol)
    return f"{_sum(left)} {symbol} {_sum(right)}"


def _masked(text: str) -> str:
    """The text without the names of indices, for an order that does not depend on them."""
    return _TOKEN.sub("*", text)


def _sum(terms: Terms) -> str:
    """Positive terms first, numbers last."""
    parts = sorted(((c < 0, not m, _masked(t := _product(m, abs(c))), t) for m, c in terms.items()), key=lambda p: p[:3])
    return notation.summed((negative, part) for negative, *_, part in parts)


def _product(mono: Mono, c: Fraction) -> str:
    factors = [(_power(a, e) if a.kind == "exp" or e > 0 else _power(a, -e), a.kind == "exp" or e > 0) for a, e in mono]
    above, below = (sorted((text for text, up in factors if up is wanted), key=_masked) for wanted in (True, False))
    return notation.product(c, above, below)


def _power(atom: Atom, e: Exponent) -> str:
    if atom.kind == "exp":
        return f"exp({term(atom.args[0].scale(Fraction(e)))})"
    if atom.kind == "root" and e == Fraction(1, 2):
        return f"√({term(atom.args[0])})"
    return notation.raised(_MARKED.atom(atom), e)


class _MarkedNotation(Notation):
    """Atoms with marks for indices and sizes, which `shown` names."""

    def place(self, place: Place) -> str:
        return (
            term(place.term) if isinstance(place, ComputedIndex) else f"\x01{'f' if place.kind == 'free' else 'b'}{place.cls}:{place.n}\x02"
        )

    def binder(self, places: Places) -> str:
        return f"\x03{self.places(places)}\x04"

    def size(self, cls: int) -> str:
        return f"\x01s{cls}:0\x02"

    def text(self, value: Any) -> str:
        if isinstance(value, Rational):
            return term(value)
        if isinstance(value, Proposition):
            return condition(value)
        if isinstance(value, Index | ComputedIndex):
            return self.place(value)
        return ", ".join(map(self.text, value)) if isinstance(value, tuple) else str(value)


_MARKED = _MarkedNotation()


def _bracketed(text: str) -> str:
    return f"({text})" if " " in text or "/" in text else text
