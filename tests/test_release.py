"""Checks of a release that need no build."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
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


def test_a_signature_is_of_the_checksums(release: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which("ssh-keygen") is None:
        pytest.skip("ssh-keygen is not installed")
    monkeypatch.setattr(release, "DIST", tmp_path)
    (tmp_path / "SHA256SUMS").write_text("0  changes-1.2.0.md\n")
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / "key")], check=True)
    signature = release.signed(tmp_path / "key")
    check = ["ssh-keygen", "-Y", "check-novalidate", "-n", "file", "-s", str(signature)]
    for text, fits in (("0  changes-1.2.0.md\n", True), ("1  changes-1.2.0.md\n", False)):
        done = subprocess.run(check, input=text, capture_output=True, text=True, check=False)
        assert (done.returncode == 0) == fits
    with pytest.raises(release.NotReady, match="ssh-keygen"):
        release.signed(tmp_path / "no-key")


def test_the_extras_are_in_the_readme() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    page = (ROOT / "README.md").read_text()
    inner = {"dev", "site", "models"}
    assert [name for name in extras if name not in inner and f"'.[{name}]'" not in page] == []
