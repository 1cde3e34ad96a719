"""A dictionary on disk, of texts to what JSON can hold: written whole, merged with what others wrote, and empty where it cannot be read.

A file counts only if it is the user's own, nobody else may write it or its folder, and its first line is the digest of the rest with
the key of this user on this machine: what was edited, or made elsewhere, is found anew, unless the user trusts it (`trusted_store`).
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import hmac
import json
import os
import secrets
import stat
import tempfile
from collections.abc import Iterator, Mapping
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


@contextlib.contextmanager
def no_store() -> Iterator[None]:
    """Every dictionary is empty meanwhile, and none is written."""
    _DISABLED.append(True)
    try:
        yield
    finally:
        _DISABLED.pop()


@contextlib.contextmanager
def trusted_store() -> Iterator[None]:
    """Files count without the digest meanwhile, as those that another machine made; what is added to one is written with our own."""
    _TRUSTED.append(True)
    try:
        yield
    finally:
        _TRUSTED.pop()


_DISABLED: list[bool] = []
_TRUSTED: list[bool] = []


def read_store(path: Path) -> dict[str, Any]:
    key = _key(make=False)
    if _DISABLED or (key is None and not _TRUSTED):
        return {}
    try:
        digest, _, text = _own_bytes(path).partition(b"\n")
        if not _TRUSTED and (key is None or not hmac.compare_digest(digest, _digest(key, path, text))):
            return {}
        data = json.loads(text.decode())
    except (OSError, ValueError, RecursionError):
        return {}
    return data if isinstance(data, dict) else {}


def add_to_store(path: Path, entries: Mapping[str, Any]) -> None:
    """Adds the entries; the oldest go where there are too many. A disk that cannot be written keeps nothing and says nothing."""
    if not entries or _DISABLED:
        return
    with contextlib.suppress(OSError):
        key = _key(make=True)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if key is None or not _is_own(os.stat(path.parent)):
            return
        stored = {**read_store(path), **entries}
        for entry in list(stored)[: max(0, len(stored) - MAX_ENTRIES)]:
            del stored[entry]
        text = json.dumps(stored).encode()
        _replace(path, _digest(key, path, text) + b"\n" + text)


def _digest(key: bytes, path: Path, text: bytes) -> bytes:
    """The name of the file counts too: one cannot stand for another."""
    return hmac.new(key, path.name.encode() + b"\0" + text, hashlib.sha256).hexdigest().encode()


def _key(make: bool) -> bytes | None:
    """The secret of this user on this machine, which lies apart from the cache; None where there is none, or others may have set it."""
    base = os.environ.get("XDG_CONFIG_HOME")
    try:
        path = (Path(base) if base else Path.home() / ".config") / "hnfc" / "key"
        if make and not path.exists():
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            _replace(path, secrets.token_hex(32).encode(), over=False)
        found = _own_bytes(path)
    except (OSError, RuntimeError):  # no home
        return None
    return found if len(found) == 64 else None


def _own_bytes(path: Path) -> bytes:
    """The bytes of a file that only the user can have written. Raises OSError."""
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0))
    with os.fdopen(handle, "rb") as file:
        found = os.fstat(handle)
        if not (stat.S_ISREG(found.st_mode) and _is_own(found) and _is_own(os.stat(path.parent))):
            raise PermissionError(errno.EPERM, "others may have written it", str(path))
        return file.read()


def _is_own(found: os.stat_result) -> bool:
    if not hasattr(os, "geteuid"):
        return True
    return found.st_uid == os.geteuid() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _replace(path: Path, content: bytes, over: bool = True) -> None:
    """Writes the file whole, for its owner only; over: what is there already gives way."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.stem, suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        if over:
            os.replace(name, path)
        else:
            with contextlib.suppress(FileExistsError):
                os.link(name, path)
            os.unlink(name)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise
