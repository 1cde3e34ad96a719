"""Progress of long work: texts such as `proving rules: 3 of 12 …`, and a bar in notebooks."""

from __future__ import annotations

import contextlib
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from hnfc.core.notebook import progress_html

Progress = Callable[[str], None]
"""Takes the stage at hand in words."""

_WAIT, _STEP = 2.0, 0.5
"""Seconds before a bar is shown, and between its changes."""


def stage_of(text: str) -> str:
    """The stage without its counts."""
    return text.partition(":")[0].removesuffix("…").strip()


def counted(text: str) -> tuple[int, int] | None:
    """The counts of a text such as `3 of 12`: what is done, and of how much."""
    found = re.search(r"\b([\d,]+) of ([\d,]+)\b", text)
    return (int(found[1].replace(",", "")), int(found[2].replace(",", ""))) if found else None


@contextlib.contextmanager
def progressing(progress: Progress | None, work: str) -> Iterator[Progress]:
    """The callable that takes the stages: the given one; else a bar in a notebook; elsewhere nothing is shown.

    work: the first stage.
    """
    display = _display() if progress is None else None
    if display is None:
        tell = progress or _nothing
        tell(work)
        yield tell
        return
    bar = _NotebookBar(display, work)
    try:
        yield bar
    finally:
        bar.end()


def _nothing(text: str) -> None:
    pass


def _display() -> Callable[..., Any] | None:
    """IPython's display, in a notebook."""
    python = sys.modules.get("IPython")
    shell = python.get_ipython() if python is not None else None
    if python is None or not hasattr(shell, "kernel"):
        return None
    shown: Callable[..., Any] = python.display.display
    return shown


class _Html:
    """HTML that notebooks show."""

    def __init__(self, text: str) -> None:
        self.text = text

    def _repr_html_(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return ""


class _NotebookBar:
    """A bar below a cell from two seconds on, with the stage and the time; it is empty at the end."""

    def __init__(self, display: Callable[..., Any], text: str) -> None:
        self._display, self._text = display, text
        self._handle: Any = None
        self._began = time.monotonic()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def __call__(self, text: str) -> None:
        self._text = text

    def _run(self) -> None:
        wait = _WAIT
        while not self._ended.wait(wait):
            wait = _STEP
            self._show(progress_html(self._text, time.monotonic() - self._began, counted(self._text)))

    def _show(self, text: str) -> None:
        if self._handle is None:
            self._handle = self._display(_Html(text), display_id=True)
        else:
            self._handle.update(_Html(text))

    def end(self) -> None:
        """Takes the bar away."""
        self._ended.set()
        self._thread.join()
        if self._handle is not None:
            self._show("")
