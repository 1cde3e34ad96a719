"""Tables and paragraphs as wide as the terminal. Nothing is cut: the flexible column wraps, and what has no room stands below its row."""

from __future__ import annotations

import contextlib
import os
import re
import textwrap
from collections.abc import Sequence

GAPS = ("   ", "  ")
"""Between columns; the second where the first leaves no room."""
NARROW = 18
"""Characters below which a column has no room for words or places; one that needs no more never gives way."""
_INDENT = "    "


def width() -> int:
    """Columns of the terminal: what COLUMNS says, else that of either output stream, else 100; at most 140."""
    with contextlib.suppress(KeyError, ValueError):
        if (given := int(os.environ["COLUMNS"])) > 0:
            return min(given, 140)
    for stream in (1, 2):
        with contextlib.suppress(OSError):
            if (found := os.get_terminal_size(stream).columns) > 0:
                return min(found, 140)
    return 100


def filled(text: str) -> str:
    """The text with each line wrapped at the width; what follows is indented by two more than its line."""
    lines: list[str] = []
    for line in text.split("\n"):
        indent = " " * (len(line) - len(line.lstrip()) + 2)
        lines += textwrap.wrap(line, width(), subsequent_indent=indent, break_long_words=False, break_on_hyphens=False) or [""]
    return "\n".join(lines)


def table(headings: Sequence[str], rows: Sequence[Sequence[str]], flexible: int, least: int = NARROW) -> str:
    """The rows under their headings. Where the terminal is narrow the flexible column wraps, or goes below its row; then others do.

    least: characters to which the flexible column may shrink.
    """
    widths = [max(map(len, column)) for column in zip(headings, *rows, strict=True)]
    below: list[int] = []
    gap = GAPS[0]

    def room() -> int:
        """Characters that the columns in the row leave to the flexible one, or to nothing where that is below."""
        columns = [place for place in range(len(widths)) if place not in below]
        return width() - sum(widths[place] for place in columns if place != flexible) - len(gap) * (len(columns) - 1)

    least = min(least, widths[flexible])
    if room() < least:
        gap = GAPS[1]
    if room() < least and widths[flexible] > NARROW:
        below.append(flexible)
    for place in sorted(range(1, len(widths)), key=lambda place: -widths[place]):
        if room() < (0 if flexible in below else least) and place != flexible:
            below.append(place)
    if flexible not in below:
        widths[flexible] = min(widths[flexible], max(room(), least))
    columns = [place for place in range(len(widths)) if place not in below]

    def line(cells: Sequence[str]) -> str:
        return gap.join(cells[place].ljust(widths[place]) for place in columns).rstrip()

    drawn = [line(headings), "─" * (sum(widths[place] for place in columns) + len(gap) * (len(columns) - 1))]
    for row in rows:
        if flexible in below:
            drawn.append(line(row))
        else:
            for number, part in enumerate(wrapped(row[flexible], widths[flexible])):
                drawn.append(line([part if place == flexible else text if not number else "" for place, text in enumerate(row)]))
        for place in sorted(below):
            text = row[place] if place == flexible or not row[place] else f"{headings[place]}: {row[place]}"
            drawn += [_INDENT + part for part in wrapped(text, width() - len(_INDENT)) if part]
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
