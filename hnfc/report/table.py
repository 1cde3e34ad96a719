"""Tables as wide as the terminal."""

from __future__ import annotations

import shutil
from collections.abc import Sequence

GAP = "   "


def width() -> int:
    return min(shutil.get_terminal_size((100, 24)).columns, 140)


def table(headings: Sequence[str], rows: Sequence[Sequence[str]], flexible: int) -> str:
    """The rows under their headings; the flexible column gives way where the terminal is narrow."""
    widths = [max(map(len, column)) for column in zip(headings, *rows, strict=True)]
    room = width() - sum(widths) + widths[flexible] - len(GAP) * (len(widths) - 1)
    widths[flexible] = max(min(widths[flexible], room), len(headings[flexible]), 1)

    def line(cells: Sequence[str]) -> str:
        cut = [
            text if len(text) <= w or i != flexible else f"{text[: w - 1]}…" for i, (text, w) in enumerate(zip(cells, widths, strict=True))
        ]
        return GAP.join(text.ljust(w) for text, w in zip(cut, widths, strict=True)).rstrip()

    return "\n".join([line(headings), "─" * (sum(widths) + len(GAP) * (len(widths) - 1)), *map(line, rows)])
