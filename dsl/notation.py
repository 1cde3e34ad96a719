"""Sums, products and powers in the notation of mathematics, from the texts of their parts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction

SUPERSCRIPTS = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
BINDERS = {"sum": "Σ", "prod": "Π"}
NEGATED = {">": "≤", "≥": "<", "=": "≠"}
MIRRORED = {">": "<", "≥": "≤", "<": ">", "≤": "≥"}
"""Relations with their sides exchanged."""


def summed(parts: Iterable[tuple[bool, str]]) -> str:
    """The sum of the parts, each with whether it is subtracted."""
    text = ""
    for negative, part in parts:
        text += (" - " if text else "-") + part if negative else (" + " if text else "") + part
    return text or "0"


def product(c: Fraction, above: Sequence[str], below: Sequence[str], first: Sequence[str] = ()) -> str:
    """c·Π above / Π below for c ≥ 0; `first` are factors before the number."""
    upper = [*first, *([str(c.numerator)] if c.numerator != 1 or not (first or above) else []), *above]
    lower = [*([str(c.denominator)] if c.denominator != 1 else []), *below]
    text = "·".join(upper)
    if not lower:
        return text
    return f"{text}/{lower[0]}" if len(lower) == 1 else f"{text}/({'·'.join(lower)})"


def raised(text: str, e: int | Fraction) -> str:
    """The power with a raised exponent."""
    if e == 1:
        return text
    return text + (str(e).translate(SUPERSCRIPTS) if isinstance(e, int) else f"^({e})")
