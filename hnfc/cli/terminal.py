"""Output to the terminal: words on stderr, results on stdout, files written whole."""

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
from collections.abc import Iterator
from enum import IntEnum
from typing import Any

from hnfc.cli.colours import coloured, wanted
from hnfc.core.errors import ModelError
from hnfc.core.plain_files import read_text
from hnfc.dsl.diagnostics import HnfError, render

DONE, WRONG, USAGE, NOT_PROVED, INTERRUPTED, PIPE_CLOSED = 0, 1, 2, 3, 130, 141
"""Exit codes: done; the input is wrong or a rule is refuted; usage; not proved within the limits; Ctrl-C; the reader has gone."""
STDIN = "-"


_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""Characters that a terminal obeys, but for line ends and tabs."""


def visible(text: str) -> str:
    """The text with characters that a terminal would obey written as escapes: names and sources come from files."""
    return _CONTROL.sub(lambda found: ascii(found[0])[1:-1], text)


class Verbosity(IntEnum):
    """The words that a command says on stderr: faults alone, reports too, or also details of the run."""

    QUIET = 0
    NORMAL = 1
    VERBOSE = 2


_verbosity = Verbosity.NORMAL
_stdout_is_taken = False


@contextlib.contextmanager
def speaking(verbosity: Verbosity, stdout_is_taken: bool = False) -> Iterator[None]:
    """Lets `say` and `detail` print as much as wanted. Where an option has stdout, such as `--json -`, results leave it alone."""
    global _verbosity, _stdout_is_taken
    before = _verbosity, _stdout_is_taken
    _verbosity, _stdout_is_taken = verbosity, stdout_is_taken
    try:
        yield
    finally:
        _verbosity, _stdout_is_taken = before


def is_verbose() -> bool:
    return _verbosity == Verbosity.VERBOSE


def is_quiet() -> bool:
    return _verbosity == Verbosity.QUIET


def say(text: str) -> None:
    """Prints a report on stderr, unless --quiet is given."""
    if not is_quiet():
        fault(text)


def detail(text: str) -> None:
    """Prints a detail of the run on stderr, if --verbose is given."""
    if is_verbose():
        fault(text)


def fault(text: str) -> None:
    """Prints on stderr what is wrong."""
    if sys.stderr is not None:
        with contextlib.suppress(OSError, ValueError):
            shown = visible(text)
            print(coloured(shown) if wanted(sys.stderr) else shown, file=sys.stderr, flush=True)


def show(text: str) -> None:
    """Prints results on stdout. Where an option has stdout it says the same, and --verbose alone prints them, on stderr."""
    if _stdout_is_taken:
        detail(text)
    else:
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
    """Writes the file whole or not at all; `-` is stdout, and None too, unless an option has that. A link leads to the file written, a
    device or pipe gets the bytes."""
    if path is None and _stdout_is_taken:
        say("the result itself is not written: stdout has what the option with `-` writes")
        return
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


def report_diagnostics(error: HnfError, stdin: str | None = None) -> int:
    """Prints what is wrong beside its lines. stdin: the text of what was read there."""
    for diagnostic in error.diagnostics:
        try:
            source: str | None = read_text(diagnostic.file)
        except (OSError, UnicodeDecodeError):
            source = stdin
        fault(render(diagnostic, source))
        fault("")
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
