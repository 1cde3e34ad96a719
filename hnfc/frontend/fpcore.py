"""FPCore 2.0 (fpbench.org) → `num`: a program of numbers is a graph of tensors without axes.

Operations round as the context says in which they stand (`:precision`); a number that no format holds is the quotient of two whole ones,
so that its rounding counts. A call of an FPCore that stands before it is what that computes. Loops, arrays and roundings other than to
nearest are refused.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

from xdsl.dialects.func import ReturnOp
from xdsl.ir import Block, SSAValue

from hnfc.core.errors import ModelError
from hnfc.core.plain_files import read_text
from hnfc.dialects.types import tensor
from hnfc.frontend.fpcore_builder import FPCoreBuilder, Function
from hnfc.frontend.fpcore_forms import TOKEN, Form, format_of, forms_of, number, properties_of


@dataclass
class FPCoreProgram:
    """One FPCore. ranges: what its precondition says of each argument by itself; conditions: all of it, as truth values of the block;
    text: how it is written; line: the number of its first line in its file."""

    name: str
    block: Block
    arguments: dict[str, SSAValue]
    ranges: dict[str, tuple[float, float]]
    conditions: list[SSAValue]
    properties: dict[str, Form] = field(default_factory=dict)
    text: str = ""
    line: int = 1

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
        return sys.stdin.buffer.read().decode() if str(source) == "-" else read_text(source)
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
    functions: dict[str, Function] = {}
    for line, form, written in forms_of(text, name):
        try:
            program = _program(form, functions)
            program.text, program.line = written, line
            yield written, program
        except ModelError as error:
            yield written, ModelError(f"{name}:{line}: {error}")


def with_body(text: str, body: str) -> str:
    """The text of an FPCore with another expression; all else is as it was."""
    depth, begin, end = 0, 0, 0
    for match in TOKEN.finditer(text):
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


def _program(form: Form, functions: dict[str, Function]) -> FPCoreProgram:
    """The program of a form, which is from now on one of the functions if it has a name."""
    if not isinstance(form, list) or len(form) < 3 or form[0] != "FPCore":
        raise ModelError("expected (FPCore (arguments …) :properties … expression)")
    rest = form[1:]
    name = rest.pop(0) if isinstance(rest[0], str) else ""
    if not rest or not isinstance(rest[0], list):
        raise ModelError("expected a list of arguments after FPCore")
    given = rest.pop(0)
    properties, body = properties_of(rest)
    label = str(properties.get(":name", name)).strip('"')
    precision = format_of(properties.get(":precision", "binary64"))
    names = []
    for argument in given:
        if isinstance(argument, list):
            if argument[:1] != ["!"]:
                raise ModelError("arguments that are arrays are not supported")
            own, argument = properties_of(argument[1:])
            names.append((argument, format_of(own.get(":precision", precision))))
        else:
            names.append((argument, precision))
    twice = next((n for i, (n, _) in enumerate(names) if n in [m for m, _ in names[:i]]), None)
    if twice:
        raise ModelError(f"the argument {twice} is given twice")
    block = Block(arg_types=[tensor(kind, ()) for _, kind in names])
    arguments: dict[str, SSAValue] = {n: value for (n, _), value in zip(names, block.args, strict=True)}
    for argument, value in arguments.items():
        value.name_hint = argument if re.fullmatch(r"[A-Za-z_]\w*", argument) else None
    builder = FPCoreBuilder(block, dict(functions))
    condition = properties.get(":pre")
    ranges = _ranges(condition, set(arguments)) if condition is not None else {}
    conditions = [builder.truth(condition, arguments, "f64")] if condition is not None else []
    result = builder.value(body, arguments, precision)
    block.add_op(ReturnOp(result))
    if name:
        functions[name] = Function(tuple(arguments), body, precision if ":precision" in properties else None)
    return FPCoreProgram(label or "(unnamed)", block, arguments, ranges, conditions, properties)


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
