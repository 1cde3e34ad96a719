"""A page as a file: names from models and rules stay text, and nothing is loaded from anywhere."""

from __future__ import annotations

import json
import re
import sys
from html.parser import HTMLParser

import pytest

from hnfc.pages.document import (
    CardBlock,
    CodeBlock,
    DiagramBlock,
    FactsBlock,
    GraphBlock,
    Page,
    PageCell,
    PageSection,
    PairBlock,
    PlotBlock,
    StepsBlock,
    TableBlock,
    TextBlock,
    rendered,
    words,
)
from hnfc.pages.plots import growth_spec
from hnfc.pages.vega import vega_script

EVIL = [
    "</script><script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "{{ 7 * 7 }}",
    "`<b>`",
    "' onmouseover='alert(1)",
    "\u2028<!--",
]


class Elements(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def page_with(text: str) -> Page:
    blocks = [
        TableBlock([text], [[text], [PageCell(text, code=True, target="x")]], text),
        TextBlock(text),
        CodeBlock(text, text),
        StepsBlock(text, [text]),
        FactsBlock([(text, text)]),
        PairBlock((text, text), ([TextBlock(text)], [DiagramBlock({"items": [], "edges": [], "x": text}, text)])),
        GraphBlock("g", {"name": text, "nodes": [], "columns": [], "groups": [], "titles": [text]}),
    ]
    cards = [CardBlock("c", text, text, [(text, "good")], blocks)]
    return Page(text, text, text, text, "good", [(text, [text])], [PageSection("s", text, text, cards)], {text: {1: text}})


@pytest.mark.parametrize("text", EVIL)
def test_text_is_never_markup(text: str) -> None:
    plain, evil = Elements(), Elements()
    plain.feed(rendered(page_with("plain")))
    evil.feed(rendered(page_with(text)))
    assert [tag for tag, _ in evil.found if tag != "code"] == [tag for tag, _ in plain.found if tag != "code"]
    assert not [attributes for _, attributes in evil.found if any(name.startswith("on") for name in attributes)]
    assert "49" not in rendered(page_with("{{ 7 * 7 }}")).split("<script type")[0].split("</style>")[1]


@pytest.mark.parametrize("text", EVIL)
def test_data_is_what_it_was(text: str) -> None:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', rendered(page_with(text)), re.DOTALL)
    assert found is not None
    assert json.loads(found[1])["sources"] == {text: {"1": text}}


def test_nothing_is_loaded() -> None:
    plot = PlotBlock("p", growth_spec([{"n": 0, "error": 1e-8, "operation": "exp", "at": "a.py:1", "module": ""}]), "growth")
    page = Page("m", "s", "c", "h", "good", [], [PageSection("s", "t", "", [plot])])
    elements = Elements()
    elements.feed(rendered(page))
    assert not [tag for tag, attributes in elements.found if "src" in attributes or tag in ("link", "iframe", "object", "embed")]
    policy = next(a["content"] for tag, a in elements.found if tag == "meta" and a.get("http-equiv"))
    assert policy is not None and policy.startswith("default-src 'none'") and "unsafe-eval" not in policy


def test_a_page_without_the_scripts_of_plots_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    vega_script.cache_clear()
    plot = PlotBlock("p", growth_spec([]), "What grows.")
    text = rendered(Page("m", "s", "c", "h", "good", [], [PageSection("s", "t", "", [CardBlock("c", "n", blocks=[plot])])]))
    vega_script.cache_clear()
    assert "hnfc[report]" in text and "What grows." in text and 'id="p"' not in text and len(text) < 100_000


def test_numbers_that_json_lacks_are_texts() -> None:
    page = Page("m", "s", "c", "h", "good", [], [PageSection("s", "t", "", [GraphBlock("g", {"x": float("inf"), "y": [float("nan")]})])])
    found = re.search(r'id="data">(.*?)</script>', rendered(page), re.DOTALL)
    assert found is not None and json.loads(found[1])["graphs"]["g"] == {"x": "inf", "y": ["nan"]}


def test_a_page_is_the_same_each_time() -> None:
    assert rendered(page_with("x")) == rendered(page_with("x"))


def test_terms_in_backquotes_are_code() -> None:
    assert words("a `b<c` d") == "a <code>b&lt;c</code> d"
    assert words("a ` b") == "a ` b"
