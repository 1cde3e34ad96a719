"""FPCore 2.0 (fpbench.org) → `num`: a program of numbers is a graph of tensors without axes.

Operations round as the context says in which they stand (`:precision`); a number that no format holds is the quotient of two whole ones,
so that its rounding counts. Loops, arrays, functions that call others and roundings other than to nearest are refused.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeAlias

from xdsl.dialects.builtin import FloatAttr
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Block, SSAValue

from hnfc.core.errors import ModelError
from hnfc.dialects.num import OPERATIONS
from hnfc.dialects.num.base import as_tensor, element_name
from hnfc.dialects.types import tensor

Form: TypeAlias = "str | list[Any]"
"""An S-expression: a symbol, number or string as it is written, or a list."""

FORMATS = {"binary64": "f64", "binary32": "f32", "binary16": "f16", "real": "f64"}

PLAIN = {
    "-": "sub", "+": "add", "*": "mul", "/": "div", "sqrt": "sqrt", "cbrt": "cbrt",
    "exp": "exp", "log": "log", "sin": "sin", "cos": "cos", "tan": "tan",
    "asin": "asin", "acos": "acos", "atan": "atan", "atan2": "atan2", "sinh": "sinh", "cosh": "cosh", "tanh": "tanh", "asinh": "asinh",
    "acosh": "acosh", "atanh": "atanh", "fabs": "abs", "fma": "fma", "pow": "pow", "hypot": "hypot", "exp2": "exp2", "log2": "log2",
    "log10": "log10", "log1p": "log1p", "expm1": "expm1", "erf": "erf", "erfc": "erfc", "floor": "floor", "ceil": "ceil",
    "trunc": "trunc", "nearbyint": "round", "fmin": "minimum", "fmax": "maximum", "fmod": "fmod",
}  # fmt: skip
COMPARISONS = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge", "==": "eq", "!=": "ne"}
_CONSTANTS: dict[str, Form] = {
    "E": ["exp", "1"], "PI": ["*", "4", ["atan", "1"]], "PI_2": ["*", "2", ["atan", "1"]], "PI_4": ["atan", "1"], "LN2": ["log", "2"],
    "LN10": ["log", "10"], "SQRT2": ["sqrt", "2"], "SQRT1_2": ["sqrt", "1/2"], "LOG2E": ["/", "1", ["log", "2"]],
    "LOG10E": ["/", "1", ["log", "10"]], "M_1_PI": ["/", "1", ["*", "4", ["atan", "1"]]],
    "M_2_PI": ["/", "1", ["*", "2", ["atan", "1"]]], "M_2_SQRTPI": ["/", "2", ["sqrt", ["*", "4", ["atan", "1"]]]],
}  # fmt: skip
ROUNDING, OVERFLOW = "nearestEven", "infinity"
"""The rounding direction and the overflow behaviour that operations have."""
_TOKEN = re.compile(r';[^\n]*|"(?:[^"\\]|\\.)*"|[()\[\]]|[^\s()\[\]";]+')
_DEPTH = 400


@dataclass
class FPCoreProgram:
    """One FPCore. ranges: what its precondition says of each argument by itself; conditions: all of it, as truth values of the block;
    text: how it is written."""

    name: str
    block: Block
    arguments: dict[str, SSAValue]
    ranges: dict[str, tuple[float, float]]
    conditions: list[SSAValue]
    properties: dict[str, Form] = field(default_factory=dict)
    text: str = ""

    @property
    def result(self) -> SSAValue:
        assert self.block.last_op is not None
        return self.block.last_op.operands[0]


def read_programs(source: str | Path, refused: list[str] | None = None) -> list[FPCoreProgram]:
    """Every FPCore of a file. Raises ModelError with the file, the line and the reason; programs that are not supported are left out
    where there is a list for the reasons."""
    return list(programs(_text_of(source), str(source), refused))


def _text_of(source: str | Path) -> str:
    try:
        return Path(source).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ModelError(f"{source}: cannot be read as text ({error.strerror if isinstance(error, OSError) else 'no UTF-8'})") from None


def programs(text: str, name: str = "<text>", refused: list[str] | None = None) -> Iterator[FPCoreProgram]:
    """Every FPCore of a text. Raises ModelError, as `read_programs` does."""
    for found in all_programs(text, name):
        if isinstance(found, FPCoreProgram):
            yield found
        elif refused is None:
            raise found
        else:
            refused.append(str(found))


def all_programs(text: str, name: str = "<text>") -> Iterator[FPCoreProgram | ModelError]:
    """Every FPCore of a text, or why it is not supported, in order. Raises ModelError where the text is no list of forms."""
    for _, program in _with_texts(text, name):
        yield program


def read_forms(source: str | Path) -> list[tuple[str, FPCoreProgram | ModelError]]:
    """The text of every form of a file, with the program that it is, or why that is not supported. Raises as `read_programs` does."""
    return list(_with_texts(_text_of(source), str(source)))


def _with_texts(text: str, name: str) -> Iterator[tuple[str, FPCoreProgram | ModelError]]:
    for line, form, written in _forms(text, name):
        try:
            program = _program(form)
            program.text = written
            yield written, program
        except ModelError as error:
            yield written, ModelError(f"{name}:{line}: {error}")


def _forms(text: str, name: str) -> Iterator[tuple[int, Form, str]]:
    """The forms of the text, the lines where they begin, and how they are written."""
    stack: list[list[Any]] = []
    start, begin = 1, 0
    for match in _TOKEN.finditer(text):
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


def with_body(text: str, body: str) -> str:
    """The text of an FPCore with another expression; all else is as it was."""
    depth, begin, end = 0, 0, 0
    for match in _TOKEN.finditer(text):
        token = match[0]
        if token.startswith(";"):
            continue
        if token in "([":
            depth += 1
        if token in ")]":
            depth -= 1
        elif depth == (2 if token in "([" else 1):
            begin = match.start()
        if depth >= 1:
            end = match.end()
    return text[:begin] + body + text[end:]


def _program(form: Form) -> FPCoreProgram:
    if not isinstance(form, list) or len(form) < 3 or form[0] != "FPCore":
        raise ModelError("expected (FPCore (arguments …) :properties … expression)")
    rest = form[1:]
    name = rest.pop(0) if isinstance(rest[0], str) else ""
    if not rest or not isinstance(rest[0], list):
        raise ModelError("expected a list of arguments after FPCore")
    given = rest.pop(0)
    properties, body = _properties(rest)
    label = str(properties.get(":name", name)).strip('"')
    precision = _format(properties.get(":precision", "binary64"))
    names = []
    for argument in given:
        if isinstance(argument, list):
            if argument[:1] != ["!"]:
                raise ModelError("arguments that are arrays are not supported")
            own, argument = _properties(argument[1:])
            names.append((argument, _format(own.get(":precision", precision))))
        else:
            names.append((argument, precision))
    twice = next((n for i, (n, _) in enumerate(names) if n in [m for m, _ in names[:i]]), None)
    if twice:
        raise ModelError(f"the argument {twice} is given twice")
    block = Block(arg_types=[tensor(kind, ()) for _, kind in names])
    arguments: dict[str, SSAValue] = {n: value for (n, _), value in zip(names, block.args, strict=True)}
    for argument, value in arguments.items():
        value.name_hint = argument if re.fullmatch(r"[A-Za-z_]\w*", argument) else None
    builder = _Builder(block)
    condition = properties.get(":pre")
    ranges = _ranges(condition, set(arguments)) if condition is not None else {}
    conditions = [builder.truth(condition, arguments, "f64")] if condition is not None else []
    result = builder.value(body, arguments, precision)
    block.add_op(ReturnOp(result))
    return FPCoreProgram(label or "(unnamed)", block, arguments, ranges, conditions, properties)


def _properties(parts: list[Any]) -> tuple[dict[str, Any], Any]:
    """`:key value …`, and the one form that follows."""
    found, rest = {}, list(parts)
    while len(rest) >= 2 and isinstance(rest[0], str) and rest[0].startswith(":"):
        key = rest.pop(0)
        found[key] = rest.pop(0)
    if len(rest) != 1:
        raise ModelError(f"expected one expression after the properties, but got {len(rest)}")
    for key, only in ((":round", ROUNDING), (":overflow", OVERFLOW)):
        if found.get(key, only) != only:
            raise ModelError(f"{key} {_text(found[key])} is not supported; operations are taken with {key} {only}")
    return found, rest[0]


def _format(name: Any) -> str:
    if name in FORMATS.values():
        return str(name)
    if name not in FORMATS:
        raise ModelError(f"the precision {_text(name)} is not supported; there are {', '.join(FORMATS)}")
    return FORMATS[name]


def _text(form: Form) -> str:
    return form if isinstance(form, str) else "(" + " ".join(map(_text, form)) + ")"


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


@dataclass
class _Builder:
    block: Block
    made: dict[tuple[Any, ...], SSAValue] = field(default_factory=dict)

    def add(self, name: str, *operands: SSAValue, **attributes: Any) -> SSAValue:
        """One operation; the same one on the same operands is made once."""
        key = (name, operands, tuple(attributes.items()))
        if key not in self.made:
            operation = OPERATIONS[name].make(*operands, **attributes)
            self.block.add_op(operation)
            self.made[key] = operation.results[0]
        return self.made[key]

    def cast(self, value: SSAValue, to: str) -> SSAValue:
        return value if element_name(as_tensor(value.type)) == to else self.add("cast", value, to=to)

    def constant(self, value: Fraction, kind: str) -> SSAValue:
        """The number, or a quotient of whole numbers that are exact and whose rounding is the number's own."""
        near = float(value) if abs(value) < 2**1024 - 2**970 else None
        if near is None or Fraction(near) == value:
            return self._plain(near if near is not None else (float("inf") if value > 0 else float("-inf")), kind)
        n, d = value.numerator, value.denominator
        if abs(n) < 2**53 and d < 2**53:
            return self.cast(self.add("div", self._plain(float(n), "f64"), self._plain(float(d), "f64")), kind)
        # near·(1 + r) would round twice: what is beyond the digits of a double counts as an operand
        return self.cast(self.add("add", self._plain(near, "f64"), self._plain(float(value - Fraction(near)), "f64")), kind)

    def _plain(self, value: float, kind: str) -> SSAValue:
        key = ("constant", value, kind)
        if key not in self.made:
            operation = OPERATIONS["constant"].create(result_types=[tensor(kind, ())], properties={"value": FloatAttr(value, 64)})
            self.block.add_op(operation)
            self.made[key] = operation.results[0]
        return self.made[key]

    def value(self, form: Form, names: Mapping[str, SSAValue], kind: str) -> SSAValue:
        literal = number(form)
        if literal is not None:
            return self.constant(literal, kind)
        if isinstance(form, str):
            if form in names:
                return names[form]
            if form in _CONSTANTS:
                return self.value(_CONSTANTS[form], {}, kind)
            if form in ("INFINITY", "NAN"):
                return self._plain(float("inf") if form == "INFINITY" else float("nan"), kind)
            raise ModelError(f"nothing is called {form} here")
        if not form:
            raise ModelError("an empty expression")
        head, *parts = form
        special = {"let": self._let, "let*": self._let, "if": self._if, "!": self._context, "cast": self._cast}.get(_text(head))
        if special is not None:
            return special(_text(head), parts, names, kind)
        if head == "-" and len(parts) == 1:
            return self.add("neg", self.cast(self.value(parts[0], names, kind), kind))
        if head == "round" and len(parts) == 1:
            raise ModelError("round breaks ties away from 0, which is not supported; nearbyint breaks them to even")
        name = PLAIN.get(_text(head))
        if name is None:
            loops = {"while", "while*", "for", "for*", "tensor", "tensor*", "array"}
            raise ModelError(f"{_text(head)} is not supported" + (": loops and arrays have no bound here" if head in loops else ""))
        wanted = {"fma": 3}.get(name, 2 if name in _BINARY else 1)
        if head in ("+", "*") and parts and len(parts) != 2:
            folded: Form = parts[0]
            for part in parts[1:]:
                folded = [head, folded, part]
            return self.value(folded, names, kind)
        if len(parts) != wanted:
            raise ModelError(f"{head} takes {wanted} operand{'s' * (wanted > 1)}, but got {len(parts)}")
        operands = [self.value(part, names, kind) for part in parts]
        wider = "f64" if any(element_name(as_tensor(o.type)) == "f64" for o in operands) else kind
        return self.cast(self.add(name, *(self.cast(o, wider) for o in operands)), kind)

    def _let(self, head: str, parts: list[Any], names: Mapping[str, SSAValue], kind: str, inside: Any = None) -> SSAValue:
        if len(parts) != 2 or not all(isinstance(b, list) and len(b) == 2 and isinstance(b[0], str) for b in parts[0]):
            raise ModelError(f"expected ({head} ([name value] …) expression)")
        inner = dict(names)
        for name, bound in parts[0]:
            inner[name] = self.value(bound, inner if head == "let*" else names, kind)
        return (inside or self.value)(parts[1], inner, kind)

    def _if(self, head: str, parts: list[Any], names: Mapping[str, SSAValue], kind: str) -> SSAValue:
        if len(parts) != 3:
            raise ModelError("expected (if condition then else)")
        condition = self.truth(parts[0], names, kind)
        return self.add("where", condition, *(self.cast(self.value(part, names, kind), kind) for part in parts[1:]))

    def _context(self, head: str, parts: list[Any], names: Mapping[str, SSAValue], kind: str) -> SSAValue:
        own, body = _properties(parts)
        return self.value(body, names, _format(own[":precision"]) if ":precision" in own else kind)

    def _cast(self, head: str, parts: list[Any], names: Mapping[str, SSAValue], kind: str) -> SSAValue:
        if len(parts) != 1:
            raise ModelError(f"cast takes 1 operand, but got {len(parts)}")
        return self.cast(self.value(parts[0], names, kind), kind)

    def truth(self, form: Form, names: Mapping[str, SSAValue], kind: str) -> SSAValue:
        """A condition. A comparison of several is one of each with the next."""
        if form in ("TRUE", "FALSE"):
            zero = self._plain(0.0, "f64")
            return self.add("compare", zero, zero, predicate="eq" if form == "TRUE" else "ne")
        if not isinstance(form, list) or not form:
            raise ModelError(f"expected a condition, but got {_text(form)}")
        head, *parts = form
        if head in ("let", "let*"):
            return self._let(head, parts, names, kind, self.truth)
        if head in ("and", "or"):
            return self._all(f"logical_{head}", [self.truth(part, names, kind) for part in parts])
        if head == "not" and len(parts) == 1:
            return self.add("logical_not", self.truth(parts[0], names, kind))
        if head not in COMPARISONS or len(parts) < 2:
            raise ModelError(f"expected a condition, but got {_text(form)}")
        values = [self.cast(self.value(part, names, "f64"), "f64") for part in parts]
        pairs = [self.add("compare", x, y, predicate=COMPARISONS[head]) for x, y in itertools.pairwise(values)]
        return self._all("logical_and", pairs)

    def _all(self, name: str, values: list[SSAValue]) -> SSAValue:
        result = values[0]
        for value in values[1:]:
            result = self.add(name, result, value)
        return result


