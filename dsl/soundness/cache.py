"""Verdicts on disk: a rule that was judged before, by this prover, is not judged again.

The file is a dictionary from fingerprint to verdict. It is written atomically and merged with what others wrote; a file that
cannot be read counts as empty.
"""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any

from hnfc.dialects.num.base import NumOp
from hnfc.dsl.core import Apply, Rule, condition_expressions, walk
from hnfc.dsl.soundness.verdict import PROVER_VERSION, Status, Verdict

MAX_ENTRIES = 20_000


def fingerprint(rule: Rule) -> str:
    """A hash of what the verdict depends on: both sides, the conditions, the formulas of their operations, and the prover."""
    operations = {
        node.operation.name: node.operation
        for root in (rule.pattern, rule.replacement, *condition_expressions(rule.where))
        for node in walk(root)
        if isinstance(node, Apply)
    }
    content = {
        "rule": [_plain(x) for x in (rule.pattern, rule.replacement, rule.where, rule.both_ways, rule.within)],
        "formulas": {name: formula_text(operations[name]) for name in sorted(operations)},
        "prover": PROVER_VERSION,
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _plain(x: Any) -> Any:
    """The value as lists and texts; spans say where a rule stands, not what it is."""
    if is_dataclass(x) and not isinstance(x, type):
        return [type(x).__name__, *(_plain(getattr(x, f.name)) for f in fields(x) if f.compare)]
    if isinstance(x, type):
        return getattr(x, "name", x.__name__)
    if isinstance(x, tuple | list):
        return [_plain(part) for part in x]
    return f"{type(x).__name__}:{x!r}"


@cache
def formula_text(operation: type[NumOp]) -> str:
    """The module that an operation's formula is written in: the formula may call functions beside it."""
    real = operation.FACTS.real
    if real is None:
        return "none"
    try:
        module = inspect.getsource(inspect.getmodule(real) or real)
    except (OSError, TypeError):
        return real.__code__.co_code.hex() if hasattr(real, "__code__") else repr(real)
    return hashlib.sha256(module.encode()).hexdigest()


def cache_directory() -> Path:
    """$HNFC_CACHE_DIR, else the user's cache directory."""
    chosen = os.environ.get("HNFC_CACHE_DIR")
    if chosen:
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "hnfc"


class VerdictCache:
    """`get` and `put` by fingerprint; nothing that goes wrong with the file reaches the caller."""

    def __init__(self, directory: Path | None = None) -> None:
        self.path = (directory or cache_directory()) / "verdicts.json"

    def get(self, key: str) -> Verdict | None:
        return self._decode(self._read().get(key))

    def get_all(self, keys: list[str]) -> dict[str, Verdict]:
        stored = self._read()
        found = {key: self._decode(stored.get(key)) for key in keys}
        return {key: verdict for key, verdict in found.items() if verdict is not None}

    def put(self, verdicts: Mapping[str, Verdict]) -> None:
        """Adds verdicts. One that ran out of time is not kept: the next machine may be faster."""
        lasting = {key: v.to_json() for key, v in verdicts.items() if v.status is not Status.UNKNOWN or "time" not in v.reason}
        if not lasting:
            return
        with contextlib.suppress(OSError):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            stored = {**self._read(), **lasting}
            for key in list(stored)[: max(0, len(stored) - MAX_ENTRIES)]:
                del stored[key]
            handle, name = tempfile.mkstemp(dir=self.path.parent, prefix="verdicts", suffix=".tmp")
            try:
                with os.fdopen(handle, "w", encoding="utf-8") as file:
                    json.dump(stored, file)
                os.replace(name, self.path)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(name)
                raise

    def _read(self) -> dict[str, Any]:
        try:
            data = json.loads(self.path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            return {}
        return data if isinstance(data, dict) else {}

    @staticmethod
    def _decode(data: Any) -> Verdict | None:
        if data is None:
            return None
        try:
            return Verdict.from_json(data)
        except (KeyError, TypeError, ValueError, AttributeError):
            return None
