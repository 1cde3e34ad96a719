"""An elaborated rule as text, close to the rule language: definitions are inlined, and every function is an operation."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from hnfc.dsl.core import (
    AllOf,
    AnyOf,
    Apply,
    Capture,
    Comparison,
    Condition,
    DTypeOf,
    Expr,
    Free,
    Literal,
    Not,
    Property,
    Rule,
    SameSize,
    Size,
)

INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/", "matmul": "@", "pow": "**"}
PREDICATES = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


def rule_text(rule: Rule) -> str:
    """The rule in one line."""
    arrow = "~>" if rule.within is not None else "<=>" if rule.both_ways else "=>"
    text = f"{expression_text(rule.pattern)} {arrow} {expression_text(rule.replacement)}"
    where = condition_text(rule.where)
    return f"{text} where {where}" if where else text


def expression_text(node: Expr) -> str:
    match node:
        case Capture(name):
            return name
        case Literal(value):
            return str(value) if not isinstance(value, Fraction) or value.denominator == 1 else f"({value})"
        case Size(operand, axes):
            return f"size[{_axes(axes)}]({expression_text(operand)})"
    settings = dict(node.attributes)
    operands = [expression_text(x) for x in node.operands]
    if node.name in INFIX and len(operands) == 2 and not settings:
        return f"({operands[0]} {INFIX[node.name]} {operands[1]})"
    if node.name == "compare":
        return f"({operands[0]} {PREDICATES[settings['predicate']]} {operands[1]})"
    if node.name == "neg":
        return f"-{operands[0]}"
    axes = settings.pop("axes", None) or ((settings.pop("axis"),) if "axis" in settings else ())
    index = f"[{_axes(axes)}]" if axes else ""
    return f"{node.name}{index}({', '.join([*operands, *(f'{key}={_setting(value)}' for key, value in settings.items())])})"


def _axes(axes: Any) -> str:
    return ", ".join(map(str, axes))


def _setting(value: Any) -> str:
    if isinstance(value, Capture | Literal | Size | Apply):
        return expression_text(value)
    return f"dtype({value.capture})" if isinstance(value, DTypeOf) else str(value)


def condition_text(condition: Condition) -> str:
    match condition:
        case Comparison(predicate, x, y):
            return f"{expression_text(x)} {PREDICATES[predicate]} {expression_text(y)}"
        case Free(operand, axes):
            return f"free[{_axes(axes)}]({expression_text(operand)})"
        case SameSize(x, y, axes):
            return f"size[{_axes(axes)}]({expression_text(x)}) == size[{_axes(axes)}]({expression_text(y)})"
        case Property(name, operands, arguments):
            return f"{name}({', '.join([*map(expression_text, operands), *map(str, arguments)])})"
        case AllOf(parts) | AnyOf(parts):
            word = " and " if isinstance(condition, AllOf) else " or "
            return word.join(condition_text(part) if isinstance(condition, AllOf) else f"({condition_text(part)})" for part in parts)
        case Not(part):
            return f"not ({condition_text(part)})"
