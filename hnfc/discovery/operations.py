"""The operations that terms are made of: each is an expression of the rule language over the operands a, b and c."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from hnfc.core.errors import UsageError, suggestion
from hnfc.dialects.num import OPERATIONS
from hnfc.dsl import core
from hnfc.dsl.core import Apply, Capture, Expr, Literal, Size
from hnfc.dsl.diagnostics import HnfError
from hnfc.dsl.rulebook import load_text

OPERANDS = ("a", "b", "c")
AXIS = "k"
SYMBOLS = ("+", "-", "*", "/", "@", "**")


@dataclass(frozen=True)
class Operation:
    """An expression of one to three operands, applied as a whole."""

    expression: Expr

    @cached_property
    def operands(self) -> tuple[str, ...]:
        """The operands that it has, in order."""
        return tuple(sorted(core.captures(self.expression)))

    @cached_property
    def simple(self) -> Apply | None:
        """The expression where it is one operation of the dialect on its operands in order."""
        found = self.expression
        inside = found.operands if isinstance(found, Apply) else ()
        return found if isinstance(found, Apply) and inside == tuple(map(Capture, self.operands)) else None

    def of(self, *values: Expr) -> Expr:
        """The expression with values for its operands."""
        return _replaced(self.expression, dict(zip(self.operands, values, strict=True)))


def operations(text: str) -> list[Operation]:
    """The operations that a list names: `exp, +, sum[k]`, or expressions as `a / (1 + a)`. Raises UsageError."""
    parts = list(dict.fromkeys(_parts(text)))
    if not parts:
        raise UsageError("name the operations that terms are made of, as in `exp, log, +`")
    return [_operation(part) for part in parts]


def leaf(text: str) -> Literal:
    """A number as a term. Raises UsageError."""
    try:
        found = _read(f"a * ({text})")
    except HnfError:
        raise UsageError(f"--constants takes numbers, for instance 1,2,1/2: `{text}` is none") from None
    value = found.operands[1] if isinstance(found, Apply) and len(found.operands) == 2 else None
    if not isinstance(value, Literal):
        raise UsageError(f"--constants takes numbers, for instance 1,2,1/2: `{text}` is none")
    return value


def _axes_of(expression: Expr) -> set[str]:
    """The names of axes in an expression."""
    found: set[str] = set()
    for node in core.walk(expression):
        attributes = dict(node.attributes) if isinstance(node, Apply) else {}
        axes = node.axes if isinstance(node, Size) else (*attributes.get("axes", ()), attributes.get("axis", -1))
        found |= {axis for axis in axes if isinstance(axis, str)}
    return found


def has_axis(expression: Expr) -> bool:
    """Return whether an operation of the expression goes along the axis."""
    return AXIS in _axes_of(expression)


def size_of(expression: Expr) -> int:
    """The number of operations."""
    return sum(isinstance(node, Apply) for node in core.walk(expression))


def _parts(text: str) -> list[str]:
    """The parts of a list; commas inside of brackets do not part."""
    parts, depth = [""], 0
    for character in text:
        depth += (character in "([") - (character in ")]")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts if part.strip()]


def _operation(text: str) -> Operation:
    try:
        made = Operation(_read(_call(text)))
    except HnfError as error:
        names = [*OPERATIONS, *SYMBOLS]
        hint = suggestion(text, names) if text.isidentifier() and text not in names else ""
        raise UsageError(f"`{text}` is no operation: {error.diagnostics[0].message}{hint}") from None
    if not made.operands or not set(made.operands) <= set(OPERANDS):
        raise UsageError(f"`{text}`: operands of an operation are called a, b and c")
    if not _axes_of(made.expression) <= {AXIS}:
        raise UsageError(f"`{text}`: axes of an operation are called k, or counted from the right as in `sum[-1]`")
    return made


def _call(text: str) -> str:
    """The expression that a bare name, a name with axes, or a symbol stands for."""
    if text in SYMBOLS:
        return f"a {text} b"
    name = text.partition("[")[0]
    if name not in OPERATIONS or text.endswith(")"):
        return text
    definition = OPERATIONS[name].get_irdl_definition()
    axes = f"[{AXIS}]" if text == name and "axes" in definition.properties else text[len(name) :]
    return f"{name}{axes}({', '.join(OPERANDS[: len(definition.operands)])})"


def _read(expression: str) -> Expr:
    rule = load_text(f"library own\nrule own\n    {expression} => 0\n", "<operation>").rules[0]
    return rule.pattern


def _replaced(node: Expr, values: dict[str, Expr]) -> Expr:
    match node:
        case Capture(name):
            return values[name]
        case Size(operand, axes):
            return Size(_replaced(operand, values), axes)
        case Apply(operation, inside, attributes):
            return Apply(operation, tuple(_replaced(part, values) for part in inside), attributes)
    return node
