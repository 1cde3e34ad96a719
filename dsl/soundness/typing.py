"""The element type of every node of a rule, once the captures have theirs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property

from hnfc.dialects.facts import Result
from hnfc.dialects.types import FORMATS
from hnfc.dsl.core import Apply, Capture, DTypeOf, Expr, Literal, Rule, Size, condition_expressions
from hnfc.dsl.core import captures as captures_of
from hnfc.dsl.soundness.scan import boolean_captures, integral_captures, order_captures, rule_expressions


class Mismatch(Exception):
    """Element types that an operation cannot take together."""


def rule_captures(rule: Rule) -> dict[str, Capture]:
    """Every capture of the sides and conditions; one that is annotated anywhere is annotated."""
    found: dict[str, Capture] = {}
    for root in (rule.pattern, rule.replacement, *condition_expressions(rule.where)):
        for name, capture in captures_of(root).items():
            if name not in found or capture.dtypes:
                found[name] = capture
    return found


def element_types(rule: Rule, form: str) -> dict[str, str] | None:
    """The captures' element types where the rule is judged in `form`; None where annotations exclude that format.

    A capture takes `form` unless its annotation or its place says otherwise. `form` is excluded by a rule with floating-point
    annotations of which none allows it.
    """
    given = rule_captures(rule)
    floating = [c for c in given.values() if set(c.dtypes) & FORMATS.keys()]
    if floating and not any(form in c.dtypes for c in floating):
        return None
    booleans, integers = boolean_captures(rule), integers_by_place(rule)
    types = {}
    for name, capture in given.items():
        if capture.dtypes:
            types[name] = form if form in capture.dtypes else capture.dtypes[0]
        else:
            types[name] = "i1" if name in booleans else "si64" if name in integers else form
    return types


def integers_by_place(rule: Rule) -> frozenset[str]:
    """Captures that stand for integers only: bounds, sizes, orders of axes, and indices."""
    computed = {
        operand.name
        for node in rule_expressions(rule)
        if isinstance(node, Apply)
        for operand in (node.operands[:1] if node.name == "gather" else node.operands)
        if isinstance(operand, Capture) and not is_order(node)
    }
    return (integral_captures(rule) | order_captures(rule).keys()) - computed


def is_order(node: Expr) -> bool:
    """Return whether the node is a product of orders of axes."""
    return isinstance(node, Apply) and node.name == "matmul" and all(map(_is_order_of, node.operands))


def _is_order_of(operand: Expr) -> bool:
    return operand.const if isinstance(operand, Capture) else is_order(operand)


class Typing:
    """The element types of nodes; None for a number that takes the type of what it stands beside."""

    def __init__(self, captures: Mapping[str, str], form: str) -> None:
        """form: the format that is judged, which a number takes that stands beside nothing."""
        self.captures = captures
        self.form = form
        self._known: dict[int, tuple[Expr, str | None]] = {}

    def of(self, node: Expr) -> str | None:
        """Raises Mismatch."""
        if id(node) not in self._known:
            self._known[id(node)] = (node, self._find(node))
        return self._known[id(node)][1]

    def _find(self, node: Expr) -> str | None:
        match node:
            case Capture(name):
                return self.captures[name]
            case Literal() | Size():
                return None
        common = self.common(node.alike)
        match node.facts.result:
            case Result.ATTRIBUTE:
                return self.target(node.attribute("to"))
            case Result.TRUTH:
                return "i1"
            case Result.INDEX:
                return "si64"
        return common

    def target(self, element: str | DTypeOf) -> str:
        return self.captures[element.capture] if isinstance(element, DTypeOf) else element

    def common(self, nodes: Iterable[Expr]) -> str | None:
        found = {element for node in nodes if (element := self.of(node)) is not None}
        if len(found) > 1:
            raise Mismatch(f"operands of {' and '.join(sorted(found))}")
        return found.pop() if found else None

    @cached_property
    def widened(self) -> Typing:
        """The same with float64 for every floating-point type, in which the captures' values are exact."""
        return Typing({name: "f64" if element in FORMATS else element for name, element in self.captures.items()}, "f64")


def result_type(rule: Rule, typing: Typing) -> str | None:
    """The element type of both sides. Raises Mismatch where they differ."""
    return typing.common((rule.pattern, rule.replacement))
