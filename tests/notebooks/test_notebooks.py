"""Notebooks of the documentation: each has its outputs, and shows the same when it is run again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.notebooks.execution import NOTEBOOKS, ROOT, executed, words_of

QUICK = "rules"
NEEDS = {"jax": "jax", "nan": "torch", "formats": "torch"}
LARGEST = 60_000


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_outputs_are_there(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    cells = [cell for cell in json.loads(text)["cells"] if cell["cell_type"] == "code"]
    assert len(text) < LARGEST and cells
    outputs = [output for cell in cells for output in cell["outputs"]]
    assert outputs and not [output for output in outputs if output["output_type"] == "error" or output.get("name") == "stderr"]
    assert "/tmp/" not in text and str(ROOT) not in text and str(Path.home()) + "/" not in text


SOME_SLOW = [path if path.stem == QUICK else pytest.param(path, marks=pytest.mark.slow) for path in NOTEBOOKS]


@pytest.mark.parametrize("path", SOME_SLOW, ids=lambda path: path.stem)
def test_a_run_shows_what_is_committed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    pytest.importorskip(NEEDS.get(path.stem, "hnfc"))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("PYTHONWARNINGS", "default")
    assert words_of(executed(path)) == words_of(nbformat.read(path, 4))


def test_every_notebook_is_on_the_site_and_in_the_examples() -> None:
    for page in ("mkdocs.yml", "examples/README.md"):
        text = (ROOT / page).read_text()
        assert [path.name for path in NOTEBOOKS if path.name not in text] == []
