"""Output to the terminal: words on stderr, files written whole, progress."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import re
import signal
import stat
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hnfc.cli.colours import coloured, wanted
from hnfc.core.errors import ModelError
from hnfc.dsl.diagnostics import HnfError, render

DONE, WRONG, USAGE, NOT_PROVED, INTERRUPTED, PIPE_CLOSED = 0, 1, 2, 3, 130, 141
"""Exit codes: done; the input is wrong or a rule is refuted; usage; not proved within the limits; Ctrl-C; the reader has gone."""
STDIN = "-"


_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""Characters that a terminal obeys, but for line ends and tabs."""


def visible(text: str) -> str:
    """The text with characters that a terminal would obey written as escapes: names and sources come from files."""
    return _CONTROL.sub(lambda found: ascii(found[0])[1:-1], text)


def say(text: str) -> None:
    if sys.stderr is not None:
        with contextlib.suppress(OSError, ValueError):
            shown = visible(text)
            print(coloured(shown) if wanted(sys.stderr) else shown, file=sys.stderr, flush=True)


def show(text: str) -> None:
    """Prints results, which go to stdout."""
    print(visible(text), file=_stdout())


def _stdout() -> Any:
    if sys.stdout is None:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF), "stdout")
    return sys.stdout


def read_stdin() -> str:
    """The whole of stdin. Raises ModelError where it is not text."""
    try:
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError:
        raise ModelError("it is not text in UTF-8", "<stdin>") from None


def is_fpcore(source: str) -> bool:
    """Return whether a file, by its name, or stdin, by its first character, holds FPCore programs."""
    if source != STDIN:
        return source.endswith(".fpcore")
    return isinstance(sys.stdin.buffer, io.BufferedReader) and sys.stdin.buffer.peek(64).lstrip()[:1] in (b"(", b";")


def prepare() -> None:
    """Lets streams that cannot hold a character show its number."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def write(path: str | None, content: bytes) -> None:
    """Writes the file whole or not at all; None is stdout. A link leads to the file written, a device or pipe gets the bytes."""
    if path is None or path == "-":
        _stdout().buffer.write(content)
        _stdout().buffer.flush()
        return
    try:
        target = os.path.realpath(path)
        if os.path.exists(target) and not os.path.isfile(target):
            with open(target, "wb") as stream:
                stream.write(content)
            return
        with _ending_orderly():
            _write_whole(target, content)
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from None


def _write_whole(target: str, content: bytes) -> None:
    """Writes beside the file, under a name that nobody can foresee, and puts the result in its place."""
    handle, temporary = tempfile.mkstemp(dir=os.path.dirname(target), prefix=".hnfc-", suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            os.fchmod(file.fileno(), _mode(target))
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def _mode(target: str) -> int:
    """Permissions of the file that is there; else those of any new file."""
    try:
        return stat.S_IMODE(os.stat(target).st_mode)
    except FileNotFoundError:
        mask = os.umask(0)
        os.umask(mask)
        return 0o666 & ~mask


@contextlib.contextmanager
def _ending_orderly() -> Iterator[None]:
    """Makes SIGTERM an interruption, after which nothing is left behind."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


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


def finite(data: Any) -> Any:
    """JSON has no infinities: they are written as strings."""
    if isinstance(data, dict):
        return {key: finite(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [finite(value) for value in data]
    if isinstance(data, float) and not abs(data) < float("inf"):
        return str(data)
    return data
