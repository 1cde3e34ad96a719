"""Work that may end the process, tried in a child first."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import select
import signal
import time
import warnings
from collections.abc import Callable

_TRIES = 3
_START_SECONDS = 5.0
"""Seconds for a child to begin: one that another thread's lock holds from its first moment never does, and is made again."""
_MOST_SECONDS = 120.0
"""Seconds for the work itself."""


def survives(work: Callable[[], object]) -> bool:
    """Return whether a child lives on after the work, whose changes and words stay there; True where no child can be made.

    Work that does not end counts as work that ends the process.
    """
    if not hasattr(os, "fork"):
        return True
    for _ in range(_TRIES):
        outcome = _tried(work)
        if outcome is not None:
            return outcome
    return True


def _tried(work: Callable[[], object]) -> bool | None:
    """Return whether a child lives on; None where it did not begin."""
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of threads, as JAX has them, which the child does not need
        child = os.fork()
    if child == 0:
        os.write(writer, b"1")
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        faulthandler.disable()
        with contextlib.suppress(BaseException):
            work()
        os._exit(0)  # without what the parent does at its end
    os.close(writer)
    try:
        # what is written, or the end of the pipe where the child has died, wakes this
        if not select.select([reader], [], [], _START_SECONDS)[0]:
            _ended(child)
            return None
        return _code(child) == 0
    finally:
        os.close(reader)


def _code(child: int) -> int | None:
    """Exit code of the child; None where it was ended after its time."""
    deadline, pause = time.monotonic() + _MOST_SECONDS, 0.0005
    while time.monotonic() < deadline:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        time.sleep(pause)
        pause = min(2 * pause, 0.02)
    _ended(child)
    return None


def _ended(child: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
