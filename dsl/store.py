"""A dictionary on disk, of texts to what JSON can hold: written whole, merged with what others wrote, and empty where it cannot be read."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

MAX_ENTRIES = 20_000


def cache_directory() -> Path:
    """$HNFC_CACHE_DIR, else the user's cache directory."""
    chosen = os.environ.get("HNFC_CACHE_DIR")
    if chosen:
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "hnfc"


def read_store(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return data if isinstance(data, dict) else {}


def add_to_store(path: Path, entries: Mapping[str, Any]) -> None:
    """Adds the entries; the oldest go where there are too many. A disk that cannot be written keeps nothing and says nothing."""
    if not entries:
        return
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        stored = {**read_store(path), **entries}
        for key in list(stored)[: max(0, len(stored) - MAX_ENTRIES)]:
            del stored[key]
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.stem, suffix=".tmp")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump(stored, file)
            os.replace(name, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(name)
            raise
