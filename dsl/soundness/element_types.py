"""The element types of a rule: of captures, by annotations, conditions on `dtype` and company; of expressions, by their operands."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from hnfc.dialects.facts import Result
from hnfc.dialects.num.rounding import INTEGERS
from hnfc.dialects.types import FORMATS
from hnfc.dsl.core import (
    AllOf,
    AnyOf,
    Apply,
    Capture,
    Condition,
    DTypeOf,
    Expr,
    Literal,
    Not,
    Property,
    Rule,
    Size,
    condition_parts,
    walk,
)
from hnfc.dsl.soundness.scan import boolean_captures, order_captures, rule_expressions

FLOAT, NUMBER, TRUTH_TYPE, NO_TYPE = "float", "number", "i1", "none"
"""Kinds beside the integer types: any floating-point format; a number that takes its neighbours' type; truth values; a mismatch."""


def alike(node: Apply) -> tuple[Expr, ...]:
    """The operands whose element types must agree."""
    return () if node.facts.result is Result.ATTRIBUTE else node.alike


def types_of_captures(rule: Rule) -> dict[str, tuple[str, ...]]:
    """The element types that annotations and conditions leave to each capture that has either; none where they exclude each other."""
    nodes = rule_expressions(rule)
    found = {n.name: n.dtypes for n in nodes if isinstance(n, Capture) and n.dtypes}
    booleans = boolean_captures(rule)
    for name, required in required_types(rule).items():
        others = sorted(required - FORMATS.keys())
        before = found.get(name) or (("i1",) if name in booleans else (*FORMATS, *others))
        found[name] = tuple(element for element in before if may_hold(rule.where, name, element))
    return found


def required_types(rule: Rule) -> dict[str, frozenset[str]]:
    """The element types that conditions on `dtype` name, for each capture that they are on."""
    found: dict[str, frozenset[str]] = {}
    for part in condition_parts(rule.where):
        match part:
            case Property("dtype", (Capture(name),), (wanted,)):
                found[name] = found.get(name, frozenset()) | {str(wanted)}
    return found


def may_hold(condition: Condition, name: str, element: str) -> bool:
    return _with_type(condition, name, element) is not False


def _with_type(condition: Condition, name: str, element: str) -> bool | None:
    """The truth of the condition where the capture has this element type; None where that depends on more."""
    match condition:
        case Property("dtype", (Capture(other),), (wanted,)) if other == name:
            return bool(wanted == element)
        case AllOf(parts) | AnyOf(parts):
            stop = isinstance(condition, AnyOf)
            values = [_with_type(part, name, element) for part in parts]
            return stop if stop in values else None if None in values else not stop
        case Not(part):
            inner = _with_type(part, name, element)
            return None if inner is None else not inner
    return None


def _sources(nodes: Iterable[Expr]) -> set[str]:
    """The captures whose element type the expressions have."""
    found: set[str] = set()
    for node in nodes:
        if isinstance(node, Capture) and not node.const:
            found.add(node.name)
        elif isinstance(node, Apply) and node.facts.result is Result.SAME:
            found |= _sources(node.alike)
    return found


class ElementTypes:
    """The kind of each expression: an integer type, or one of the four above."""

    def __init__(self, rule: Rule) -> None:
        self.captures = self._captures(rule)
        self.memo: dict[int, tuple[Expr, str]] = {}
        casts = any(isinstance(n, Apply) and n.name == "cast" and self.target(n.attribute("to")) != FLOAT for n in rule_expressions(rule))
        self.matters = casts or bool(self.captures)
        self.orders = order_captures(rule).keys()

    def _captures(self, rule: Rule) -> dict[str, str]:
        self.declared = {n.name: n.dtypes for n in rule_expressions(rule) if isinstance(n, Capture) and n.dtypes}
        kinds = {name: FLOAT if known[0] in FORMATS else known[0] for name, known in self.declared.items()}
        kinds |= dict.fromkeys(boolean_captures(rule) - kinds.keys(), TRUTH_TYPE)
        # what the left side combines with an integer is one
        groups = [_sources(alike(node)) for node in walk(rule.pattern) if isinstance(node, Apply)]
        before = -1
        while before != len(kinds):
            before = len(kinds)
            for names in groups:
                known = next((kinds[name] for name in sorted(names) if kinds.get(name, FLOAT) != FLOAT), None)
                kinds |= {name: known for name in names - kinds.keys() if known is not None}
        return kinds

    def values(self, numbers: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
        """The element types whose numbers each capture may be; `numbers`: those of compile-time constants."""
        whole = {name: kind for name, kind in self.captures.items() if kind in INTEGERS and kind != TRUTH_TYPE}
        found: dict[str, tuple[str, ...]] = {name: (kind,) for name, kind in whole.items()}
        found |= {name: self.declared[name] for name, kind in self.captures.items() if kind == FLOAT and name in self.declared}
        return {name: known for name, known in {**found, **{n: (e,) for n, e in numbers.items()}}.items() if name not in self.orders}

    def target(self, to: str | DTypeOf) -> str:
        """The kind that a cast to this element type gives."""
        if isinstance(to, DTypeOf):
            return self.captures.get(to.capture, FLOAT)
        return FLOAT if to in FORMATS else to

    def of(self, node: Expr) -> str:
        if id(node) not in self.memo:
            self.memo[id(node)] = (node, self._find(node))
        return self.memo[id(node)][1]

    def _find(self, node: Expr) -> str:
        match node:
            case Capture(name, _, const):
                return NUMBER if const else self.captures.get(name, FLOAT)
            case Literal() | Size():
                return NUMBER
            case Apply():
                kinds = {self.of(x) for x in alike(node)} - {NUMBER}
                if NO_TYPE in kinds or len(kinds) > 1:
                    return NO_TYPE
                return self._result(node, kinds.pop() if kinds else NUMBER)
        raise TypeError(f"no expression: {node!r}")

    def _result(self, node: Apply, kind: str) -> str:
        if node.name == "round_to":
            wanted = str(node.attribute("format")).removeprefix("trunc ")
            return wanted if wanted in INTEGERS or wanted == NO_TYPE else kind
        match node.facts.result:
            case Result.ATTRIBUTE:
                return self.target(node.attribute("to"))
            case Result.TRUTH:
                return TRUTH_TYPE
            case Result.INDEX:
                return "si64"
        return kind
