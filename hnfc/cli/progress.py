"""Progress of a command: a spinner with the stage and the time on a terminal, the time of each stage under --verbose."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

from hnfc.cli.terminal import detail, is_quiet, visible
from hnfc.core.progress import counted, following, stage_of

_WAIT, _LOADING = 2.0, 0.2
"""Seconds after which a command shows what it does, and that it is being loaded."""


class Progress:
    """Takes the stage at hand. A terminal shows it once a command takes more than two seconds, or at once where rules are proved."""

    def __init__(self, wait: float | None = None) -> None:
        self._wait = _WAIT if wait is None else wait
        self._bar: Any = None
        self._task: Any = None
        self._timer: threading.Timer | None = None
        self._lock = threading.Lock()
        self._ended = False
        self._text = self._stage = ""
        self._began = self._stage_began = 0.0
        self._following = contextlib.ExitStack()

    def __enter__(self) -> Progress:
        self._following.enter_context(following(self))
        self._began = self._stage_began = time.monotonic()
        # a cell of a notebook gives its programs a terminal, and keeps every frame
        drawn = sys.stderr is not None and sys.stderr.isatty() and "JPY_PARENT_PID" not in os.environ
        if drawn and not is_quiet():
            self._timer = threading.Timer(self._wait, self._show)
            self._timer.daemon = True
            self._timer.start()
        return self

    def __call__(self, text: str) -> None:
        if stage_of(text) != self._stage:
            self._end_stage()
            self._stage, self._stage_began = stage_of(text), time.monotonic()
        self._text = text
        if self._bar is not None:
            self._update()
        elif text.startswith("proving") and self._timer is not None:
            self._show()

    def _show(self) -> None:
        with self._lock:
            if self._bar is not None or self._ended:
                return
            from rich import progress
            from rich.console import Console

            columns = (progress.SpinnerColumn(), progress.TextColumn("{task.description}", markup=False), progress.TimeElapsedColumn())
            self._bar = progress.Progress(*columns, console=Console(stderr=True), transient=True)
            self._task = self._bar.add_task(visible(self._text), total=None)
            self._bar.start()

    def _update(self) -> None:
        done, total = counted(self._text) or (0, None)
        self._bar.update(self._task, description=visible(self._text), completed=done, total=total)

    def _end_stage(self) -> None:
        if self._stage:
            detail(f"{time.monotonic() - self._stage_began:7.2f} s  {self._stage}")

    def stop(self) -> None:
        """Takes the spinner away."""
        with self._lock:
            self._ended = True
            if self._timer is not None:
                self._timer.cancel()
            if self._bar is not None:
                self._bar.stop()
                self._bar = None

    def __exit__(self, *_: object) -> None:
        self._following.close()
        self.stop()
        self._end_stage()


@contextlib.contextmanager
def loading() -> Iterator[None]:
    """Says soon that a command is being loaded: the prover and torch take a second or more where the disk is slow."""
    with Progress(_LOADING) as tell:
        tell("loading …")
        yield
