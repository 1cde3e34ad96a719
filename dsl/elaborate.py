"""Syntax tree → rules: sides, conditions and tests of each rule, checked against each other.

Every fault is a Diagnostic at the place in the source where it lies; a file with faults yields none of its rules.
"""

from __future__ import annotations

from fractions import Fraction

from hnfc.dialects.types import ELEMENT_TYPES
from hnfc.dsl import core, syntax
from hnfc.dsl.depth import with_room
from hnfc.dsl.diagnostics import Diagnostic, HnfError, Span
from hnfc.dsl.expressions import ADVICE, PREDICATES, PROPERTIES, did_you_mean, meant_type, names_in
from hnfc.dsl.parameters import RuleParameters
from hnfc.dsl.parser import is_long
from hnfc.dsl.prelude import prelude
from hnfc.dsl.scope import Scope


class Elaborator(RuleParameters):
    """Reads the declarations of one file; `definitions` holds those that it may use from other files."""

    def __init__(self, file: syntax.File, definitions: dict[str, syntax.Definition] | None = None) -> None:
        super().__init__(file, prelude() | (definitions or {}))
        self.diagnostics: list[Diagnostic] = []
        self.sound: list[core.Rule] = []

    def rules(self) -> list[core.Rule]:
        """The rules of the file. Raises HnfError with everything that is wrong in it; `sound` then holds the others."""
        return with_room(self._rules) if is_long(self.file.source) else self._rules()

    def _rules(self) -> list[core.Rule]:
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
        self.sound = list(rules.values())
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
            used = {n.name for n in names_in(declaration.body)}
            for parameter in declaration.parameters:
                if parameter not in used:
                    self._report("HNF0203", f"`{declaration.name}` does not use its parameter `{parameter}`", declaration.span, "remove it")

    def _rule(self, declaration: syntax.RuleDeclaration, library: str) -> core.Rule:
        self.nodes = 0
        scope = Scope()
        for let in declaration.lets:
            if let.name in scope.lets:
                raise self.error("HNF0204", f"`{let.name}` is named twice by `let`", let.span, "give one another name")
            scope.lets[let.name] = let
        pattern = self.expression(declaration.pattern, scope)
        if isinstance(pattern, core.Capture | core.Literal | core.Size):
            raise self.error(
                "HNF0205",
                "this pattern matches every value",
                declaration.pattern.span,
                "a pattern starts with an operation, as in `exp(x)`",
            )
        left_names = set(scope.bindings)
        chosen = self.declared_parameters(declaration, scope)
        scope.binding_allowed = declaration.arrow == "<=>"
        replacement = self.expression(declaration.replacement, scope)
        if declaration.arrow == "<=>":
            self._check_same_names(declaration, pattern, replacement, left_names)
        scope.binding_allowed = False
        where = self.condition(declaration.where, scope) if declaration.where else core.TRUE
        advice = [p.name for p in core.condition_parts(where) if isinstance(p, core.Property) and p.name in ADVICE]
        if advice and declaration.where:
            raise self.error("HNF0237", f"`{advice[0]}` proves nothing", declaration.where.span, f"move it to `when {advice[0]}(…)`")
        when = self.condition(declaration.when, scope) if declaration.when else core.TRUE
        if chosen:
            where = self.with_parameters(declaration, replacement, where, when, scope)
        for let in declaration.lets:
            if let.name not in scope.used:
                self._report("HNF0206", f"`{let.name}` is never used", let.span, "remove it")
        if pattern == replacement:
            raise self.error(
                "HNF0207", f"rule `{declaration.name}` replaces its pattern by itself", declaration.arrow_span, "remove the rule"
            )
        if (declaration.arrow == "~>") != (declaration.within is not None):
            raise self.error(
                "HNF0208", "an approximation `~>` states its error with `within`, and only an approximation does", declaration.arrow_span,
                "as in `gelu(x) ~> gelu_tanh(x) within 5e-4`",
            )  # fmt: skip
        within = self.number(declaration.within) if declaration.within else None
        return core.Rule(
            name=declaration.name, group=declaration.group or library, reason=declaration.reason, source=declaration.source,
            pattern=pattern, replacement=replacement, where=where, when=when, both_ways=declaration.arrow == "<=>", within=within,
            structural=declaration.structural, parameters=tuple(chosen), file=self.file.path, span=declaration.span,
            tests=tuple(c for t in self.file.declarations if isinstance(t, syntax.Test) and t.rule == declaration.name for c in t.cases),
        )  # fmt: skip

    def _check_same_names(self, declaration: syntax.RuleDeclaration, pattern: core.Expr, replacement: core.Expr, left: set[str]) -> None:
        right = set(core.captures(replacement))
        for name in sorted(right ^ set(core.captures(pattern))):
            side = "left" if name in left else "right"
            raise self.error(
                "HNF0209", f"`{name}` occurs on the {side} only", declaration.arrow_span, "write `=>`, or use it on both sides"
            )

    def _check_tests(self, rules: dict[str, core.Rule]) -> None:
        for declaration in self.file.declarations:
            if isinstance(declaration, syntax.Test) and declaration.rule not in rules and not self.diagnostics:
                self._report(
                    "HNF0210",
                    f"there is no rule `{declaration.rule}` in this file",
                    declaration.span,
                    did_you_mean(declaration.rule, rules),
                )

    def _check_undoing(self, rules: list[core.Rule]) -> None:
        by_sides = {(canonical_text(r.pattern), canonical_text(r.replacement)): r for r in rules if not r.both_ways}
        for (left, right), rule in by_sides.items():
            other = by_sides.get((right, left))
            if other is not None and other.name > rule.name and rule.span and other.span:
                message = f"rules `{rule.name}` and `{other.name}` undo each other"
                self._report("HNF0211", message, other.span, "write one rule with `<=>`, or give each a condition", severity="warning")

    # conditions

    def condition(self, tree: syntax.Tree, scope: Scope) -> core.Condition:
        match tree:
            case syntax.Operator(symbol="and"):
                return core.AllOf(tuple(self.condition(operand, scope) for operand in tree.operands))
            case syntax.Operator(symbol="or"):
                return core.AnyOf(tuple(self.condition(operand, scope) for operand in tree.operands))
            case syntax.Operator(symbol="not"):
                return core.Not(self.condition(tree.operands[0], scope))
            case syntax.Operator(symbol=symbol) if symbol in PREDICATES:
                return self._comparison(tree, scope)
            case syntax.Call(function="free"):
                self.arity(tree, 1)
                return core.Free(self.expression(tree.arguments[0], scope), self.axes(tree, scope))
            case syntax.Call(function=function) if function in PROPERTIES:
                return core.Property(function, tuple(self.expression(a, scope) for a in tree.arguments))
            case syntax.Call(function=function) if function in self.definitions:
                raise self.error(
                    "HNF0234", "a condition is a comparison or a named property", tree.span, f"one of {', '.join(sorted(PROPERTIES))}"
                )
        hint = f"as in `x > 0`, `free[k](c)`, `size[k](x) = size[k](y)`, or one of {', '.join(sorted(PROPERTIES))}"
        raise self.error("HNF0234", "a condition is a comparison or a named property", tree.span, hint)

    def _comparison(self, tree: syntax.Operator, scope: Scope) -> core.Condition:
        left, right = tree.operands
        predicate = PREDICATES[tree.symbol]
        if isinstance(left, syntax.Call) and left.function in ("rank", "dtype"):
            self.arity(left, 1)
            operand = self.expression(left.arguments[0], scope)
            if left.function == "dtype":
                if not (isinstance(right, syntax.Name) and right.name in ELEMENT_TYPES) or predicate not in ("eq", "ne"):
                    help_ = meant_type(right.name) if isinstance(right, syntax.Name) else "as in `dtype(x) = f32`"
                    raise self.error("HNF0235", "`dtype(x)` is compared with an element type", tree.span, help_)
                found: core.Condition = core.Property("dtype", (operand,), (right.name,))
                return core.Not(found) if predicate == "ne" else found
            number = self.number(right)
            return core.Property("rank", (operand,), (predicate, int(number)))
        if isinstance(left, syntax.Call) and isinstance(right, syntax.Call) and left.function == right.function == "shape":
            self.arity(left, 1)
            self.arity(right, 1)
            return core.SameSize(self.expression(left.arguments[0], scope), self.expression(right.arguments[0], scope), (core.ALL,))
        x, y = self.expression(left, scope), self.expression(right, scope)
        if isinstance(x, core.Size) and isinstance(y, core.Size) and predicate == "eq" and x.axes == y.axes:
            return core.SameSize(x.operand, y.operand, x.axes)
        if isinstance(x, core.Size) and predicate == "eq" and y == core.Literal(Fraction(1)):
            return core.Free(x.operand, x.axes)
        return core.Comparison(predicate, x, y)

    # diagnostics

    def _report(self, code: str, message: str, span: Span, help_: str, note: str = "", severity: str = "error") -> None:
        self.diagnostics.append(Diagnostic(code, message, self.file.path, span, help=help_, note=note, severity=severity))


def elaborate_expression(tree: syntax.Tree, file: syntax.File) -> core.Expr:
    """An expression by itself (the graph of an `unchanged:` test); every free name is a capture."""
    elaborator = Elaborator(file)
    elaborator.left_axes = True
    elaborator._collect_definitions()
    return elaborator.expression(tree, Scope())


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
                attributes = [f"{k}={attribute(k, v)}" for k, v in node.attributes]
                return f"{node.name}({','.join([*map(text, node.operands), *attributes])})"
        raise AssertionError(node)

    def attribute(key: str, value: object) -> str:
        match value:
            case core.Capture() | core.Literal() | core.Size() | core.Apply():
                return text(value)
            case tuple() if key == "axes":
                return str([rename(axis) for axis in value])
        return rename(value) if key == "axis" else str(value)

    return text(expression)
