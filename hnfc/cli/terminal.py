"""Output to the terminal: words on stderr, files written whole, progress. The only file that imports rich."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from pathlib import Path
from typing import Any

from hnfc.dsl.diagnostics import HnfError, render

DONE, WRONG, USAGE, NOT_PROVED, INTERRUPTED = 0, 1, 2, 3, 130
"""Exit codes: done; the input is wrong or a rule is refuted; usage; not proved within the limits; Ctrl-C."""


def say(text: str) -> None:
    with contextlib.suppress(OSError):
        print(text, file=sys.stderr, flush=True)


def write(path: str | None, content: bytes) -> None:
    """Writes the file whole or not at all; None is stdout."""
    if path is None or path == "-":
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
        return
    temporary = f"{path}.{os.getpid()}.part"
    try:
        with open(temporary, "wb") as file:
            file.write(content)
        os.replace(temporary, path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        if isinstance(error, OSError):
            raise OSError(error.errno, error.strerror, path) from None
        raise


class Progress:
    """A spinner with the stage at hand, on a terminal, once a command takes more than two seconds."""

    def __init__(self) -> None:
        self._status: Any = None
        self._started = 0.0
        self._text = ""

    def __enter__(self) -> Progress:
        self._started = time.monotonic()
        return self

    def __call__(self, text: str) -> None:
        self._text = text
        if not sys.stderr.isatty():
            return
        if self._status is not None:
            self._status.update(text)
        elif time.monotonic() - self._started > 2 or text.startswith("proving"):
            from rich.console import Console

            self._status = Console(stderr=True).status(text)
            self._status.start()

    def stop(self) -> None:
        if self._status is not None:
            self._status.stop()
            self._status = None

    def __exit__(self, *_: object) -> None:
        self.stop()


def report_diagnostics(error: HnfError) -> int:
    for diagnostic in error.diagnostics:
        try:
            source: str | None = Path(diagnostic.file).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            source = None
        say(render(diagnostic, source))
        say("")
    return WRONG
