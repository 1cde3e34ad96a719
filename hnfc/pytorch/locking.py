"""One capture at a time, and no graph running meanwhile: torch changes modules and operations of the whole process while it traces."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator


class CaptureLock:
    """Runs share it, a capture has it alone. A thread that captures may run and capture further."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._running: dict[int, int] = {}
        self._capturing = 0
        self._depth = 0

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """The time of a run."""
        me = threading.get_ident()
        with self._changed:
            while self._capturing not in (0, me) and not self._running.get(me):
                self._changed.wait()
            self._running[me] = self._running.get(me, 0) + 1
        try:
            yield
        finally:
            with self._changed:
                self._running[me] -= 1
                if not self._running[me]:
                    del self._running[me]
                    self._changed.notify_all()

    @contextlib.contextmanager
    def capturing(self) -> Iterator[None]:
        """The time of a capture; it starts when all runs of other threads are over."""
        me = threading.get_ident()
        with self._changed:
            while self._capturing not in (0, me):
                self._changed.wait()
            self._capturing = me
            self._depth += 1
            while any(thread != me for thread in self._running):
                self._changed.wait()
        try:
            yield
        finally:
            with self._changed:
                self._depth -= 1
                if not self._depth:
                    self._capturing = 0
                    self._changed.notify_all()


CAPTURES = CaptureLock()
