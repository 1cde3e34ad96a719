"""Verdicts on disk: a rule that was judged before, by this prover, is not judged again.

The file is a dictionary from fingerprint to verdict (see dsl/store.py).
"""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any

from hnfc.dialects.num.base import NumOp
from hnfc.dsl.core import Apply, Rule, condition_expressions, walk
from hnfc.dsl.rule_depth import of_rule
from hnfc.dsl.soundness.verdict import PROVER_VERSION, Status, Verdict
from hnfc.dsl.store import add_to_store, cache_directory, read_store


def fingerprint(rule: Rule) -> str:
    """A hash of what the verdict depends on: both sides, the conditions, the formulas of their operations, and the prover."""
    operations = {
        node.operation.name: node.operation
        for root in (rule.pattern, rule.replacement, *condition_expressions(rule.where))
        for node in walk(root)
        if isinstance(node, Apply)
    }
    return of_rule(rule, _hashed, rule, operations)


def _hashed(rule: Rule, operations: Mapping[str, type[NumOp]]) -> str:
    content = {
        "rule": [_plain(x) for x in (rule.pattern, rule.replacement, rule.where, rule.both_ways, rule.within)],
        "formulas": {name: formula_text(operations[name]) for name in sorted(operations)},
        "prover": PROVER_VERSION,
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _plain(x: Any) -> Any:
    """The value as lists and texts; spans say where a rule stands, not what it is."""
    if is_dataclass(x) and not isinstance(x, type):
        return [type(x).__name__, *(_plain(getattr(x, name)) for name in _compared(type(x)))]
    if isinstance(x, type):
        return getattr(x, "name", x.__name__)
    if isinstance(x, tuple | list):
        return [_plain(part) for part in x]
    return f"{type(x).__name__}:{x!r}"


@cache
def _compared(kind: Any) -> list[str]:
    """The fields of a data class that say what a value is."""
    return [f.name for f in fields(kind) if f.compare]


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


class VerdictCache:
    """`get` and `put` by fingerprint; nothing that goes wrong with the file reaches the caller."""

    def __init__(self, directory: Path | None = None) -> None:
        self.path = (directory or cache_directory()) / "verdicts.json"

    def get(self, key: str) -> Verdict | None:
        return self._decode(read_store(self.path).get(key))

    def get_all(self, keys: list[str]) -> dict[str, Verdict]:
        stored = read_store(self.path)
        found = {key: self._decode(stored.get(key)) for key in keys}
        return {key: verdict for key, verdict in found.items() if verdict is not None}

    def put(self, verdicts: Mapping[str, Verdict]) -> None:
        """Adds verdicts. One that ran out of time is not kept: the next machine may be faster."""
        lasting = {key: v.to_json() for key, v in verdicts.items() if v.status is not Status.UNKNOWN or "time" not in v.reason}
        add_to_store(self.path, lasting)

    @staticmethod
    def _decode(data: Any) -> Verdict | None:
        if data is None:
            return None
        try:
            return Verdict.from_json(data)
        except (KeyError, TypeError, ValueError, AttributeError):
            return None
