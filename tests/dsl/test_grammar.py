"""The parser from kept tables reads what the parser from the grammar reads, and a broken file of tables changes nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import pytest

from hnfc.dsl import grammar
from hnfc.dsl.diagnostics import HnfError
from hnfc.dsl.parser import parse
from hnfc.dsl.store import add_to_store, read_store

WRONG = ("rule a x + => x", "rule a x = y", "rule a (x", 'rule a "', "rule a sum[1.5](x) => x", "rule a x => x where")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("HNFC_CACHE_DIR", str(tmp_path))
    grammar.parser.cache_clear()
    yield tmp_path
    grammar.parser.cache_clear()


def read() -> list[object]:
    trees: list[object] = [
        parse(f.read_text(encoding="utf-8"), f.name) for f in (files("hnfc") / "rules").iterdir() if f.name.endswith(".hnf")
    ]
    for text in WRONG:
        with pytest.raises(HnfError) as error:
            parse(text)
        trees.append(error.value.diagnostics)
    return trees


def test_kept_tables_read_the_same(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = read()
    assert (folder / "grammar.json").exists()
    grammar.parser.cache_clear()
    monkeypatch.setattr(grammar, "Lark", _Loaded)
    assert read() == made


@pytest.mark.parametrize("content", ["", "[]", "{}", "nonsense", '{"KEY": 1}', '{"KEY": [{}, {}]}', '{"KEY": [{"options": {}}, {"1": 2}]}'])
def test_a_broken_file_changes_nothing(folder: Path, content: str) -> None:
    made = read()
    path = folder / "grammar.json"
    (key,) = read_store(path)
    path.write_text(content)
    if "KEY" in content:
        add_to_store(path, json.loads(content.replace("KEY", key)))
    grammar.parser.cache_clear()
    assert read() == made


class _Loaded(grammar.Lark):  # type: ignore[misc]
    """A parser that is only loaded."""

    def __init__(self, *_: object, **__: object) -> None:
        raise AssertionError("the tables were made again")
