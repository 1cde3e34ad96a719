"""Tables at any width: no line is longer than the terminal while a column can give way, and nothing is left out."""

from __future__ import annotations

import os

import pytest

from hnfc.core.certificates import certificates
from hnfc.core.verdicts import verdicts
from hnfc.dsl.rulebook import shipped
from hnfc.report.rules import rule_table
from hnfc.report.table import NARROW, filled, table, width, wrapped

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


@pytest.mark.parametrize("columns", [140, 80, 60, 45])
def test_columns_that_do_not_fit_stand_below_the_row_with_their_headings(columns, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(columns))
    headings = ["operation", "range", "error", "grows", "where"]
    drawn = table(headings, [["softmax_fusion", "[-1.58e+14, 1.58e+14]", "2.77e-05", "7.25", "model/layers/attention.py:12"]], 4)
    assert max(map(len, drawn.splitlines())) <= columns
    assert all(text in drawn for text in ("softmax_fusion", "[-1.58e+14, 1.58e+14]", "2.77e-05", "7.25", "attention.py:12"))
    assert drawn.count("range") == 1


@pytest.mark.parametrize("columns", [100, 80, 60])
def test_the_list_of_rules_keeps_names_groups_and_whole_reasons(columns, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(columns))
    rules = shipped().rules
    drawn = rule_table(rules, verdicts(rules), certificates(rules, verdicts(rules)))
    assert max(map(len, drawn.splitlines())) <= columns and "…" not in drawn
    shown = "".join(drawn.split())
    for rule in rules:
        assert rule.name in drawn and rule.group in drawn
        assert "".join(rule.reason.split()) in shown, "a reason stands below its row, in one piece"


def test_the_width_is_that_of_the_terminal_on_stderr_too(monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)

    def size(stream):
        if stream != 2:
            raise OSError
        return os.terminal_size((72, 24))

    monkeypatch.setattr(os, "get_terminal_size", size)
    assert width() == 72


def test_a_paragraph_is_wrapped_below_its_own_indent(monkeypatch):
    monkeypatch.setenv("COLUMNS", "20")
    assert filled("  one two three four five\n\nsix") == "  one two three four\n    five\n\nsix"
