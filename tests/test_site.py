"""The documentation as a site: every page is in it, and a link that leads nowhere is an error."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
BUILT = {"dialect.md", "rules.md"}


def test_every_page_is_in_the_navigation() -> None:
    text = (ROOT / "mkdocs.yml").read_text()
    nav = text[text.index("\nnav:") :]
    assert [page.name for page in (ROOT / "docs").glob("*.md") if page.name not in BUILT and page.name not in nav] == []


def test_the_first_page_has_an_entrance_for_each_need() -> None:
    text = (ROOT / "docs" / "README.md").read_text()
    needs = ("My loss is NaN", "float16 overflows", "Is this rewrite safe?", "Quantise a model", "JAX function", "I compare tools")
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    assert [need for need in needs if not any(need in row and "](" in row for row in rows)] == []


@pytest.mark.slow
def test_the_site_is_built(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "api" / "index.html").read_text()
    assert "hnfc.pytorch.rewriter.optimize" in page and (tmp_path / "index.html").exists()