_BINARY = frozenset(("add", "sub", "mul", "div", "atan2", "pow", "hypot", "minimum", "maximum", "fmod"))


def _ranges(condition: Form, names: set[str]) -> dict[str, tuple[float, float]]:
    """Intervals from comparisons of an argument with numbers in a conjunction; ends are rounded inward, since inputs are numbers."""
    found: dict[str, tuple[float, float]] = {}

    def narrow(name: str, lo: float, hi: float) -> None:
        before = found.get(name, (float("-inf"), float("inf")))
        found[name] = (max(before[0], lo), min(before[1], hi))

    def visit(form: Form) -> None:
        if not isinstance(form, list) or not form:
            return
        head, *parts = form
        if head == "and":
            for part in parts:
                visit(part)
        elif head in ("<", "<=", ">", ">=", "=="):
            rising = head in ("<", "<=")
            for i, x in enumerate(parts):
                for y in parts[i + 1 :]:
                    low, high = (x, y) if rising or head == "==" else (y, x)
                    for a, b in ((low, high), (high, low)) if head == "==" else ((low, high),):
                        if isinstance(a, str) and a in names and _number(b) is not None:
                            narrow(a, float("-inf"), float(_number(b)))  # type: ignore[arg-type]
                        if isinstance(b, str) and b in names and _number(a) is not None:
                            narrow(b, float(_number(a)), float("inf"))  # type: ignore[arg-type]

    visit(condition)
    return found


def _number(form: Form) -> Fraction | None:
    """A literal, with a sign in front or not."""
    if isinstance(form, list) and len(form) == 2 and form[0] == "-":
        inner = _number(form[1])
        return None if inner is None else -inner
    return number(form)
