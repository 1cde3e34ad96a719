"""What the experiments hand to the page: tables in Markdown, and claims with what was aimed at beside what was measured."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

Data: TypeAlias = dict[str, Any]
"""What an experiment measured: numbers, texts and lists, as they are kept in JSON."""


@dataclass(frozen=True)
class Claim:
    """What the sources say, what was measured, and whether that is so.

    reached: how many of the cases, of which a claim may have several, are as the sources say.
    """

    text: str
    target: str
    measured: str
    reached: int
    cases: int = 1

    @property
    def verdict(self) -> str:
        if self.reached == self.cases:
            return "holds"
        return "does not hold" if self.reached == 0 else f"falls short: {self.reached} of {self.cases}"


@dataclass
class Section:
    """A part of the page. pictures: SVG by the name of the file."""

    text: str
    claims: list[Claim]
    pictures: dict[str, str] = field(default_factory=dict)


def table(headings: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A table in Markdown."""
    lines = ["| " + " | ".join(headings) + " |", "| " + " | ".join("---" for _ in headings) + " |"]
    lines += ["| " + " | ".join(str(cell).replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join(lines)


def short(x: float | None, digits: int = 2) -> str:
    """A number with so many digits; what is not finite in words."""
    if x is None:
        return "–"
    if not math.isfinite(x):
        return "not finite"
    return f"{x:.{digits}g}" if 1e-3 <= abs(x) < 1e5 or x == 0 else f"{x:.{digits - 1}e}"


def ratio(before: float, after: float) -> str:
    """How many times smaller the second is."""
    if not math.isfinite(after):
        return "–"
    return times(before / after) if after else "exact"


def times(x: float) -> str:
    """A factor, to two digits."""
    if not math.isfinite(x):
        return "∞"
    return f"{float(f'{x:.2g}'):.0f} ×" if 10 <= x < 1e6 else f"{x:.2g} ×"


def plain(x: float) -> float | str:
    """The number to four digits, for JSON, which knows no infinities."""
    return float(f"{x:.4g}") if math.isfinite(x) else "inf"


def number(x: float | str) -> float:
    return float(x)
