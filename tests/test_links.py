"""The pages of the documentation point only at files that are there, in a fresh clone too."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]
BUILT = {ROOT / "docs" / "dialect.md", ROOT / "docs" / "rules.md"}


def committed() -> set[Path]:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("not a clone")
    return {ROOT / name for name in listed.stdout.splitlines()}


@pytest.mark.parametrize("page", [page for page in PAGES if page not in BUILT], ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"(```.*?```|`[^`\n]*`)", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    links = re.findall(r"\]\(([^)#\s]+)[^)]*\)", text)
    files = {(page.parent / link).resolve() for link in links if "://" not in link}
    known = committed()
    folders = {folder for path in known for folder in path.parents}
    assert files - known - folders == set()


def test_generated_pages_are_built_and_not_committed() -> None:
    assert BUILT & committed() == set()
