"""E-matching: the patterns of rules in the classes of an e-graph. Any member of a class may be what a part of the pattern fits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from xdsl.ir import Operation, SSAValue

from hnfc.core.value_numbering import Numbering
from hnfc.dsl import core
from hnfc.egraph.graph import EGraph, ENode
from hnfc.rewrite.bindings import Binding, Bindings
from hnfc.rewrite.matcher import CompiledRule, Match
from hnfc.rewrite.matching import Matching
from hnfc.rewrite.nary_terms import Item, Root
from hnfc.rewrite.pattern import OperationPattern, tree


@dataclass(frozen=True)
class Direction:
    """A rule read one way. both: the sides may stand for each other; else only the right side for the left one."""

    compiled: CompiledRule
    pattern: OperationPattern
    both: bool


def directions(rule: core.Rule, both: bool) -> list[Direction]:
    """The ways to read a rule in an e-graph. both: it is proved from right to left as well.

    A side that is no operation begins nowhere in particular, and one that does not have all names of the other cannot give it.
    Approximations are no equalities, and parameters have no value: there are no ways to read these.
    """
    if rule.within is not None or rule.parameters:
        return []
    sides = [(rule.pattern, rule.replacement), *([(rule.replacement, rule.pattern)] if both else [])]
    found = []
    for left, right in sides:
        pattern = tree(left, commuting=True)
        if isinstance(pattern, OperationPattern) and _names(right) <= _names(left) and _condition_names(rule) <= _names(left):
            found.append(Direction(CompiledRule(rule, pattern, right, rule.both_ways), pattern, both))
    return found


def _names(expression: core.Expr) -> set[str]:
    axes = {str(axis) for node in core.walk(expression) for axis in _axes(node) if isinstance(axis, str)}
    return set(core.captures(expression)) | {f"axis {axis}" for axis in axes}


def _axes(node: core.Expr) -> Iterable[Any]:
    if isinstance(node, core.Size):
        return node.axes
    settings = dict(node.attributes) if isinstance(node, core.Apply) else {}
    return [*settings.get("axes", ()), *([settings["axis"]] if "axis" in settings else [])]


def _condition_names(rule: core.Rule) -> set[str]:
    return {name for expression in core.condition_expressions(rule.where) for name in core.captures(expression)}


class ClassMatching(Matching):
    """The search for the bindings of one pattern, through all members of the classes that it meets."""

    def __init__(self, graph: EGraph) -> None:
        super().__init__(Numbering())
        self.graph = graph
        self.used: list[ENode] = []
        """The nodes that the pattern is being fitted to."""

    def operation(self, pattern: OperationPattern, item: Item, bindings: Bindings) -> Iterator[Bindings]:
        if not isinstance(item, Root):
            for node in self.graph.members(self.graph.home[item]):
                yield from self.node(pattern, node, bindings)

    def node(self, pattern: OperationPattern, node: ENode, bindings: Bindings) -> Iterator[Bindings]:
        """The bindings under which one node is an instance of the pattern."""
        if not isinstance(node.operation, Operation) or type(node.operation) is not pattern.operation:
            return
        operands = tuple(self.graph.of(child).leader for child in node.children)
        self.used.append(node)
        yield from self.instance(pattern, node.operation, operands, bindings)
        self.used.pop()

    def same(self, a: Binding, b: Binding) -> bool:
        if a is b:
            return True
        if isinstance(a, SSAValue) and isinstance(b, SSAValue):
            return self.graph.class_of(a) == self.graph.class_of(b)
        return isinstance(a, Fraction) and isinstance(b, Fraction) and a == b


@dataclass(frozen=True)
class ClassMatch:
    """A place where a rule fits: in the class of `node`, its left side made of `premises`."""

    direction: Direction
    node: ENode
    bindings: Bindings
    premises: tuple[ENode, ...]

    @property
    def match(self) -> Match:
        assert self.node.operation is not None
        return Match(self.direction.compiled, self.node.operation, self.bindings)


def matches(graph: EGraph, direction: Direction, nodes: Iterable[ENode]) -> Iterator[ClassMatch]:
    """Every way in which the rule fits with one of the nodes as its root."""
    for node in nodes:
        matching = ClassMatching(graph)
        for bindings in matching.node(direction.pattern, node, {}):
            yield ClassMatch(direction, node, bindings, tuple(matching.used))


def key_of(graph: EGraph, found: ClassMatch) -> tuple[Any, ...]:
    """Key of a match: the rule, the class of the root, and the classes that its names stand for."""
    parts = [(name, graph.class_of(b) if isinstance(b, SSAValue) else b) for name, b in found.bindings.items()]
    return (id(found.direction), graph.find(found.node.home), *sorted(parts, key=lambda part: part[0]))


__all__ = ["ClassMatch", "ClassMatching", "Direction", "directions", "key_of", "matches"]
