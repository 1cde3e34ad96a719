"""Docstrings open with a noun or an imperative verb, and the glossary has every term once."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
NO_NOUN = re.compile(r"(What|How|Where|Which|Who|Whose|Whether|When|Why|Those|That of|That which|It)\b")

NO_DATUM = re.compile(r"\b(told|asked|asks for|wish(es|ed)?|said|given back|of those which)\b", re.IGNORECASE)
"""Words for people: data is not told, asked, said or given back."""


def docstrings(path: Path) -> Iterator[tuple[int, str]]:
    """Line and text of every docstring: of modules, classes, functions, and of attributes and constants below them."""
    for node in ast.walk(ast.parse(path.read_text())):
        body = getattr(node, "body", None)
        if not isinstance(body, list):
            continue
        first = body[:1] if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) else []
        after = [second for one, second in pairwise(body) if isinstance(one, ast.Assign | ast.AnnAssign)]
        for statement in (*first, *after):
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant) and isinstance(statement.value.value, str):
                yield statement.lineno, statement.value.value.strip()


def wrong(text: str) -> bool:
    return bool(NO_NOUN.match(text) or NO_DATUM.search(text))


@pytest.mark.parametrize("folder", ["dialects", "dsl", "hnfc"])
def test_a_docstring_opens_with_a_noun_or_a_verb_and_speaks_of_data(folder: str) -> None:
    files = [p for p in sorted((ROOT / folder).rglob("*.py")) if not any(q.is_symlink() for q in (p, *p.parents))]
    found = [f"{path.relative_to(ROOT)}:{line}: {text[:60]}" for path in files for line, text in docstrings(path) if wrong(text)]
    assert not found


NO_NAME = re.compile(r"(^|_)(told|asked|wish(es)?|said)(_|$)")


def names(path: Path) -> Iterator[tuple[int, str]]:
    """Line and name of all that a file defines: functions, classes, parameters, variables and attributes."""
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.arg(arg=name):
                yield node.lineno, name
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield node.lineno, name


@pytest.mark.parametrize("folder", ["dialects", "dsl", "hnfc"])
def test_a_name_is_of_data(folder: str) -> None:
    files = [p for p in sorted((ROOT / folder).rglob("*.py")) if not any(q.is_symlink() for q in (p, *p.parents))]
    assert [f"{path.relative_to(ROOT)}:{line}: {name}" for path in files for line, name in names(path) if NO_NAME.search(name)] == []


def test_a_planted_docstring_is_found(tmp_path: Path) -> None:
    text = '"""A module."""\nX = 1\n"""What X is."""\n\n\ndef f():\n    """How it works."""\n\n\ndef g():\n    """The value asked for."""\n'
    (tmp_path / "planted.py").write_text(text)
    assert [line for line, text in docstrings(tmp_path / "planted.py") if wrong(text)] == [3, 7, 11]


def test_the_glossary_is_sorted_and_has_each_term_once() -> None:
    lines = (ROOT / "docs" / "glossary.md").read_text().splitlines()
    terms = [line.split("|")[1].strip() for line in lines if line.startswith("| ")][2:]
    assert terms == sorted(set(terms), key=str.lower)
