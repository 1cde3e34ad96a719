"""Room for recursion: expressions of rule files may be nested deeper than Python's default stack allows.

The command line runs in it before it knows what it needs, so rules are imported only where one is looked at.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from hnfc.dsl.core import Expr, Rule

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


def is_deep(*roots: Expr) -> bool:
    """Return whether an expression is nested deeper than SHALLOW."""
    level = list(roots)
    for _ in range(SHALLOW):
        level = [part for node in {id(node): node for node in level}.values() for part in _parts(node)]
        if not level:
            return False
    return True


def _parts(node: Expr) -> tuple[Expr, ...]:
    from hnfc.dsl.core import Apply, Size

    if isinstance(node, Apply):
        return (*node.operands, *(value for _, value in node.attributes if isinstance(value, Apply | Size)))
    return (node.operand,) if isinstance(node, Size) else ()


def rule_is_deep(rule: Rule) -> bool:
    from hnfc.dsl.core import condition_expressions

    return is_deep(rule.pattern, rule.replacement, *condition_expressions(rule.where), *condition_expressions(rule.when))


def of_rule(rule: Rule, function: Callable[..., T], *arguments: Any) -> T:
    """The result of the function, with room where the rule needs it."""
    return with_room(function, *arguments) if rule_is_deep(rule) else function(*arguments)
