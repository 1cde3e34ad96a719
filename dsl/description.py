"""Elaborated expressions, conditions and rules as they read in a rule file, with definitions inlined: they parse back to what they are."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from hnfc.dsl import core, syntax
from hnfc.dsl.constants import Constant
from hnfc.dsl.diagnostics import Span
from hnfc.dsl.expressions import CONSTANTS
from hnfc.dsl.printer import expression

SYMBOLS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_PLACES = ("start", "stop", "step", "low", "high", "size", "shape", "to", "format")
"""Attributes that a call takes by their place."""
_DEFAULTS = {("slice", "step"): core.Literal(Fraction(1)), ("pad", "value"): core.Literal(Fraction(0))}
_NAMES: dict[Fraction | float, str] = {literal.value: name for name, literal in CONSTANTS.items()}
_DIGITS = 12
_NOWHERE = Span(0, 0, 0, 0)


def describe(part: core.Condition | core.Expr) -> str:
    """The condition or expression, of names that are bound; empty for the condition that always holds."""
    if isinstance(part, core.Expr):
        return expression(_Writer().tree(part))
    found = _Writer().condition(part)
    return expression(found) if found is not None else ""


def rule_line(rule: core.Rule) -> str:
    """The rule in one line."""
    writer = _Writer(set(rule.parameters))
    arrow = "~>" if rule.within is not None else "<=>" if rule.both_ways else "=>"
    text = f"{expression(writer.tree(rule.pattern))} {arrow} {expression(writer.tree(rule.replacement))}"
    text += f" for {', '.join(_parameter(rule, name, writer) for name in rule.parameters)}" if rule.parameters else ""
    where = describe(core.AllOf(tuple(p for p in core.conjuncts(rule.where) if not _orthogonality(p))) if rule.parameters else rule.where)
    text += f" where {where}" if where else ""
    return text if rule.within is None else f"{text} within {expression(_number(rule.within))}"


def _parameter(rule: core.Rule, name: str, writer: _Writer) -> str:
    capture = core.captures(rule.replacement)[name]
    if any(_orthogonality(part) and part.operands == (capture,) for part in core.conjuncts(rule.where)):  # type: ignore[union-attr]
        return f"orthogonal {name}"
    return f"const {name}" if capture.const else name


def _orthogonality(part: core.Condition) -> bool:
    return isinstance(part, core.Property) and part.name == core.ORTHOGONAL


@dataclass
class _Writer:
    """`bound`: the names that were bound so far, whose others are written with what binds them; None: all names are bound."""

    bound: set[str] | None = None

    def condition(self, part: core.Condition) -> syntax.Tree | None:
        match part:
            case core.Comparison(predicate, x, y):
                return _operator(SYMBOLS[predicate], self.tree(x), self.tree(y))
            case core.Free(operand, axes):
                return _call("free", (self.tree(operand),), axes)
            case core.SameSize(x, y, axes):
                name, along = ("shape", ()) if axes == (core.ALL,) else ("size", axes)
                return _operator("==", *(_call(name, (self.tree(side),), along) for side in (x, y)))
            case core.Property("rank", operands, (predicate, number)):
                return _operator(SYMBOLS[predicate], _call("rank", map(self.tree, operands)), _number(Fraction(number)))
            case core.Property("dtype", operands, (element,)):
                return _operator("==", _call("dtype", map(self.tree, operands)), _name(element))
            case core.Property(name, operands):
                return _call(name, map(self.tree, operands))
            case core.AllOf(parts) | core.AnyOf(parts):
                trees = [self.condition(inner) for inner in parts]
                found = [tree for tree in trees if tree is not None]
                if not found or (isinstance(part, core.AnyOf) and len(found) < len(trees)):
                    return None
                whole = found[0]
                for tree in found[1:]:
                    whole = _operator("and" if isinstance(part, core.AllOf) else "or", whole, tree)
                return whole
            case core.Not(inner):
                denied = self.condition(inner)
                return None if denied is None else _operator("not", denied)
        raise AssertionError(part)

    def tree(self, node: core.Expr) -> syntax.Tree:
        match node:
            case core.Capture():
                return self._capture(node)
            case core.Literal():
                return _number(node.value) if isinstance(node.value, Fraction) else _special(node.value)
            case core.Size(operand, axes):
                return _call("size", (self.tree(operand),), axes)
            case core.Apply():
                return self._application(node)
        raise AssertionError(node)

    def _application(self, node: core.Apply) -> syntax.Tree:
        operands = tuple(map(self.tree, node.operands))
        settings = dict(node.attributes)
        if node.name in syntax.OPERATORS and not settings:
            return _operator(syntax.OPERATORS[node.name], *operands)
        match node.name:
            case "compare":
                return _operator(SYMBOLS[settings["predicate"]], *operands)
            case "neg":
                return _operator("-", *operands)
            case "logical_not":
                return _operator("not", *operands)
            case "transpose" if settings["perm"] == "last_two":
                return _call("transpose", operands)
            case "transpose" if isinstance(settings["perm"], core.Capture | core.Apply):
                return _call("permute", (*operands, self.tree(settings["perm"])))
            case "reshape" if "shape" not in settings:
                ((name, place),) = settings.items()
                return _call(name, operands, (place,))
        axes = settings.pop("axes", None) or ((settings.pop("axis"),) if "axis" in settings else ())
        settings = {key: value for key, value in settings.items() if value is not None and _DEFAULTS.get((node.name, key)) != value}
        placed = tuple(self._setting(settings.pop(key)) for key in _PLACES if key in settings)
        return _call(node.name, (*operands, *placed), axes, tuple((key, self._setting(value)) for key, value in settings.items()))

    def _setting(self, value: Any) -> syntax.Tree:
        match value:
            case core.DTypeOf(capture):
                return _call("dtype", (_name(capture),))
            case core.Capture() | core.Literal() | core.Size() | core.Apply():
                return self.tree(value)
            case bool():
                return _name(str(value).lower())
            case int() | float() if value == value and abs(value) != float("inf"):
                text = repr(abs(value)) if isinstance(value, int) or not value.is_integer() else str(abs(int(value)))
                return _signed(syntax.Number(text, _NOWHERE), value < 0)
        return _name(str(value))

    def _capture(self, node: core.Capture) -> syntax.Tree:
        name = syntax.Name(node.name, _NOWHERE)
        if self.bound is None or node.name in self.bound:
            return name
        self.bound.add(node.name)
        return syntax.Annotated(name, node.dtypes, _NOWHERE) if node.dtypes else replace(name, const=node.const)


def _number(value: Fraction) -> syntax.Tree:
    """The number exactly: as a decimal where that is short, else as a quotient."""
    numerator, denominator = abs(value.numerator), value.denominator
    for digits in range(_DIGITS):
        scaled, rest = divmod(numerator * 10**digits, denominator)
        if not rest:
            text = str(scaled) if not digits else f"{scaled // 10**digits}.{scaled % 10**digits:0{digits}}"
            return _signed(syntax.Number(text, _NOWHERE), value < 0)
    quotient = _operator("/", *(syntax.Number(str(part), _NOWHERE) for part in (numerator, denominator)))
    return _signed(quotient, value < 0)


def _special(value: float) -> syntax.Tree:
    if isinstance(value, Constant):
        multiple: syntax.Tree = _name("pi")
        if abs(value.factor) != 1:
            multiple = _operator("*", _number(abs(value.factor)), multiple)
        return _signed(multiple, value.factor < 0)
    return _signed(_name(_NAMES.get(abs(value), str(abs(value)))), value < 0)


def _signed(tree: syntax.Tree, negative: bool) -> syntax.Tree:
    return _operator("-", tree) if negative else tree


def _name(name: str) -> syntax.Name:
    return syntax.Name(name, _NOWHERE)


def _operator(symbol: str, *operands: syntax.Tree) -> syntax.Operator:
    return syntax.Operator(symbol, operands, _NOWHERE)


def _call(
    name: str, arguments: Iterable[syntax.Tree], axes: core.Axes = (), keywords: tuple[tuple[str, syntax.Tree], ...] = ()
) -> syntax.Call:
    return syntax.Call(name, axes, tuple(arguments), keywords, _NOWHERE, _NOWHERE)
