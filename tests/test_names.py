"""Names of the source: one class a name, and a row of the map for every folder."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

from tests.imports import TREES, imports

ROOT = Path(__file__).parent.parent


def test_no_two_classes_have_one_name():
    found = defaultdict(list)
    for file in imports(ROOT)[0].values():
        for statement in ast.parse((ROOT / file).read_text(encoding="utf-8")).body:
            if isinstance(statement, ast.ClassDef):
                found[statement.name].append(file)
    assert {name: files for name, files in found.items() if len(files) > 1} == {}


def test_the_map_has_every_folder():
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    folders = {Path(file).parent.as_posix() for file in imports(ROOT)[0].values()} - set(TREES)
    missing = [folder for folder in folders if f"`{folder.removeprefix('hnfc/')}/`" not in page]
    assert missing == []
