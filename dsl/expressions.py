"""Expressions of the tree → expressions over operations: names and axes resolved, definitions inlined, arguments counted."""

from __future__ import annotations

import difflib
import inspect
import math
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

from xdsl.irdl import OptOperandDef, VarOperandDef

from hnfc.dialects.facts import Access
from hnfc.dialects.num import OPERATIONS
from hnfc.dialects.num.base import ReductionOp
from hnfc.dialects.types import ELEMENT_TYPES, FORMATS
from hnfc.dsl import core, syntax
from hnfc.dsl.constants import PI, folded
from hnfc.dsl.diagnostics import Diagnostic, HnfError, Span
from hnfc.dsl.einsum import QUOTE, WrongEinsum, expanded
from hnfc.dsl.movement import FORMS, moved, rearranged
from hnfc.dsl.scope import Scope

CONSTANTS: dict[str, core.Literal] = {
    "pi": core.Literal(PI),
    "inf": core.Literal(float("inf")),
}
_OTHER_SPELLINGS = {"True": "true", "False": "false", "Inf": "inf", "INFINITY": "inf"}
"""Constants as Python and C spell them; a rule would take them for tensors."""
_OTHER_FUNCTIONS = {
    "float": "write `inf` or `-inf` for an infinity; a cast is `cast(x, f32)`",
    "outer": "write `einsum(\"i,j->ij\", x, y)`, or `unsqueeze[-1](x) * unsqueeze[-2](y)`",
    "dot": "write `x @ y`", "mm": "write `x @ y`", "bmm": "write `x @ y`",
}  # fmt: skip
_OPTIONS_OF_AXES = ("keepdim", "keepdims", "dim", "axis")
TRUTHS = {"true": core.Literal(Fraction(0)), "false": core.Literal(Fraction(1))}
"""Numbers that 0 is compared with, which is true or false."""
_NAMES = {symbol: name for name, symbol in syntax.OPERATORS.items()}
PREDICATES = {"==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}
_LOGICAL = {"and": "logical_and", "or": "logical_or", "not": "logical_not"}
_POINTWISE_TWINS = {"max": "maximum", "min": "minimum"}
FACTS = {"finite", "integral"}
"""Properties of the values themselves, for `where` and `when`."""
ADVICE = {"overflows", "underflows", "cancels", "bounded", "rounds"}
"""Properties of what was observed or is known, for `when` only: they prove nothing (docs/reference.md)."""
PROPERTIES = FACTS | ADVICE
_MAX_NODES = 2000
MAX_BITS = 4096


class Expressions:
    """Reads expressions of one file. Every fault is an HnfError with one diagnostic at its place."""

    def __init__(self, file: syntax.File, definitions: dict[str, syntax.Definition]) -> None:
        self.file = file
        self.definitions = definitions
        self.left_axes = False
        """True if axes may be counted from the left: in the graph of a test, whose ranks are known."""
        self.nodes = 0

    def expression(self, tree: syntax.Tree, scope: Scope) -> core.Expr:
        self.nodes += 1
        if self.nodes > _MAX_NODES:
            raise self.error(
                "HNF0212", f"the rule has more than {_MAX_NODES} nodes once definitions are inlined", tree.span, "make it smaller"
            )
        match tree:
            case syntax.Number():
                return core.Literal(tree.value)
            case syntax.Name():
                return self._name(tree, scope)
            case syntax.Annotated():
                return self._annotated(tree, scope)
            case syntax.Operator():
                return self._operator(tree, scope)
            case syntax.Call():
                return self._call(tree, scope)
        raise AssertionError(tree)

    def _name(self, tree: syntax.Name, scope: Scope) -> core.Expr:
        name = tree.name
        if name.startswith(QUOTE):
            help_ = 'only einsum does, as in `einsum("ij,jk->ik", a, b)`'
            raise self.error("HNF0241", f"a function takes no text, but got {name}", tree.span, help_)
        if name in scope.lets:
            return self._let(scope.lets[name], scope)
        if name in scope.bindings:
            scope.used.add(name)
            return scope.bindings[name]
        if name in CONSTANTS:
            return CONSTANTS[name]
        if name in TRUTHS:
            return core.Apply(OPERATIONS["compare"], (core.Literal(Fraction(0)), TRUTHS[name]), (("predicate", "eq"),), tree.span)
        if (meant := _OTHER_SPELLINGS.get(name)) is not None:
            raise self.error("HNF0243", f"`{name}` is written `{meant}` in a rule", tree.span, f"write `{meant}`")
        if name in ELEMENT_TYPES:
            raise self.error("HNF0213", f"`{name}` is an element type, not a value", tree.span, f"as in `cast(x, {name})`")
        if not scope.binding_allowed:
            known = [*scope.bindings, *scope.lets]
            bound = f"it binds {', '.join(f'`{n}`' for n in known) or 'no names'}"
            hint = did_you_mean(name, known) or f"{bound}; if the rule holds for every value of `{name}`, write `for {name}` below it"
            raise self.error("HNF0214", f"`{name}` is not bound by the left side", tree.span, hint)
        capture = core.Capture(name, const=tree.const)
        scope.bindings[name] = capture
        return capture

    def _let(self, let: syntax.Let, scope: Scope) -> core.Expr:
        scope.used.add(let.name)
        if let.name not in scope.bindings:
            if let.name in scope.entering:
                raise self.error("HNF0215", f"`{let.name}` is defined by itself", let.span, "a `let` may use only the others")
            scope.entering += (let.name,)
            scope.bindings[let.name] = self.expression(let.value, scope)
            scope.entering = scope.entering[:-1]
        return scope.bindings[let.name]

    def _annotated(self, tree: syntax.Annotated, scope: Scope) -> core.Expr:
        for dtype in tree.dtypes:
            if dtype not in ELEMENT_TYPES:
                raise self.error("HNF0216", f"there is no element type `{dtype}`", tree.span, meant_type(dtype))
        operand = self.expression(tree.operand, scope)
        if not isinstance(operand, core.Capture):
            raise self.error("HNF0217", "only a captured name can have an element type", tree.span, "write `(x : f16)`")
        if operand.dtypes and operand.dtypes != tree.dtypes:
            raise self.error("HNF0218", f"`{operand.name}` has two different element types", tree.span, "annotate it once")
        annotated = core.Capture(operand.name, tree.dtypes, operand.const)
        scope.bindings[operand.name] = annotated
        return annotated

    def _operator(self, tree: syntax.Operator, scope: Scope) -> core.Expr:
        operands = tuple(self.expression(operand, scope) for operand in tree.operands)
        symbol = tree.symbol
        if symbol == "-" and len(operands) == 1:
            (operand,) = operands
            if isinstance(operand, core.Literal):
                return core.Literal(-operand.value)
            return core.Apply(OPERATIONS["neg"], operands, (), tree.span)
        if symbol in PREDICATES:
            return core.Apply(OPERATIONS["compare"], operands, (("predicate", PREDICATES[symbol]),), tree.span)
        if symbol in _LOGICAL:
            return core.Apply(OPERATIONS[_LOGICAL[symbol]], operands, (), tree.span)
        if all(isinstance(operand, core.Literal) for operand in operands) and symbol in "+-*/":
            try:
                value = folded(symbol, *(operand.value for operand in operands))  # type: ignore[union-attr]
            except ZeroDivisionError:
                raise self.error("HNF0219", "this divides by zero", tree.span, "mend the number") from None
            if isinstance(value, Fraction) and max(value.numerator.bit_length(), value.denominator.bit_length()) > MAX_BITS:
                raise self.error("HNF0239", f"a number of more than {MAX_BITS} bits", tree.span, "write a shorter number")
            if value is not None:
                return core.Literal(value)
        if symbol == "-" and operands[1] == CONSTANTS["inf"]:
            # what a mask leaves out has a meaning as a sum only
            return core.Apply(OPERATIONS["add"], (operands[0], core.Literal(-math.inf)), (), tree.span)
        if symbol == "**" and operands[1] == core.Literal(Fraction(2)):
            return core.Apply(OPERATIONS["square"], operands[:1], (), tree.span)
        return core.Apply(OPERATIONS[_NAMES[symbol]], operands, (), tree.span)

    def _call(self, tree: syntax.Call, scope: Scope) -> core.Expr:
        if tree.function in self.definitions:
            return self._inline(tree, scope)
        if tree.function in PROPERTIES | {"free", "rank", "dtype"}:
            raise self.error("HNF0220", f"`{tree.function}` is a condition, not a value", tree.name_span, "use it after `where` or `when`")
        if tree.function in FORMS:
            return moved(self, tree, scope)
        if tree.function == "einsum":
            return self.expression(self._einsum(tree), scope)
        if tree.function in ("reshape", "permute"):
            return rearranged(self, tree, scope)
        axes = self.axes(tree, scope)
        if tree.function == "size":
            self.arity(tree, 1)
            return core.Size(self.expression(tree.arguments[0], scope), axes)
        if tree.function in ("cast", "round_to"):
            return self._cast(tree, scope)
        if tree.function == "transpose":
            self.arity(tree, 1)
            return core.Apply(OPERATIONS["transpose"], (self.expression(tree.arguments[0], scope),), (("perm", "last_two"),), tree.span)
        if tree.function in ("unsqueeze", "squeeze"):
            self.arity(tree, 1)
            if len(axes) != 1 or not isinstance(axes[0], int):
                raise self.error(
                    "HNF0221", f"`{tree.function}` takes one axis counted from the right", tree.span, f"as in `{tree.function}[-1](x)`"
                )
            return core.Apply(OPERATIONS["reshape"], (self.expression(tree.arguments[0], scope),), ((tree.function, axes[0]),), tree.span)
        name = tree.function
        if not axes and name in _POINTWISE_TWINS and len(tree.arguments) >= 2:
            name = _POINTWISE_TWINS[name]
        if name not in OPERATIONS:
            known = [*OPERATIONS, *self.definitions, "size", "unsqueeze", "squeeze", "permute", "einsum"]
            help_ = _OTHER_FUNCTIONS.get(tree.function) or did_you_mean(tree.function, known)
            raise self.error("HNF0222", f"there is no function `{tree.function}`", tree.name_span, help_)
        return self._apply(tree, name, axes, scope)

    def _apply(self, tree: syntax.Call, name: str, axes: core.Axes, scope: Scope) -> core.Expr:
        operation = OPERATIONS[name]
        definition = operation.get_irdl_definition()
        takes_axes = "axes" in definition.properties
        if takes_axes and not axes:
            raise self.error(
                "HNF0223", f"`{name}` needs the axes that it acts along", tree.name_span, f"as in `{name}[k](x)` or `{name}[-1](x)`"
            )
        if axes and not takes_axes:
            alone = operation.FACTS.access is Access.ELEMENTWISE
            does = "acts element by element and takes no axes" if alone else "takes no axes in a rule"
            raise self.error("HNF0224", f"`{name}` {does}", tree.name_span, f"write `{name}(…)`")
        attributes: list[tuple[str, Any]] = [("axes", axes)] if takes_axes else []
        for key, value in tree.keywords:
            if key in ("keepdim", "keepdims") and takes_axes:
                self._check_kept(name, value)
                continue
            if key not in definition.properties or key == "axes":
                hint = did_you_mean(key, definition.properties) or f"if a comparison is meant, write `{key} == …`"
                raise self.error("HNF0225", f"`{name}` has no attribute `{key}`", value.span, hint)
            attributes.append((key, self._attribute(value, scope)))
            if key == "accumulate" and attributes[-1][1] not in FORMATS:
                raise self.error("HNF0228", "`accumulate` needs a floating-point format", value.span, ", ".join(FORMATS))
        self._check_complete(tree, operation, {key for key, _ in attributes})
        operands = tuple(self.expression(argument, scope) for argument in tree.arguments)
        if not issubclass(operation, ReductionOp) or len(operands) != 1:
            self.arity(tree, *_operand_counts(operation))
        return core.Apply(operation, operands, tuple(attributes), tree.span)

    def _check_complete(self, tree: syntax.Call, operation: type[Any], given: set[str]) -> None:
        """Raises HnfError where an attribute is missing that the meaning of the operation needs."""
        if operation.FACTS.real is None:
            return
        parameters = inspect.signature(operation.FACTS.real).parameters
        for key in operation.get_irdl_definition().properties:
            if key in parameters and key not in given and parameters[key].default is inspect.Parameter.empty:
                hint = f"as in `{tree.function}(…, {key} = const {key[0]})` for any, or with a number"
                raise self.error("HNF0240", f"`{tree.function}` needs `{key}`", tree.name_span, hint)

    def _check_kept(self, name: str, value: syntax.Tree) -> None:
        """Raises HnfError where a reduction is to lose its axes: in rules they stay."""
        if not isinstance(value, syntax.Name) or value.name.lower() != "true":
            raise self.error(
                "HNF0225", f"`{name}` keeps its axes in a rule, with size 1; it fits models that drop them too", value.span,
                f"leave it away, or drop the last axis by `squeeze[-1]({name}[-1](…))`",
            )  # fmt: skip

    def _attribute(self, tree: syntax.Tree, scope: Scope) -> Any:
        known = (scope.bindings, scope.lets, CONSTANTS)
        if isinstance(tree, syntax.Name) and not tree.const and not any(tree.name in names for names in known):
            return tree.name == "true" if tree.name in TRUTHS else tree.name
        value = self.expression(tree, scope)
        if isinstance(value, core.Literal):
            return float(value.value)
        if isinstance(value, core.Capture) and value.const:
            return value
        raise self.error(
            "HNF0226", "an attribute is a number, a name or a `const` capture", tree.span, "compute it on the left with `const c`"
        )

    def _einsum(self, tree: syntax.Call) -> syntax.Tree:
        """The expression that an einsum stands for."""
        first = tree.arguments[0] if tree.arguments else None
        if not isinstance(first, syntax.Name) or not first.name.startswith(QUOTE) or len(tree.arguments) < 2 or tree.axes or tree.keywords:
            raise self.error("HNF0242", "`einsum` takes a text and operands", tree.span, 'as in `einsum("ij,jk->ik", a, b)`')
        try:
            return expanded(first.name.strip(QUOTE), tree.arguments[1:], tree.span)
        except WrongEinsum as wrong:
            raise self.error("HNF0242", wrong.message, first.span, wrong.help) from None

    def _cast(self, tree: syntax.Call, scope: Scope) -> core.Expr:
        if len(tree.arguments) != 2 or tree.keywords:
            message = f"`{tree.function}` takes a value and an element type"
            raise self.error("HNF0228", message, tree.span, f"as in `{tree.function}(x, f32)` or `{tree.function}(x, dtype(y))`")
        target = tree.arguments[1]
        operand = self.expression(tree.arguments[0], scope)
        element: Any
        if isinstance(target, syntax.Name) and tree.function == "round_to" and target.name in ELEMENT_TYPES.keys() - FORMATS.keys():
            known = ", ".join(FORMATS)
            raise self.error("HNF0228", f"`round_to` needs a floating-point format, and `{target.name}` is none", target.span, known)
        if isinstance(target, syntax.Name) and target.name in ELEMENT_TYPES:
            element = target.name
        elif isinstance(target, syntax.Call) and target.function == "dtype" and len(target.arguments) == 1:
            captured = self.expression(target.arguments[0], scope)
            if not isinstance(captured, core.Capture):
                raise self.error("HNF0227", "`dtype(…)` takes a captured name", target.span, "as in `dtype(x)`")
            element = core.DTypeOf(captured.name)
        else:
            raise self.error(
                "HNF0228", f"`{tree.function}` needs an element type", target.span, "as in `cast(x, f32)` or `cast(x, dtype(y))`"
            )
        key = "to" if tree.function == "cast" else "format"
        return core.Apply(OPERATIONS[tree.function], (operand,), ((key, element),), tree.span)

    def _inline(self, tree: syntax.Call, scope: Scope) -> core.Expr:
        definition = self.definitions[tree.function]
        if tree.function in scope.entering:
            raise self.error("HNF0229", f"`{tree.function}` is defined by itself", tree.name_span, "a definition cannot be recursive")
        if len(tree.arguments) != len(definition.parameters):
            self.arity(tree, len(definition.parameters))
        if len(tree.axes) != len(definition.axes):
            raise self.error(
                "HNF0230", f"`{tree.function}` takes {len(definition.axes)} axes, but {len(tree.axes)} are given", tree.name_span,
                f"as in `{tree.function}[{', '.join(definition.axes)}](…)`" if definition.axes else "",
            )  # fmt: skip
        outer_axes = self.axes(tree, scope)
        inner = Scope(binding_allowed=False, entering=(*scope.entering, tree.function))
        for parameter, argument in zip(definition.parameters, tree.arguments, strict=True):
            inner.bindings[parameter] = self.expression(argument, scope)
        inner.axes = {name: (axis,) for name, axis in zip(definition.axes, outer_axes, strict=True)}
        return self.expression(definition.body, inner)

    def axes(self, tree: syntax.Call, scope: Scope) -> core.Axes:
        result: list[core.Axis] = []
        for axis in tree.axes:
            if axis in _OPTIONS_OF_AXES:
                help_ = f"axes stand in the brackets, and reductions keep them: write `{tree.function}[k](…)`"
                raise self.error("HNF0244", f"`{axis}` is no axis", tree.name_span, help_)
            if isinstance(axis, str) and axis in scope.axes:
                result += scope.axes[axis]
            elif isinstance(axis, str):
                if not scope.binding_allowed:
                    hint = did_you_mean(axis, scope.axes) or "the left side does not bind it"
                    raise self.error("HNF0231", f"the axis `{axis}` is not bound by the left side", tree.name_span, hint)
                scope.axes[axis] = (axis,)
                result.append(axis)
            elif axis >= 0 and not self.left_axes:
                raise self.error(
                    "HNF0238", "the axes of a rule are counted from the right", tree.name_span, "write -1 for the last axis, or a name"
                )
            else:
                result.append(axis)
        if len(set(result)) != len(result):
            raise self.error("HNF0232", "the same axis is named twice", tree.name_span, "name it once")
        return tuple(result)

    def arity(self, tree: syntax.Call, *allowed: int) -> None:
        if len(tree.arguments) not in allowed:
            wanted = " or ".join(map(str, allowed))
            what = f"`{tree.function}` takes {wanted} argument{'' if allowed == (1,) else 's'}, but {len(tree.arguments)} are given"
            raise self.error("HNF0233", what, tree.span, "")

    def number(self, tree: syntax.Tree) -> Fraction:
        value = self.expression(tree, Scope(binding_allowed=False))
        if not isinstance(value, core.Literal) or not isinstance(value.value, Fraction):
            raise self.error("HNF0236", "expected a number", tree.span, "")
        return value.value

    def error(self, code: str, message: str, span: Span, help_: str) -> HnfError:
        return HnfError([Diagnostic(code, message, self.file.path, span, help=help_)])


def _operand_counts(operation: type[Any]) -> tuple[int, ...]:
    operands = operation.get_irdl_definition().operands
    required = sum(not isinstance(definition, OptOperandDef | VarOperandDef) for _, definition in operands)
    if any(isinstance(d, VarOperandDef) and not isinstance(d, OptOperandDef) for _, d in operands):
        return tuple(range(required, required + 16))
    return tuple(range(required, len(operands) + 1))


def names_in(tree: syntax.Tree) -> Iterable[syntax.Name]:
    match tree:
        case syntax.Name():
            yield tree
        case syntax.Operator():
            for operand in tree.operands:
                yield from names_in(operand)
        case syntax.Annotated():
            yield from names_in(tree.operand)
        case syntax.Call():
            for argument in (*tree.arguments, *(value for _, value in tree.keywords)):
                yield from names_in(argument)


_TYPE_LETTERS = {"float": "f", "bfloat": "bf", "int": "si", "uint": "ui"}
_TORCH_TYPES = {
    "bool": "i1", "float": "f32", "double": "f64", "half": "f16", "int": "si32", "long": "si64",
    **{f"{name}{bits}": f"{kind}{bits}" for name, kind in _TYPE_LETTERS.items() for bits in (8, 16, 32, 64)},
}  # fmt: skip
"""Element types as torch and NumPy name them."""


def meant_type(name: str) -> str:
    """Advice on a name that is no element type."""
    known = _TORCH_TYPES.get(name.lower(), "")
    return f"write `{known}`" if known in ELEMENT_TYPES else did_you_mean(name, ELEMENT_TYPES) or f"there are {', '.join(ELEMENT_TYPES)}"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, list(known), n=1)
    return f"did you mean `{close[0]}`?" if close else ""
