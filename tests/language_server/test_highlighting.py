"""Colours by Pygments agree with those of the editor."""

from __future__ import annotations

from pathlib import Path

import pytest
from pygments.token import Error, Keyword, Name

from hnfc.language_server.highlighting import HnfLexer

RULES = sorted((Path(__file__).parents[2] / "rules").glob("*.hnf"))


@pytest.mark.parametrize("path", RULES, ids=lambda path: path.stem)
def test_every_word_of_a_shipped_file_has_a_colour(path: Path) -> None:
    found = list(HnfLexer(stripnl=False).get_tokens(path.read_text()))
    assert [text for kind, text in found if kind is Error] == []
    assert "".join(text for _, text in found) == path.read_text()


def test_where_is_a_clause_and_a_function() -> None:
    text = "rule where_x\n    where(m, x, x) => x\n    where finite(x)\n"
    found = [token for token in HnfLexer().get_tokens(text) if token[1].strip()]
    assert found[0] == (Keyword.Declaration, "rule") and found[1] == (Name, "where_x")
    assert found[2] == (Name.Builtin, "where") and (Keyword, "where") in found and (Name.Builtin, "finite") in found
