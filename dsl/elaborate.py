"""Syntax tree → rules: names resolved, definitions inlined, operations and axes checked.

Every fault is a Diagnostic at the place in the source where it lies; a file with faults yields none of its rules.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from hnfc.dialects.num import OPERATIONS
from hnfc.dialects.num.base import ReductionOp
from hnfc.dialects.types import ELEMENT_TYPES
from hnfc.dsl import core, syntax
from hnfc.dsl.diagnostics import Diagnostic, HnfError, Span

CONSTANTS: dict[str, core.Literal] = {
    "pi": core.Literal(3.141592653589793),
    "inf": core.Literal(float("inf")),
}
_SYMBOLS = {"+": "add", "-": "sub", "*": "mul", "/": "div", "@": "matmul", "**": "pow"}
_PREDICATES = {"==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}
_LOGICAL = {"and": "logical_and", "or": "logical_or", "not": "logical_not"}
_POINTWISE_TWINS = {"max": "maximum", "min": "minimum"}
FACTS = {"finite", "integral"}
"""Properties of the values themselves, for `where` and `when`."""
ADVICE = {"overflows", "underflows", "cancels", "bounded", "rounds"}
"""Properties of what was observed or is known, for `when` only: they prove nothing (docs/reference.md)."""
PROPERTIES = FACTS | ADVICE
_MAX_NODES = 2000


@dataclass
class Scope:
    """What names mean in the expression being read. `bound` is None while the pattern itself binds names."""

    bindings: dict[str, core.Expr] = field(default_factory=dict)
    lets: dict[str, syntax.Let] = field(default_factory=dict)
    axes: dict[str, core.Axes] = field(default_factory=dict)
    binding_allowed: bool = True
    used: set[str] = field(default_factory=set)
    entering: tuple[str, ...] = ()


class Elaborator:
    """Reads the declarations of one file; `definitions` holds those that it may use from other files."""

    def __init__(self, file: syntax.File, definitions: dict[str, syntax.Definition] | None = None) -> None:
        self.file = file
        self.definitions = dict(definitions or {})
        self.diagnostics: list[Diagnostic] = []
        self.left_axes = False
        """Whether axes may be counted from the left: in the graph of a test, whose ranks are known."""
        self._nodes = 0

    def rules(self) -> list[core.Rule]:
        """The rules of the file. Raises HnfError with everything that is wrong in it."""
        library = next((d for d in self.file.declarations if isinstance(d, syntax.Library)), None)
        self._collect_definitions()
        rules: dict[str, core.Rule] = {}
        for declaration in self.file.declarations:
            if isinstance(declaration, syntax.RuleDeclaration):
                if declaration.name in rules:
                    first = rules[declaration.name].span
                    line = f"the first is in line {first.line}" if first else ""
                    self._report(
                        "HNF0201", f"there are two rules `{declaration.name}`", declaration.name_span, "give one another name", line
                    )
                    continue
                try:
                    rules[declaration.name] = self._rule(declaration, library.name if library else "user")
                except HnfError as error:
                    self.diagnostics += error.diagnostics
        self._check_tests(rules)
        self._check_undoing(list(rules.values()))
        if any(d.severity == "error" for d in self.diagnostics):
            raise HnfError(self.diagnostics)
        return list(rules.values())

    # declarations

    def _collect_definitions(self) -> None:
        own: set[str] = set()
        for declaration in self.file.declarations:
            if not isinstance(declaration, syntax.Definition):
                continue
            if declaration.name in own:
                self._report("HNF0202", f"`{declaration.name}` is defined twice", declaration.span, "give one another name")
            own.add(declaration.name)
            self.definitions[declaration.name] = declaration
            used = {n.name for n in _names(declaration.body)}
            for parameter in declaration.parameters:
                if parameter not in used:
                    self._report("HNF0203", f"`{declaration.name}` does not use its parameter `{parameter}`", declaration.span, "remove it")

    def _rule(self, declaration: syntax.RuleDeclaration, library: str) -> core.Rule:
        self._nodes = 0
        scope = Scope()
        for let in declaration.lets:
            if let.name in scope.lets:
                raise self._error("HNF0204", f"`{let.name}` is named twice by `let`", let.span, "give one another name")
            scope.lets[let.name] = let
        pattern = self._expression(declaration.pattern, scope)
        if isinstance(pattern, core.Capture | core.Literal | core.Size):
            raise self._error(
                "HNF0205",
                "this pattern matches every value",
                declaration.pattern.span,
                "a pattern starts with an operation, as in `exp(x)`",
            )
        scope.binding_allowed = declaration.arrow == "<=>"
        left_names = set(scope.bindings)
        replacement = self._expression(declaration.replacement, scope)
        if declaration.arrow == "<=>":
            self._check_same_names(declaration, pattern, replacement, left_names)
        scope.binding_allowed = False
        where = self._condition(declaration.where, scope) if declaration.where else core.TRUE
        advice = [p.name for p in core.condition_parts(where) if isinstance(p, core.Property) and p.name in ADVICE]
        if advice and declaration.where:
            raise self._error("HNF0237", f"`{advice[0]}` proves nothing", declaration.where.span, f"move it to `when {advice[0]}(…)`")
        when = self._condition(declaration.when, scope) if declaration.when else core.TRUE
        for let in declaration.lets:
            if let.name not in scope.used:
                self._report("HNF0206", f"`{let.name}` is never used", let.span, "remove it")
        if pattern == replacement:
            raise self._error(
                "HNF0207", f"rule `{declaration.name}` replaces its pattern by itself", declaration.arrow_span, "remove the rule"
            )
        if (declaration.arrow == "~>") != (declaration.within is not None):
            raise self._error(
                "HNF0208", "an approximation `~>` states its error with `within`, and only an approximation does", declaration.arrow_span,
                "as in `gelu(x) ~> gelu_tanh(x) within 5e-4`",
            )  # fmt: skip
        within = self._number(declaration.within) if declaration.within else None
        return core.Rule(
            name=declaration.name, group=declaration.group or library, reason=declaration.reason, source=declaration.source,
            pattern=pattern, replacement=replacement, where=where, when=when, both_ways=declaration.arrow == "<=>", within=within,
            structural=declaration.structural, file=self.file.path, span=declaration.span,
            tests=tuple(c for t in self.file.declarations if isinstance(t, syntax.Test) and t.rule == declaration.name for c in t.cases),
        )  # fmt: skip

    def _check_same_names(self, declaration: syntax.RuleDeclaration, pattern: core.Expr, replacement: core.Expr, left: set[str]) -> None:
        right = set(core.captures(replacement))
        for name in sorted(right ^ set(core.captures(pattern))):
            side = "left" if name in left else "right"
            raise self._error(
                "HNF0209", f"`{name}` occurs on the {side} only", declaration.arrow_span, "write `=>`, or use it on both sides"
            )

    def _check_tests(self, rules: dict[str, core.Rule]) -> None:
        for declaration in self.file.declarations:
            if isinstance(declaration, syntax.Test) and declaration.rule not in rules and not self.diagnostics:
                self._report(
                    "HNF0210",
                    f"there is no rule `{declaration.rule}` in this file",
                    declaration.span,
                    _did_you_mean(declaration.rule, rules),
                )

    def _check_undoing(self, rules: list[core.Rule]) -> None:
        by_sides = {(canonical_text(r.pattern), canonical_text(r.replacement)): r for r in rules if not r.both_ways}
        for (left, right), rule in by_sides.items():
            other = by_sides.get((right, left))
            if other is not None and other.name > rule.name and rule.span and other.span:
                message = f"rules `{rule.name}` and `{other.name}` undo each other"
                self._report("HNF0211", message, other.span, "write one rule with `<=>`, or give each a condition", severity="warning")

    # expressions

    def _expression(self, tree: syntax.Tree, scope: Scope) -> core.Expr:
        self._nodes += 1
        if self._nodes > _MAX_NODES:
            raise self._error(
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
        if name in scope.lets:
            return self._let(scope.lets[name], scope)
        if name in scope.bindings:
            scope.used.add(name)
            return scope.bindings[name]
        if name in CONSTANTS:
            return CONSTANTS[name]
        if name in ELEMENT_TYPES:
            raise self._error("HNF0213", f"`{name}` is an element type, not a value", tree.span, f"as in `cast(x, {name})`")
        if not scope.binding_allowed:
            known = [*scope.bindings, *scope.lets]
            hint = _did_you_mean(name, known) or f"the left side binds {', '.join(f'`{n}`' for n in known) or 'no names'}"
            raise self._error("HNF0214", f"`{name}` is not bound by the left side", tree.span, hint)
        capture = core.Capture(name, const=tree.const)
        scope.bindings[name] = capture
        return capture

    def _let(self, let: syntax.Let, scope: Scope) -> core.Expr:
        scope.used.add(let.name)
        if let.name not in scope.bindings:
            if let.name in scope.entering:
                raise self._error("HNF0215", f"`{let.name}` is defined by itself", let.span, "a `let` may use only the others")
            scope.entering += (let.name,)
            scope.bindings[let.name] = self._expression(let.value, scope)
            scope.entering = scope.entering[:-1]
        return scope.bindings[let.name]

    def _annotated(self, tree: syntax.Annotated, scope: Scope) -> core.Expr:
        for dtype in tree.dtypes:
            if dtype not in ELEMENT_TYPES:
                raise self._error("HNF0216", f"there is no element type `{dtype}`", tree.span, _did_you_mean(dtype, ELEMENT_TYPES))
        operand = self._expression(tree.operand, scope)
        if not isinstance(operand, core.Capture):
            raise self._error("HNF0217", "only a captured name can have an element type", tree.span, "write `(x : f16)`")
        if operand.dtypes and operand.dtypes != tree.dtypes:
            raise self._error("HNF0218", f"`{operand.name}` has two different element types", tree.span, "annotate it once")
        annotated = core.Capture(operand.name, tree.dtypes, operand.const)
        scope.bindings[operand.name] = annotated
        return annotated

    def _operator(self, tree: syntax.Operator, scope: Scope) -> core.Expr:
        operands = tuple(self._expression(operand, scope) for operand in tree.operands)
        symbol = tree.symbol
        if symbol == "-" and len(operands) == 1:
            (operand,) = operands
            if isinstance(operand, core.Literal):
                return core.Literal(-operand.value)
            return core.Apply(OPERATIONS["neg"], operands, (), tree.span)
        if symbol in _PREDICATES:
            return core.Apply(OPERATIONS["compare"], operands, (("predicate", _PREDICATES[symbol]),), tree.span)
        if symbol in _LOGICAL:
            return core.Apply(OPERATIONS[_LOGICAL[symbol]], operands, (), tree.span)
        if all(isinstance(operand, core.Literal) for operand in operands) and symbol in "+-*/":
            folded = _fold(symbol, *(operand.value for operand in operands))  # type: ignore[union-attr]
            if folded is None:
                raise self._error("HNF0219", "this divides by zero", tree.span, "mend the number")
            return core.Literal(folded)
        if symbol == "**" and operands[1] == core.Literal(Fraction(2)):
            return core.Apply(OPERATIONS["square"], operands[:1], (), tree.span)
        return core.Apply(OPERATIONS[_SYMBOLS[symbol]], operands, (), tree.span)

    def _call(self, tree: syntax.Call, scope: Scope) -> core.Expr:
        if tree.function in self.definitions:
            return self._inline(tree, scope)
        if tree.function in PROPERTIES | {"free", "rank", "dtype"}:
            raise self._error("HNF0220", f"`{tree.function}` is a condition, not a value", tree.name_span, "use it after `where` or `when`")
        axes = self._axes(tree, scope)
        if tree.function == "size":
            self._arity(tree, 1)
            return core.Size(self._expression(tree.arguments[0], scope), axes)
        if tree.function in ("cast", "round_to"):
            return self._cast(tree, scope)
        if tree.function == "transpose":
            self._arity(tree, 1)
            return core.Apply(OPERATIONS["transpose"], (self._expression(tree.arguments[0], scope),), (("perm", "last_two"),), tree.span)
        if tree.function in ("unsqueeze", "squeeze"):
            self._arity(tree, 1)
            if len(axes) != 1 or not isinstance(axes[0], int):
                raise self._error(
                    "HNF0221", f"`{tree.function}` takes one axis counted from the right", tree.span, f"as in `{tree.function}[-1](x)`"
                )
            return core.Apply(OPERATIONS["reshape"], (self._expression(tree.arguments[0], scope),), ((tree.function, axes[0]),), tree.span)
        name = tree.function
        if not axes and name in _POINTWISE_TWINS and len(tree.arguments) >= 2:
            name = _POINTWISE_TWINS[name]
        if name not in OPERATIONS:
            known = [*OPERATIONS, *self.definitions, "size", "unsqueeze", "squeeze"]
            raise self._error("HNF0222", f"there is no function `{tree.function}`", tree.name_span, _did_you_mean(tree.function, known))
        return self._apply(tree, name, axes, scope)

    def _apply(self, tree: syntax.Call, name: str, axes: core.Axes, scope: Scope) -> core.Expr:
        operation = OPERATIONS[name]
        definition = operation.get_irdl_definition()
        takes_axes = "axes" in definition.properties
        if takes_axes and not axes:
            raise self._error(
                "HNF0223", f"`{name}` needs the axes that it acts along", tree.name_span, f"as in `{name}[k](x)` or `{name}[-1](x)`"
            )
        if axes and not takes_axes:
            raise self._error("HNF0224", f"`{name}` acts element by element and takes no axes", tree.name_span, f"write `{name}(…)`")
        attributes: list[tuple[str, Any]] = [("axes", axes)] if takes_axes else []
        for key, value in tree.keywords:
            if key not in definition.properties or key == "axes":
                raise self._error("HNF0225", f"`{name}` has no attribute `{key}`", value.span, _did_you_mean(key, definition.properties))
            attributes.append((key, self._attribute(value, scope)))
        operands = tuple(self._expression(argument, scope) for argument in tree.arguments)
        if not issubclass(operation, ReductionOp) or len(operands) != 1:
            self._arity(tree, *_operand_counts(operation))
        return core.Apply(operation, operands, tuple(attributes), tree.span)

    def _attribute(self, tree: syntax.Tree, scope: Scope) -> Any:
        if isinstance(tree, syntax.Name) and not tree.const and tree.name not in scope.bindings and tree.name not in scope.lets:
            return {"true": True, "false": False}.get(tree.name, tree.name)
        value = self._expression(tree, scope)
        if isinstance(value, core.Literal):
            return float(value.value)
        if isinstance(value, core.Capture) and value.const:
            return value
        raise self._error(
            "HNF0226", "an attribute is a number, a name or a `const` capture", tree.span, "compute it on the left with `const c`"
        )

    def _cast(self, tree: syntax.Call, scope: Scope) -> core.Expr:
        self._arity(tree, 2)
        target = tree.arguments[1]
        operand = self._expression(tree.arguments[0], scope)
        element: Any
        if isinstance(target, syntax.Name) and target.name in ELEMENT_TYPES:
            element = target.name
        elif isinstance(target, syntax.Call) and target.function == "dtype" and len(target.arguments) == 1:
            captured = self._expression(target.arguments[0], scope)
            if not isinstance(captured, core.Capture):
                raise self._error("HNF0227", "`dtype(…)` takes a captured name", target.span, "as in `dtype(x)`")
            element = core.DTypeOf(captured.name)
        else:
            raise self._error(
                "HNF0228", f"`{tree.function}` needs an element type", target.span, "as in `cast(x, f32)` or `cast(x, dtype(y))`"
            )
        key = "to" if tree.function == "cast" else "format"
        return core.Apply(OPERATIONS[tree.function], (operand,), ((key, element),), tree.span)

    def _inline(self, tree: syntax.Call, scope: Scope) -> core.Expr:
        definition = self.definitions[tree.function]
        if tree.function in scope.entering:
            raise self._error("HNF0229", f"`{tree.function}` is defined by itself", tree.name_span, "a definition cannot be recursive")
        if len(tree.arguments) != len(definition.parameters):
            self._arity(tree, len(definition.parameters))
        if len(tree.axes) != len(definition.axes):
            raise self._error(
                "HNF0230", f"`{tree.function}` takes {len(definition.axes)} axes, but {len(tree.axes)} are given", tree.name_span,
                f"as in `{tree.function}[{', '.join(definition.axes)}](…)`" if definition.axes else "",
            )  # fmt: skip
        outer_axes = self._axes(tree, scope)
        inner = Scope(binding_allowed=False, entering=(*scope.entering, tree.function))
        for parameter, argument in zip(definition.parameters, tree.arguments, strict=True):
            inner.bindings[parameter] = self._expression(argument, scope)
        inner.axes = {name: (axis,) for name, axis in zip(definition.axes, outer_axes, strict=True)}
        return self._expression(definition.body, inner)

    def _axes(self, tree: syntax.Call, scope: Scope) -> core.Axes:
        result: list[core.Axis] = []
        for axis in tree.axes:
            if isinstance(axis, str) and axis in scope.axes:
                result += scope.axes[axis]
            elif isinstance(axis, str):
                if not scope.binding_allowed:
                    hint = _did_you_mean(axis, scope.axes) or "the left side does not bind it"
                    raise self._error("HNF0231", f"the axis `{axis}` is not bound by the left side", tree.name_span, hint)
                scope.axes[axis] = (axis,)
                result.append(axis)
            elif axis >= 0 and not self.left_axes:
                raise self._error(
                    "HNF0238", "the axes of a rule are counted from the right", tree.name_span, "write -1 for the last axis, or a name"
                )
            else:
                result.append(axis)
        if len(set(result)) != len(result):
            raise self._error("HNF0232", "the same axis is named twice", tree.name_span, "name it once")
        return tuple(result)

    def _arity(self, tree: syntax.Call, *allowed: int) -> None:
        if len(tree.arguments) not in allowed:
            wanted = " or ".join(map(str, allowed))
            what = f"`{tree.function}` takes {wanted} argument{'' if allowed == (1,) else 's'}, but {len(tree.arguments)} are given"
            raise self._error("HNF0233", what, tree.span, "")

    # conditions

    def _condition(self, tree: syntax.Tree, scope: Scope) -> core.Condition:
        match tree:
            case syntax.Operator(symbol="and"):
                return core.AllOf(tuple(self._condition(operand, scope) for operand in tree.operands))
            case syntax.Operator(symbol="or"):
                return core.AnyOf(tuple(self._condition(operand, scope) for operand in tree.operands))
            case syntax.Operator(symbol="not"):
                return core.Not(self._condition(tree.operands[0], scope))
            case syntax.Operator(symbol=symbol) if symbol in _PREDICATES:
                return self._comparison(tree, scope)
            case syntax.Call(function="free"):
                self._arity(tree, 1)
                return core.Free(self._expression(tree.arguments[0], scope), self._axes(tree, scope))
            case syntax.Call(function=function) if function in PROPERTIES:
                return core.Property(function, tuple(self._expression(a, scope) for a in tree.arguments))
            case syntax.Call(function=function) if function in self.definitions:
                raise self._error(
                    "HNF0234", "a condition is a comparison or a named property", tree.span, f"one of {', '.join(sorted(PROPERTIES))}"
                )
        hint = f"as in `x > 0`, `free[k](c)`, `size[k](x) = size[k](y)`, or one of {', '.join(sorted(PROPERTIES))}"
        raise self._error("HNF0234", "a condition is a comparison or a named property", tree.span, hint)

    def _comparison(self, tree: syntax.Operator, scope: Scope) -> core.Condition:
        left, right = tree.operands
        predicate = _PREDICATES[tree.symbol]
        if isinstance(left, syntax.Call) and left.function in ("rank", "dtype"):
            self._arity(left, 1)
            operand = self._expression(left.arguments[0], scope)
            if left.function == "dtype":
                if not (isinstance(right, syntax.Name) and right.name in ELEMENT_TYPES) or predicate not in ("eq", "ne"):
                    raise self._error("HNF0235", "`dtype(x)` is compared with an element type", tree.span, "as in `dtype(x) = f32`")
                found: core.Condition = core.Property("dtype", (operand,), (right.name,))
                return core.Not(found) if predicate == "ne" else found
            number = self._number(right)
            return core.Property("rank", (operand,), (predicate, int(number)))
        x, y = self._expression(left, scope), self._expression(right, scope)
        if isinstance(x, core.Size) and isinstance(y, core.Size) and predicate == "eq" and x.axes == y.axes:
            return core.SameSize(x.operand, y.operand, x.axes)
        return core.Comparison(predicate, x, y)

    def _number(self, tree: syntax.Tree) -> Fraction:
        value = self._expression(tree, Scope(binding_allowed=False))
        if not isinstance(value, core.Literal) or not isinstance(value.value, Fraction):
            raise self._error("HNF0236", "expected a number", tree.span, "")
        return value.value

    # diagnostics

    def _error(self, code: str, message: str, span: Span, help_: str) -> HnfError:
        return HnfError([Diagnostic(code, message, self.file.path, span, help=help_)])

    def _report(self, code: str, message: str, span: Span, help_: str, note: str = "", severity: str = "error") -> None:
        self.diagnostics.append(Diagnostic(code, message, self.file.path, span, help=help_, note=note, severity=severity))


def elaborate_expression(tree: syntax.Tree, file: syntax.File) -> core.Expr:
    """An expression by itself (the graph of an `unchanged:` test); every free name is a capture."""
    elaborator = Elaborator(file)
    elaborator.left_axes = True
    elaborator._collect_definitions()
    return elaborator._expression(tree, Scope())


def _operand_counts(operation: type[Any]) -> tuple[int, ...]:
    from xdsl.irdl import OptOperandDef, VarOperandDef

    operands = operation.get_irdl_definition().operands
    required = sum(not isinstance(definition, OptOperandDef | VarOperandDef) for _, definition in operands)
    if any(isinstance(d, VarOperandDef) and not isinstance(d, OptOperandDef) for _, d in operands):
        return tuple(range(required, required + 16))
    return tuple(range(required, len(operands) + 1))


def _fold(symbol: str, x: Fraction | float, y: Fraction | float) -> Fraction | float | None:
    if symbol == "/":
        return None if y == 0 else x / y
    return x + y if symbol == "+" else x - y if symbol == "-" else x * y


def _names(tree: syntax.Tree) -> Iterable[syntax.Name]:
    match tree:
        case syntax.Name():
            yield tree
        case syntax.Operator():
            for operand in tree.operands:
                yield from _names(operand)
        case syntax.Annotated():
            yield from _names(tree.operand)
        case syntax.Call():
            for argument in (*tree.arguments, *(value for _, value in tree.keywords)):
                yield from _names(argument)


def _did_you_mean(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, list(known), n=1)
    return f"did you mean `{close[0]}`?" if close else ""


def canonical_text(expression: core.Expr) -> str:
    """The expression with its captures and axes renamed by first occurrence: equal for rules that differ in names only."""
    names: dict[str, str] = {}

    def rename(name: object) -> str:
        return names.setdefault(str(name), f"v{len(names)}") if isinstance(name, str) else str(name)

    def text(node: core.Expr) -> str:
        match node:
            case core.Capture():
                return rename(node.name) + ":" + "|".join(node.dtypes) + str(node.const)
            case core.Literal():
                return str(node.value)
            case core.Size():
                return f"size[{','.join(map(rename, node.axes))}]({text(node.operand)})"
            case core.Apply():
                attributes = [f"{k}={[rename(a) for a in v] if k == 'axes' else v}" for k, v in node.attributes]
                return f"{node.name}({','.join([*map(text, node.operands), *attributes])})"
        raise AssertionError(node)

    return text(expression)
