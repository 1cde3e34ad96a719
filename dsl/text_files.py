"""Texts of files that someone else may have made: a FIFO, a device or a folder in the place of one is refused, and nothing waits for it."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

LARGEST = 2**28
"""Bytes of the largest text that is read."""


def read_bytes(path: str | Path) -> bytes:
    """The bytes of a file. Raises OSError, whose `strerror` is a sentence."""
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    with os.fdopen(handle, "rb") as file:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "this is not a file", str(path))
        if found.st_size > LARGEST:
            raise OSError(errno.EFBIG, f"a text of {found.st_size} bytes is too large", str(path))
        return file.read(LARGEST)


def read_text(path: str | Path) -> str:
    """The text of a file in UTF-8, with line ends as `\\n`. Raises OSError and UnicodeDecodeError."""
    return read_bytes(path).decode("utf-8").replace("\r\n", "\n").replace("\r", "\n")
