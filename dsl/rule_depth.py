"""Depth of rules: a stack with room for those that are nested deeply."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from hnfc.dsl.core import Apply, Expr, Rule, Size, condition_expressions
from hnfc.dsl.depth import SHALLOW, with_room

T = TypeVar("T")


def is_deep(*roots: Expr) -> bool:
    """Return whether an expression is nested deeper than SHALLOW."""
    level = list(roots)
    for _ in range(SHALLOW):
        level = [part for node in {id(node): node for node in level}.values() for part in _parts(node)]
        if not level:
            return False
    return True


def _parts(node: Expr) -> tuple[Expr, ...]:
    if isinstance(node, Apply):
        return (*node.operands, *(value for _, value in node.attributes if isinstance(value, Apply | Size)))
    return (node.operand,) if isinstance(node, Size) else ()


def rule_is_deep(rule: Rule) -> bool:
    return is_deep(rule.pattern, rule.replacement, *condition_expressions(rule.where), *condition_expressions(rule.when))


def of_rule(rule: Rule, function: Callable[..., T], *arguments: Any) -> T:
    """The result of the function, with room where the rule needs it."""
    return with_room(function, *arguments) if rule_is_deep(rule) else function(*arguments)
