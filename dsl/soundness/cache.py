"""Verdicts on disk: a rule that was judged before, by this prover, is not judged again.

The file is a dictionary from fingerprint to verdict (see dsl/fingerprint.py and dsl/store.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hnfc.dsl.soundness.verdict import Verdict
from hnfc.dsl.store import add_to_store, cache_directory, read_store


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
        add_to_store(self.path, {key: v.to_json() for key, v in verdicts.items()})

    @staticmethod
    def _decode(data: Any) -> Verdict | None:
        if data is None:
            return None
        try:
            return Verdict.from_json(data)
        except (KeyError, TypeError, ValueError, AttributeError):
            return None
