"""Files for those who use, cite and build hnfc: their forms, and the facts that they repeat."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
KINDS = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


def test_the_changelog_keeps_its_form() -> None:
    text = (ROOT / "CHANGELOG.md").read_text()
    versions = re.findall(r"^## \[([^\]]+)\]( - \d{4}-\d\d-\d\d)?$", text, re.MULTILINE)
    assert text.startswith("# Changelog\n") and versions[0][0] == "Unreleased" and versions[1][0] == VERSION
    assert set(re.findall(r"^### (.*)$", text, re.MULTILINE)) <= KINDS
    assert len(re.findall(r"^## ", text, re.MULTILINE)) == len(versions)


def test_the_citation_is_of_this_version() -> None:
    yaml = pytest.importorskip("yaml")
    found = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert found["version"] == VERSION and found["cff-version"] == "1.2.0"
    assert {"message", "title", "authors", "license"} <= found.keys()


TEMPLATES = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))


@pytest.mark.parametrize("path", [path for path in TEMPLATES if path.stem != "config"], ids=lambda path: path.stem)
def test_an_issue_template_is_a_form(path: Path) -> None:
    yaml = pytest.importorskip("yaml")
    form: dict[str, Any] = yaml.safe_load(path.read_text())
    assert form["name"] and form["description"] and form["body"]
    ids = [part["id"] for part in form["body"]]
    assert len(ids) == len(set(ids))
    for part in form["body"]:
        assert part["type"] in ("textarea", "input", "dropdown", "checkboxes") and part["attributes"]["label"]


def test_commands_of_the_guides_are_targets() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for name in ("README.md", "CONTRIBUTING.md", ".github/pull_request_template.md"):
        assert set(re.findall(r"(?:^|`)make ([a-z]+)", (ROOT / name).read_text(), re.MULTILINE)) <= targets, name
