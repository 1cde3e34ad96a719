"""Verdicts are kept while others are still being found, so that work that is stopped goes on from there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hnfc.core import verdicts as module
from hnfc.core.verdicts import ieee, verdicts
from hnfc.dsl.rulebook import load_text
from hnfc.dsl.store import read_store

RULES = load_text("".join(f"rule r{i}\n    {i}*x + x => {i + 1}*x\n" for i in range(2, 6)), "my.hnf").rules


@pytest.mark.parametrize(("judge", "store"), [(verdicts, "verdicts.json"), (ieee, "ieee.json")])
def test_what_was_found_before_a_stop_is_kept(judge: Any, store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("HNFC_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(module, "_SAVED_SECONDS", 0.0)

    def stop(text: str) -> None:
        if f": 2 of {len(RULES)}" in text:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        judge(RULES, jobs=1, progress=stop)
    assert len(read_store(tmp_path / "cache" / store)) in (1, 2)
