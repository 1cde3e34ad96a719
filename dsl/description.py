"""Expressions and conditions as they read in a rule file, for messages."""

from __future__ import annotations

from typing import Any

from hnfc.dsl import core

SYMBOLS = {"eq": "=", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/", "matmul": "@", "pow": "**"}


def describe(part: core.Condition | core.Expr) -> str:
    """The condition or expression as it reads in a rule file."""
    match part:
        case core.Capture(name):
            return name
        case core.Literal(value):
            return str(int(value)) if value == int(value) else f"{float(value):g}"
        case core.Size(operand, axes):
            return f"size[{', '.join(map(str, axes))}]({describe(operand)})"
        case core.Apply(operands=operands):
            if part.name in _INFIX:
                return f"({describe(operands[0])} {_INFIX[part.name]} {describe(operands[1])})"
            if part.name == "neg":
                return f"-{describe(operands[0])}"
            return _application(part)
        case core.Comparison(predicate, x, y):
            return f"{_bare(x)} {SYMBOLS[predicate]} {_bare(y)}"
        case core.Free(operand, axes):
            return f"free[{', '.join(map(str, axes))}]({describe(operand)})"
        case core.SameSize(x, y, axes):
            if axes == (core.ALL,):
                return f"shape({describe(x)}) = shape({describe(y)})"
            along = ", ".join(map(str, axes))
            return f"size[{along}]({describe(x)}) = size[{along}]({describe(y)})"
        case core.Property("rank" | "dtype", operands, arguments):
            symbol = SYMBOLS[arguments[0]] if part.name == "rank" else "="
            return f"{part.name}({describe(operands[0])}) {symbol} {arguments[-1]}"
        case core.Property(name, operands):
            return f"{name}({', '.join(map(describe, operands))})"
        case core.AllOf(parts):
            return " and ".join(map(describe, parts))
        case core.AnyOf(parts):
            return " or ".join(map(describe, parts))
        case core.Not(inner):
            return f"not {describe(inner)}"
    raise AssertionError(part)


def _bare(side: core.Expr) -> str:
    """A side of a comparison, without parentheses around it."""
    text = describe(side)
    return text[1:-1] if isinstance(side, core.Apply) and side.name in _INFIX else text


def _application(part: core.Apply) -> str:
    """An application by its name, with what its attributes are in a rule file."""
    settings = dict(part.attributes)
    axes = settings.pop("axes", ()) or ((settings.pop("axis"),) if "axis" in settings else ())
    place = settings.pop("unsqueeze", settings.pop("squeeze", None))
    axes = axes or (() if place is None else (place,))
    head = f"{part.name}[{', '.join(map(str, axes))}]" if axes else part.name
    if part.name == "compare":
        return f"({describe(part.operands[0])} {SYMBOLS[settings['predicate']]} {describe(part.operands[1])})"
    if place is not None:
        head = head.replace("reshape", "unsqueeze" if "unsqueeze" in dict(part.attributes) else "squeeze")
    if isinstance(settings.get("perm"), core.Capture | core.Apply):
        head, places = "permute", [describe(settings.pop("perm"))]
    else:
        settings.pop("perm", None)
        keys = ("start", "stop", "step", "low", "high", "size", "shape", "to", "format")
        places = [_setting(settings.pop(key)) for key in keys if key in settings]
    named = [f"{key}={_setting(value)}" for key, value in settings.items() if value is not None]
    return f"{head}({', '.join([*map(describe, part.operands), *places, *named])})"


def _setting(value: Any) -> str:
    match value:
        case core.DTypeOf(capture):
            return f"dtype({capture})"
        case core.Capture() | core.Literal() | core.Size() | core.Apply():
            return describe(value)
        case float():
            return f"{value:g}"
    return str(value).lower() if isinstance(value, bool) else str(value)
