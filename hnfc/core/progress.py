"""Progress of long work: texts such as `proving rules: 3 of 12 …`, and a bar in notebooks."""

from __future__ import annotations

import contextlib
import functools
import inspect
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any, TypeVar, cast

from hnfc.core.arguments import callable_of
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


_current: ContextVar[Progress | None] = ContextVar("progress", default=None)
F = TypeVar("F", bound=Callable[..., Any])


def tell(text: str) -> None:
    """Gives the stage at hand to whoever follows the work of this thread, if somebody does."""
    progress = _current.get()
    if progress is not None:
        progress(text)


@contextlib.contextmanager
def following(progress: Progress) -> Iterator[None]:
    """Within, the callable takes what `tell` gets."""
    before = _current.set(progress)
    try:
        yield
    finally:
        _current.reset(before)


def reporting(work: str) -> Callable[[F], F]:
    """A function whose argument `progress` takes what `tell` gets while it runs. work: its first stage."""

    def decorate(function: F) -> F:
        parameters = inspect.signature(function)

        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            progress = None
            # the function itself names what is wrong with its arguments
            with contextlib.suppress(TypeError):
                progress = parameters.bind(*args, **kwargs).arguments.get("progress")
            with progressing(callable_of(progress, "progress"), work):
                return function(*args, **kwargs)

        return cast(F, run)

    return decorate


@contextlib.contextmanager
def progressing(progress: Progress | None, work: str) -> Iterator[Progress]:
    """Within, the stages go to the given callable; else to whoever follows the work around this; else to a bar in a notebook.

    work: the first stage.
    """
    follower = progress or _current.get()
    display = _display() if follower is None else None
    bar = _NotebookBar(display) if display is not None else None
    taking = follower or bar
    try:
        with following(taking) if taking is not None else contextlib.nullcontext():
            tell(work)
            yield tell
    finally:
        if bar is not None:
            bar.end()


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

    def __init__(self, display: Callable[..., Any]) -> None:
        self._display, self._text = display, ""
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
