"""FPCore expressions → `num`."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from xdsl.dialects.builtin import FloatAttr
from xdsl.ir import Block, SSAValue

from hnfc.core.errors import ModelError
from hnfc.dialects.num import OPERATIONS
from hnfc.dialects.num.base import as_tensor, element_name
from hnfc.dialects.types import tensor
from hnfc.frontend.fpcore_forms import CONSTANTS, Form, format_of, number, properties_of, text_of

PLAIN = {
    "-": "sub", "+": "add", "*": "mul", "/": "div", "sqrt": "sqrt", "cbrt": "cbrt",
    "exp": "exp", "log": "log", "sin": "sin", "cos": "cos", "tan": "tan",
    "asin": "asin", "acos": "acos", "atan": "atan", "atan2": "atan2", "sinh": "sinh", "cosh": "cosh", "tanh": "tanh", "asinh": "asinh",
    "acosh": "acosh", "atanh": "atanh", "fabs": "abs", "fma": "fma", "pow": "pow", "hypot": "hypot", "exp2": "exp2", "log2": "log2",
    "log10": "log10", "log1p": "log1p", "expm1": "expm1", "erf": "erf", "erfc": "erfc", "floor": "floor", "ceil": "ceil",
    "trunc": "trunc", "nearbyint": "round", "fmin": "minimum", "fmax": "maximum", "fmod": "fmod",
}  # fmt: skip


COMPARISONS = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge", "==": "eq", "!=": "ne"}


@dataclass(frozen=True)
class Function:
    """A named FPCore, for calls of it. precision: its own; None where it takes that of the call."""

    arguments: tuple[str, ...]
    body: Form
    precision: str | None


@dataclass
class FPCoreBuilder:
    """functions: what may be called, by name; called: the results of calls, each built once."""

    block: Block
    functions: Mapping[str, Function] = field(default_factory=dict)
    called: dict[tuple[str, tuple[SSAValue, ...], str], SSAValue] = field(default_factory=dict)
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
            if form in CONSTANTS:
                return self.value(CONSTANTS[form], {}, kind)
            if form in ("INFINITY", "NAN"):
                return self._plain(float("inf") if form == "INFINITY" else float("nan"), kind)
            raise ModelError(f"nothing is called {form} here")
        if not form:
            raise ModelError("an empty expression")
        head, *parts = form
        special = {"let": self._let, "let*": self._let, "if": self._if, "!": self._context, "cast": self._cast}.get(text_of(head))
        if special is not None:
            return special(text_of(head), parts, names, kind)
        if head == "-" and len(parts) == 1:
            return self.add("neg", self.cast(self.value(parts[0], names, kind), kind))
        if head == "round" and len(parts) == 1:
            raise ModelError("round breaks ties away from 0, which is not supported; nearbyint breaks them to even")
        name = PLAIN.get(text_of(head))
        if name is None and isinstance(head, str) and head in self.functions:
            return self._call(head, [self.value(part, names, kind) for part in parts], kind)
        if name is None:
            loops = ("while", "while*", "for", "for*", "tensor", "tensor*", "array")
            raise ModelError(f"{text_of(head)} is not supported" + (": loops and arrays have no bound here" if head in loops else ""))
        wanted = len(OPERATIONS[name].get_irdl_definition().operands)
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

    def _call(self, name: str, operands: list[SSAValue], kind: str) -> SSAValue:
        function = self.functions[name]
        if len(operands) != len(function.arguments):
            wanted = len(function.arguments)
            raise ModelError(f"{name} takes {wanted} operand{'s' * (wanted != 1)}, but got {len(operands)}")
        key = (name, tuple(operands), kind)
        if key not in self.called:
            within = dict(zip(function.arguments, operands, strict=True))
            self.called[key] = self.cast(self.value(function.body, within, function.precision or kind), kind)
        return self.called[key]

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
        own, body = properties_of(parts)
        return self.value(body, names, format_of(own[":precision"]) if ":precision" in own else kind)

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
            raise ModelError(f"expected a condition, but got {text_of(form)}")
        head, *parts = form
        if head in ("let", "let*"):
            return self._let(head, parts, names, kind, self.truth)
        if head in ("and", "or"):
            return self._all(f"logical_{head}", [self.truth(part, names, kind) for part in parts])
        if head == "not" and len(parts) == 1:
            return self.add("logical_not", self.truth(parts[0], names, kind))
        if head not in COMPARISONS or len(parts) < 2:
            raise ModelError(f"expected a condition, but got {text_of(form)}")
        values = [self.cast(self.value(part, names, "f64"), "f64") for part in parts]
        pairs = [self.add("compare", x, y, predicate=COMPARISONS[head]) for x, y in itertools.pairwise(values)]
        return self._all("logical_and", pairs)

    def _all(self, name: str, values: list[SSAValue]) -> SSAValue:
        result = values[0]
        for value in values[1:]:
            result = self.add(name, result, value)
        return result
