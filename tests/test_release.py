"""Checks of a release that need no build."""

from __future__ import annotations

import importlib.util
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
DATED = "# Changelog\n\n## [Unreleased]\n\n## [1.2.0] - 2026-01-02\n\n### Added\n\n- a thing\n\n## [1.1.0] - 2025-01-02\n\n- old\n"


@pytest.fixture
def release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    spec = importlib.util.spec_from_file_location("release", ROOT / ".ci" / "release.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "ROOT", tmp_path)
    return module


def test_the_section_of_the_version(release: Any, tmp_path: Path) -> None:
    (tmp_path / "CHANGELOG.md").write_text(DATED)
    assert release.changes("1.2.0") == "### Added\n\n- a thing"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (DATED.replace("[Unreleased]\n", "[Unreleased]\n\n- new\n"), "under [Unreleased]"),
        (DATED.replace("[1.2.0]", "[1.3.0]"), "nothing under [1.2.0]"),
        (DATED.replace(" - 2026-01-02", ""), "YYYY-MM-DD"),
        (DATED.replace("### Added\n\n- a thing\n", ""), "nothing under [1.2.0]"),
    ],
)
def test_a_changelog_that_is_not_ready(release: Any, tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "CHANGELOG.md").write_text(text)
    with pytest.raises(release.NotReady) as refused:
        release.changes("1.2.0")
    assert words in str(refused.value)


def test_a_program_that_fails_is_named(release: Any) -> None:
    with pytest.raises(release.NotReady, match=r"`false` ends with 1"):
        release.run("false")


def test_the_extras_are_in_the_readme() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    page = (ROOT / "README.md").read_text()
    inner = {"dev", "site", "models"}
    assert [name for name in extras if name not in inner and f"'.[{name}]'" not in page] == []
