"""Terms in the notation of a proof."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from hnfc.dsl.soundness.monomial import At, Atom, Place, Terms, order

if TYPE_CHECKING:
    from hnfc.dsl.soundness.term import Rational


def show_atom(base: Atom) -> str:
    def one(i: Place) -> str:
        if isinstance(i, At):
            return str(i.term)
        return ("ijkpqrst"[i.cls % 8] if i.kind == "free" else "abcdefgh"[i.n % 8]) + str(i.n if i.kind == "free" else i.cls)

    def index(places: Iterable[Place]) -> str:
        return ",".join(map(one, places))

    match base.kind:
        case "cap":
            return f"{base.args[0]}[{index(base.args[1])}]" if base.args[1] else str(base.args[0])
        case "pi":
            return "π"
        case "size":
            return f"n{base.args[0]}"
        case "ix":
            return index(base.args[0])
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
    parts: list[str] = []
    for mono, c in sorted(terms.items(), key=lambda p: order(p[0]), reverse=True):
        factors = "·".join(f"{x}" if e == 1 else f"{x}^{e}" if isinstance(e, int) and e > 0 else f"{x}^({e})" for x, e in mono)
        text = str(abs(c)) if not factors else factors if abs(c) == 1 else f"{abs(c)}·{factors}"
        parts.append(("-" if c < 0 else "+" if parts else "") + text)
    return " ".join(parts) if parts else "0"


def show(x: Rational) -> str:
    text = _show_terms(x.num)
    return text if x.polynomial else f"({text})/({_show_terms(x.den)})"
