"""FPCore text as nested lists of symbols, and its numbers and formats."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fractions import Fraction
from typing import Any, TypeAlias

from hnfc.core.errors import ModelError

Form: TypeAlias = "str | list[Any]"
"""An S-expression: a symbol, number or string as it is written, or a list."""

ROUNDING, OVERFLOW = "nearestEven", "infinity"
"""The rounding direction and the overflow behaviour that operations have."""
FORMATS = {"binary64": "f64", "binary32": "f32", "binary16": "f16", "real": "f64"}
CONSTANTS: dict[str, Form] = {
    "E": ["exp", "1"], "PI": ["*", "4", ["atan", "1"]], "PI_2": ["*", "2", ["atan", "1"]], "PI_4": ["atan", "1"], "LN2": ["log", "2"],
    "LN10": ["log", "10"], "SQRT2": ["sqrt", "2"], "SQRT1_2": ["sqrt", "1/2"], "LOG2E": ["/", "1", ["log", "2"]],
    "LOG10E": ["/", "1", ["log", "10"]], "M_1_PI": ["/", "1", ["*", "4", ["atan", "1"]]],
    "M_2_PI": ["/", "1", ["*", "2", ["atan", "1"]]], "M_2_SQRTPI": ["/", "2", ["sqrt", ["*", "4", ["atan", "1"]]]],
}  # fmt: skip
TOKEN = re.compile(r';[^\n]*|"(?:[^"\\]|\\.)*"|[()\[\]]|[^\s()\[\]";]+')
_DEPTH = 400


def forms_of(text: str, name: str) -> Iterator[tuple[int, Form, str]]:
    """The forms of the text, the lines where they begin, and how they are written."""
    stack: list[list[Any]] = []
    start, begin = 1, 0
    for match in TOKEN.finditer(text):
        token = match[0]
        if token.startswith(";"):
            continue
        if token in "([":
            if not stack:
                start, begin = text.count("\n", 0, match.start()) + 1, match.start()
            stack.append([])
            if len(stack) > _DEPTH:
                raise ModelError(f"{name}:{start}: nested more than {_DEPTH} deep")
        elif token in ")]":
            line = text.count("\n", 0, match.start()) + 1
            if not stack:
                raise ModelError(f"{name}:{line}: a closing parenthesis without an opening one")
            done = stack.pop()
            if stack:
                stack[-1].append(done)
            else:
                yield start, done, text[begin : match.end()]
        elif not stack:
            raise ModelError(f"{name}:{text.count(chr(10), 0, match.start()) + 1}: expected (FPCore …), but got {token}")
        else:
            stack[-1].append(token)
    if stack:
        raise ModelError(f"{name}:{start}: a parenthesis that opens here is never closed")


def format_of(name: Any) -> str:
    if name in FORMATS.values():
        return str(name)
    if name not in FORMATS:
        raise ModelError(f"the precision {text_of(name)} is not supported; there are {', '.join(FORMATS)}")
    return FORMATS[name]


def text_of(form: Form) -> str:
    return form if isinstance(form, str) else "(" + " ".join(map(text_of, form)) + ")"


def number(symbol: Form) -> Fraction | None:
    """The value of a literal: decimal, rational or hexadecimal; None for anything else."""
    if isinstance(symbol, list):
        if symbol[:1] == ["digits"] and len(symbol) == 4:
            m, e, b = (number(part) for part in symbol[1:])
            if m is not None and e is not None and b is not None and e.denominator == b.denominator == 1 and abs(e) <= 5000:
                return m * b ** int(e)
        return None
    try:
        if re.fullmatch(r"[+-]?0x[0-9a-fA-F.]+(p[+-]?\d+)?", symbol):
            return Fraction(float.fromhex(symbol))
        exponent = re.search(r"[eE]([+-]?\d+)$", symbol)
        if exponent and abs(int(exponent[1])) > 5000:
            return None
        return Fraction(symbol)
    except (ValueError, OverflowError, ZeroDivisionError):
        return None


def properties_of(parts: list[Any]) -> tuple[dict[str, Any], Any]:
    """`:key value …`, and the one form that follows."""
    found, rest = {}, list(parts)
    while len(rest) >= 2 and isinstance(rest[0], str) and rest[0].startswith(":"):
        key = rest.pop(0)
        found[key] = rest.pop(0)
    if len(rest) != 1:
        raise ModelError(f"expected one expression after the properties, but got {len(rest)}")
    for key, only in ((":round", ROUNDING), (":overflow", OVERFLOW)):
        if found.get(key, only) != only:
            raise ModelError(f"{key} {text_of(found[key])} is not supported; operations are taken with {key} {only}")
    return found, rest[0]
