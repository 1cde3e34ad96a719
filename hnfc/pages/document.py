"""A report as data, and the HTML file that is made of it: one file that loads nothing, with all text escaped."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any, ClassVar, TypeAlias

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from hnfc.pages.vega import vega_script

Tone: TypeAlias = str
"""good, warn, bad, or plain."""


@dataclass(frozen=True)
class PageCell:
    """One cell of a table. code: whether it is source text. target: the element of the page that it leads to."""

    text: str
    tone: Tone = "plain"
    code: bool = False
    target: str = ""


@dataclass(frozen=True)
class TableBlock:
    kind: ClassVar[str] = "table"
    headings: Sequence[str]
    rows: Sequence[Sequence[PageCell | str]]
    caption: str = ""
    numbers: frozenset[int] = frozenset()
    """Columns of numbers, which stand to the right."""


@dataclass(frozen=True)
class TextBlock:
    kind: ClassVar[str] = "text"
    text: str
    tone: Tone = "plain"


@dataclass(frozen=True)
class CodeBlock:
    kind: ClassVar[str] = "code"
    text: str
    label: str = ""


@dataclass(frozen=True)
class StepsBlock:
    """Numbered sentences."""

    kind: ClassVar[str] = "steps"
    title: str
    items: Sequence[str]


@dataclass(frozen=True)
class FactsBlock:
    """Labels with their texts; terms in backquotes are code."""

    kind: ClassVar[str] = "facts"
    rows: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class PairBlock:
    """Two columns beside each other: before and after, left and right."""

    kind: ClassVar[str] = "pair"
    titles: tuple[str, str]
    columns: tuple[Sequence[Block], Sequence[Block]]


@dataclass(frozen=True)
class CardBlock:
    """A part that folds. badges: short texts with their tones."""

    kind: ClassVar[str] = "card"
    id: str
    title: str
    summary: str = ""
    badges: Sequence[tuple[str, Tone]] = ()
    blocks: Sequence[Block] = ()
    open: bool = False


@dataclass(frozen=True)
class PlotBlock:
    """A plot by Vega-Lite, and in words what it shows."""

    kind: ClassVar[str] = "plot"
    id: str
    spec: Mapping[str, Any]
    caption: str


@dataclass(frozen=True)
class GraphBlock:
    """The graph of a function by modules. data: see `graphs.graph_data`."""

    kind: ClassVar[str] = "graph"
    id: str
    data: Mapping[str, Any]


@dataclass(frozen=True)
class DiagramBlock:
    """A small drawing of operations, which the script lays out. data: nodes and edges; label: the drawing in words."""

    kind: ClassVar[str] = "diagram"
    data: Mapping[str, Any]
    label: str


Block: TypeAlias = (
    TableBlock | TextBlock | CodeBlock | StepsBlock | FactsBlock | PairBlock | CardBlock | PlotBlock | GraphBlock | DiagramBlock
)


@dataclass(frozen=True)
class PageSection:
    id: str
    title: str
    intro: str
    blocks: Sequence[Block]


@dataclass(frozen=True)
class Page:
    """A report. headline: the outcome in one sentence, with its tone. answers: the questions that a reader has first."""

    title: str
    subject: str
    command: str
    headline: str
    tone: Tone
    answers: Sequence[tuple[str, Sequence[str]]]
    sections: Sequence[PageSection]
    sources: Mapping[str, Mapping[int, str]] = field(default_factory=dict)
    """Lines of the source files that values come from, by file and number."""


def rendered(page: Page) -> str:
    """The page as HTML. Values that JSON lacks (NaN and infinities) are texts in its data."""
    blocks = [block for section in page.sections for block in _all(section.blocks)]
    script = vega_script() if any(isinstance(block, PlotBlock) for block in blocks) else ""
    data = {
        "graphs": {block.id: block.data for block in blocks if isinstance(block, GraphBlock)},
        "plots": {block.id: block.spec for block in blocks if isinstance(block, PlotBlock) and script},
        "sources": page.sources,
    }
    return _environment().get_template("page.html").render(page=page, data=_json(data), vega=script, version=_version())


def _all(blocks: Sequence[Block]) -> list[Block]:
    found: list[Block] = []
    for block in blocks:
        found.append(block)
        if isinstance(block, CardBlock):
            found += _all(block.blocks)
        elif isinstance(block, PairBlock):
            found += [*_all(block.columns[0]), *_all(block.columns[1])]
    return found


@cache
def _environment() -> Environment:
    made = Environment(loader=PackageLoader("hnfc.pages"), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    made.filters["words"] = words
    made.filters["data"] = _json
    made.globals["file"] = _file
    return made


def words(text: str) -> Markup:
    """The text with its terms in backquotes as code."""
    parts = text.split("`")
    if len(parts) % 2 == 0:  # a backquote without its partner is itself
        return escape(text)
    return Markup("").join(escape(part) if place % 2 == 0 else Markup("<code>{}</code>").format(part) for place, part in enumerate(parts))


def _file(name: str) -> Markup:
    """A style or script of ours, as it is."""
    source, _, _ = _environment().loader.get_source(_environment(), name)  # type: ignore[union-attr]
    return Markup(source)


_UNSAFE = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&'\u2028\u2029"}


def _json(data: Any) -> Markup:
    """JSON in which no sign means anything to HTML."""
    text = json.dumps(plain(data), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return Markup(text.translate(_UNSAFE))


def plain(data: Any) -> Any:
    """The data with a text for every number that JSON lacks."""
    if isinstance(data, Mapping):
        return {str(key): plain(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [plain(value) for value in data]
    if isinstance(data, float) and not math.isfinite(data):
        return str(data)
    return data


def anchor(*parts: str) -> str:
    """An id for an element of the page."""
    return "-".join(re.sub(r"[^A-Za-z0-9]+", "-", part).strip("-").lower() or "x" for part in parts)


def _version() -> str:
    try:
        return version("hnfc")
    except PackageNotFoundError:
        return ""
