"""Room for recursion: expressions of rule files may be nested deeper than Python's default stack allows.

The command line runs in it before it knows what it needs, so nothing of the language is imported here.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")

STACK_BYTES = 512 << 20
FRAMES = 200_000
"""Python's frames need about a kilobyte of the stack each; a rule has at most 2000 nodes, and a file a million characters."""

SHALLOW = 60
"""Expressions up to this depth, and source with as many operators in a row, need no room."""

_inside = threading.local()
_lock = threading.Lock()


def with_room(function: Callable[..., T], *arguments: Any) -> T:
    """The result of the function, which runs on a thread with a large stack; its exceptions are raised here."""
    if getattr(_inside, "deep", False):
        return function(*arguments)
    found: list[T] = []
    raised: list[BaseException] = []

    def run() -> None:
        _inside.deep = True
        try:
            found.append(function(*arguments))
        except BaseException as error:
            raised.append(error)

    # the limit is one for all threads, and the stack size that of the next thread
    with _lock:
        limit, size = sys.getrecursionlimit(), threading.stack_size(STACK_BYTES)
        try:
            sys.setrecursionlimit(max(limit, FRAMES))
            thread = threading.Thread(target=run, daemon=True)
            thread.start()
            threading.stack_size(size)
            thread.join()
        finally:
            threading.stack_size(size)
            sys.setrecursionlimit(limit)
    if raised:
        raise raised[0]
    return found[0]
