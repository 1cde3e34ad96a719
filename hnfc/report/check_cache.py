"""Cache of `hnfc check`: a second run on the same files reads no rules and loads no prover.

An answer is good for the same files, with the same texts, and all that they import; the same options; and the same sources of the
language, the prover and the report. It is kept only where every rule is decided: what ran out of time may fare better.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from hnfc.dsl.store import add_to_store, cache_directory, read_store

PACKAGES = ("z3-solver", "python-flint", "numpy")
SOURCES = (".py", ".lark", ".hnf")
FOLDERS = ("cli", "core", "dialects", "dsl", "report", "rules")
"""Folders of the package in which those sources lie."""

FORMATS = "in floating point"
"""The heading of the column that is not there where no format was judged."""

Table = Callable[[Sequence[str], Sequence[Sequence[str]], int], str]
"""Draws rows under headings; the number says which column gives way."""


@dataclass(frozen=True)
class CheckReport:
    """Blocks on the rules that are not proved, the table of all, the counts below it, and the exit code."""

    blocks: tuple[str, ...]
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    counts: str
    code: int

    def text(self, table: Table) -> str:
        flexible = self.headings.index(FORMATS) if FORMATS in self.headings else 0
        drawn = table(self.headings, self.rows, flexible) if self.rows else "no rules"
        return "\n\n".join([*self.blocks, f"{drawn}\n{self.counts}"])


class CheckQuery:
    """The files of a check, and its options as they were given."""

    def __init__(self, paths: Sequence[str], options: Mapping[str, Any]) -> None:
        self.paths = paths
        query = json.dumps([os.getcwd(), list(paths), dict(options)], sort_keys=True)
        self.store = cache_directory() / "checks" / f"{hashlib.sha256(query.encode()).hexdigest()[:32]}.json"

    def answer(self) -> CheckReport | None:
        """Earlier answer, if it still holds."""
        kept = read_store(self.store)
        if kept.get("version") != version():
            return None
        try:
            if any(_digest(Path(path).read_bytes()) != known for path, known in kept["files"].items()):
                return None
            found = kept["report"]
            rows = tuple(tuple(map(str, row)) for row in found["rows"])
            blocks, headings = (tuple(map(str, found[key])) for key in ("blocks", "headings"))
            return CheckReport(blocks, headings, rows, str(found["counts"]), int(found["code"]))
        except (OSError, KeyError, TypeError, ValueError, AttributeError):
            return None

    def keep(self, files: Mapping[str, str], report: CheckReport) -> None:
        """files: the text of every file that was read."""
        digests = {path: _digest(text.encode()) for path, text in files.items()}
        add_to_store(self.store, {"version": version(), "files": digests, "report": asdict(report)})


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def version() -> str:
    """A hash of what an answer rests on besides the files."""
    digest = hashlib.sha256(platform.python_version().encode())
    for package in PACKAGES:
        try:
            digest.update(f"{package} {metadata.version(package)}\0".encode())
        except metadata.PackageNotFoundError:
            continue
    root = Path(__file__).parent.parent
    modules = list[Path]()
    for folder in FOLDERS:
        for place, _, names in os.walk(root / folder, followlinks=True):
            modules += [Path(place) / name for name in names if name.endswith(SOURCES)]
    for path in sorted(modules):
        digest.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()
