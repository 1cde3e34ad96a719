"""Tables as wide as the terminal. Nothing is cut: the flexible column wraps, and where it has no room it stands below its row."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence

GAP = "   "
NARROW = 18
"""Characters below which a column has no room for words or places; one that needs no more never gives way."""
_INDENT = "    "


def width() -> int:
    return min(shutil.get_terminal_size((100, 24)).columns, 140)


def table(headings: Sequence[str], rows: Sequence[Sequence[str]], flexible: int) -> str:
    """The rows under their headings; the flexible column gives way where the terminal is narrow."""
    widths = [max(map(len, column)) for column in zip(headings, *rows, strict=True)]
    room = width() - sum(widths) + widths[flexible] - len(GAP) * (len(widths) - 1)
    below = room < NARROW < widths[flexible]
    columns = [place for place in range(len(widths)) if not (below and place == flexible)]
    if not below:
        widths[flexible] = min(widths[flexible], max(room, NARROW))
    drawn = [_line(headings, widths, columns), "─" * (sum(widths[place] for place in columns) + len(GAP) * (len(columns) - 1))]
    for row in rows:
        parts = wrapped(row[flexible], width() - len(_INDENT) if below else widths[flexible])
        if below:
            drawn += [_line(row, widths, columns), *(_INDENT + part for part in parts if part)]
        else:
            cells = [part if place == flexible else text for place, text in enumerate(row) for part in parts[:1]]
            drawn.append(_line(cells, widths, columns))
            drawn += [_line([part if place == flexible else "" for place in range(len(row))], widths, columns) for part in parts[1:]]
    return "\n".join(drawn)


def wrapped(text: str, room: int) -> list[str]:
    """The text in lines of that many characters: between words, and else after characters that join the parts of a name."""
    lines = [""]
    for part in re.findall(r"\s+|[^\s/.,;:_-]*[/.,;:_-]|[^\s/.,;:_-]+", text):
        pieces = [part[start : start + room] for start in range(0, len(part), room)] if len(part) > room else [part]
        for piece in pieces:
            if len(lines[-1]) + len(piece.rstrip()) <= room:
                lines[-1] += piece
            else:
                lines.append(piece.lstrip())
    return [line.rstrip() for line in lines]


def _line(cells: Sequence[str], widths: Sequence[int], columns: Sequence[int]) -> str:
    return GAP.join(cells[place].ljust(widths[place]) for place in columns).rstrip()
