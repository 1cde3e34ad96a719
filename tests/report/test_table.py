"""Tables at any width: no line is longer than the terminal while a column can give way, and nothing is left out."""

from __future__ import annotations

import pytest

from hnfc.report.table import NARROW, table, wrapped

ROWS = [["softmax", "model/layers/encoder.py:123", "1.5"], ["exp", "a place of several words in layers.7.attention", "2"]]


@pytest.mark.parametrize("columns", [140, 80, 60, 45, 30])
def test_nothing_is_cut(columns, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(columns))
    drawn = table(["operation", "at", "error"], ROWS, 1)
    assert max(map(len, drawn.splitlines())) <= columns
    for row in ROWS:
        assert all(word.replace(" ", "") in "".join(drawn.split()) or len(word) > NARROW for word in row)
    joined = "".join(drawn.split()).replace("1.5", "").replace("─", "")
    assert "encoder.py:123" in joined


def test_a_line_breaks_between_words_and_parts_of_names():
    assert wrapped("one two three", 7) == ["one two", "three"]
    assert wrapped("model/layers/encoder.py:12", 14) == ["model/layers/", "encoder.py:12"]
    assert wrapped("abcdefghij", 4) == ["abcd", "efgh", "ij"]
    assert wrapped("", 4) == [""]
