"""Results as HTML for notebooks: a headline, sentences, and tables that follow the colours of the notebook. All text is escaped."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

MOST_ROWS = 40
_MARKS = {"good": ("#2a87c8", "✓"), "warn": ("#b8860b", "!"), "bad": ("#d55e00", "✕"), "plain": ("#7a828a", "·")}
"""Colours that everybody can tell apart, beside signs."""
_CELL = "text-align:left;vertical-align:top;padding:.2em .8em;border-bottom:1px solid #8884;white-space:normal"


@dataclass(frozen=True)
class NotebookTable:
    """Rows under headings. total: how many there are, where only some are shown."""

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    total: int = 0


def notebook_html(headline: str, tone: str = "plain", *parts: str | NotebookTable) -> str:
    """The fragment. tone: good, warn, bad or plain."""
    colour, mark = _MARKS[tone]
    head = Markup('<div style="font-weight:600;border-left:4px solid {};padding-left:.6em;margin:.3em 0">{} {}</div>').format(
        colour, mark, headline
    )
    body = Markup("").join(_table(part) if isinstance(part, NotebookTable) else _text(part) for part in parts)
    return str(Markup('<div class="hnfc" style="max-width:70em">{}{}</div>').format(head, body))


def cell_of(path: str) -> str:
    """The cell of a notebook, as IPython names it (`Cell In[3]`), for the file that it was compiled as; empty for other files."""
    python = sys.modules.get("IPython")
    shell = python.get_ipython() if python is not None else None
    # shells without a compiler of cells have no names for them
    named = getattr(getattr(shell, "compile", None), "format_code_name", lambda path: None)(path)
    return " ".join(named) if named else ""


def lines_html(text: str, tone: str = "plain") -> str:
    """The fragment of a text: its first line is the headline, the others stand below it as they are."""
    headline, *lines = text.split("\n")
    return notebook_html(headline, tone, *lines)


def progress_html(text: str, seconds: float, counts: tuple[int, int] | None) -> str:
    """A bar with a stage and its time. counts: what is done, and of how much."""
    known = Markup(' value="{}" max="{}"').format(*counts) if counts else Markup("")
    bar = Markup('<progress style="width:12em"{} aria-label="{}"></progress>').format(known, text)
    return str(Markup('<div class="hnfc">{} {} <span style="opacity:.7">{:.0f} s</span></div>').format(bar, text, seconds))


def _text(text: str) -> Markup:
    return Markup('<div style="margin:.2em 0 .2em .9em;white-space:pre-wrap">{}</div>').format(text)


def _table(table: NotebookTable) -> Markup:
    heads = Markup("").join(Markup('<th scope="col" style="{}">{}</th>').format(_CELL, heading) for heading in table.headings)
    rows = Markup("").join(_row(row) for row in table.rows[:MOST_ROWS])
    left = max(table.total, len(table.rows)) - min(len(table.rows), MOST_ROWS)
    more = _text(f"… and {left} more") if left > 0 else Markup("")
    return Markup('<table style="border-collapse:collapse;margin:.4em 0"><thead><tr>{}</tr></thead><tbody>{}</tbody></table>{}').format(
        heads, rows, more
    )


def _row(row: Sequence[str]) -> Markup:
    return Markup("<tr>{}</tr>").format(Markup("").join(Markup('<td style="{}">{}</td>').format(_CELL, cell) for cell in row))
