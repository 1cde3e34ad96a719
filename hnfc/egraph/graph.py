"""An e-graph over the `num` dialect: classes of values that are equal over the reals, hash-consed and closed under congruence.

An e-node is an operation outside any program whose operands stand for classes. The members of a class are equal wherever the program
defines them, so their intervals may be intersected: that is the e-class analysis (Willsey and others, egg, POPL 2021). A rule that is
proved in one direction only puts the new class *in place of* the old one, not the other way round: the right side may be defined
where the left is not, and what stands for a value must be defined wherever that value is.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, TypeAlias

from xdsl.dialects.builtin import FloatAttr
from xdsl.ir import Attribute, Block, Operation, SSAValue

from hnfc.analysis.ranges import Ranges
from hnfc.core.interpreter import WeightReader
from hnfc.core.value_numbering import properties_of
from hnfc.dialects.interval import ANYTHING, Interval
from hnfc.dialects.num import COMMUTATIVE, COMPUTING, OPERATIONS
from hnfc.rewrite.builder import DoesNotFit, fold
from hnfc.rewrite.nary_terms import constant_of, over_reals

_CONSTANT = OPERATIONS["constant"]
_FOLDED = frozenset(OPERATIONS[name] for name in ("add", "sub", "mul", "div", "neg", "square", "reciprocal"))
_MOST_NARROWINGS = 6


@dataclass(frozen=True)
class Reason:
    """Origin of a node: a rule, the facts behind its condition, and the nodes that its left side was found in."""

    rule: str
    given: str
    premises: tuple[ENode, ...]
    backwards: bool = False
    """True if the rule was read from right to left."""


@dataclass(eq=False, slots=True)
class ENode:
    """An operation whose operands are classes. operation: None for what is no operation of the dialect, of which `result` is a result."""

    operation: Operation | None
    children: tuple[int, ...]
    result: SSAValue
    home: int
    """The class that it was made in; `EGraph.find` says which that is now."""
    serial: int = 0
    """Nodes are numbered as they are made: what a node is computed from has members of smaller numbers."""
    born: tuple[int, ...] = ()
    """The classes of the operands when it was made."""
    reason: Reason | None = None
    alive: bool = True
    """False once another node was found to be the same."""


Why: TypeAlias = "Reason | tuple[ENode, ENode] | None"
"""Reason of a union: a rule, congruence, or arithmetic on constants."""


@dataclass(eq=False, slots=True)
class EClass:
    """leader: the value that stands for the class in bindings; a constant or a leaf where the class has one."""

    leader: SSAValue
    interval: Interval
    nodes: list[ENode] = field(default_factory=list)
    parents: list[ENode] = field(default_factory=list)
    instead: dict[int, Reason | None] = field(default_factory=dict)
    """Classes that may stand for this one, though not the other way round."""
    changed: tuple[int, int] = (-1, 0)
    """The round in which something that a pattern could see from here last changed, and how far up that is known."""
    narrowed: int = 0


class _ClassRanges(Ranges):
    """The intervals of classes, for the conditions of rules."""

    def __init__(self, graph: EGraph, weights: WeightReader | None) -> None:
        super().__init__({}, weights)
        self._graph = graph

    def known(self, value: SSAValue) -> Interval | None:
        home = self._graph.home.get(value)
        return self._known.get(value) if home is None else self._graph.of(home).interval


class EGraph:
    """Values and what they are equal to. Classes are numbers; `find` gives the one that a number stands for now.

    weights: reads a weight by name, for its interval. reach: how many operations above a value a pattern that sees it can begin.
    """

    def __init__(self, weights: WeightReader | None = None, reach: int = 5) -> None:
        self.arguments = Block()
        """Its arguments are the leaves: inputs, and results of what is no operation of the dialect."""
        self.home: dict[SSAValue, int] = {}
        self.ranges = _ClassRanges(self, weights)
        self.round = 0
        self.nodes = 0
        self.by_operation: dict[type, list[ENode]] = {}
        self._parent: list[int] = []
        self._classes: dict[int, EClass] = {}
        self._index: dict[tuple[Any, ...], ENode] = {}
        self._pending: list[int] = []
        self._forest: dict[int, tuple[int, Why]] = {}
        self._serials = itertools.count()
        self._reach = reach

    # classes

    def find(self, number: int) -> int:
        root = number
        while self._parent[root] != root:
            root = self._parent[root]
        while self._parent[number] != root:
            self._parent[number], number = root, self._parent[number]
        return root

    def of(self, number: int) -> EClass:
        return self._classes[self.find(number)]

    def class_of(self, value: SSAValue) -> int:
        """The class of a value of this e-graph."""
        return self.find(self.home[value])

    def classes(self) -> Iterator[tuple[int, EClass]]:
        yield from self._classes.items()

    def members(self, number: int) -> list[ENode]:
        """The nodes that may stand for a class."""
        known = self.of(number)
        if not known.instead:
            return known.nodes
        return [node for part in self.standing(number) for node in self._classes[part].nodes]

    def standing(self, number: int) -> list[int]:
        """The class and all that may stand for it."""
        found = [self.find(number)]
        for part in found:
            found += [other for other in dict.fromkeys(map(self.find, self._classes[part].instead)) if other not in found]
        return found

    # why classes are one

    def _link(self, a: int, b: int, why: Why) -> None:
        """An edge of the proof forest (Nieuwenhuis, Oliveras: Proof-producing congruence closure, 2005)."""
        before, edge = a, self._forest.pop(a, None)
        while edge is not None:
            after, reason = edge
            edge = self._forest.pop(after, None)
            self._forest[after] = (before, reason)
            before = after
        self._forest[a] = (b, why)

    def path(self, a: int, b: int) -> list[Why]:
        """Explanation of an equality: the unions that join two ids, and no others."""
        up = {a: 0}
        steps: list[Why] = []
        while a in self._forest:
            a, why = self._forest[a]
            steps.append(why)
            up[a] = len(steps)
        found: list[Why] = []
        while b not in up:
            b, why = self._forest[b]
            found.append(why)
        return [*steps[: up[b]], *reversed(found)]

    def stand_in(self, a: int, b: int) -> list[Reason]:
        """Rules on the shortest way from class b to class a."""
        came: dict[int, tuple[int, Reason | None]] = {}
        waiting = [self.find(a)]
        for current in waiting:
            for other, reason in self._classes[current].instead.items():
                step = self.find(other)
                if step not in came and step != waiting[0]:
                    came[step] = (current, reason)
                    waiting.append(step)
        found, current = [], self.find(b)
        while current in came:
            current, reason = came[current]
            found += [reason] if reason is not None else []
        return found[::-1]

    # building

    def leaf(self, kind: Attribute, interval: Interval = ANYTHING, children: Iterable[int] = ()) -> SSAValue:
        """A value that no operation of the dialect computes. children: what a result of an unknown operation depends on."""
        value: SSAValue = self.arguments.insert_arg(kind, len(self.arguments.args))
        number = self._fresh(value, interval)
        node = ENode(None, tuple(children), value, number, next(self._serials))
        self._classes[number].nodes.append(node)
        self._add_parents(node)
        return value

    def add(self, operation: Operation, reason: Reason | None = None) -> int:
        """The class of an operation that stands in no program, its operands being values of this e-graph."""
        result = operation.results[0]
        known = self.home.get(result)
        if known is not None:
            return self.find(known)
        children = tuple(self.class_of(operand) for operand in operation.operands)
        key = self._key(operation, children)
        same = self._index.get(key)
        if same is not None:
            number = self.home[result] = self.find(same.home)
            return number
        for index, child in enumerate(children):
            leader = self._classes[child].leader
            if operation.operands[index] is not leader:
                operation.operands[index] = leader
        number = self._fresh(result, self.ranges.transfer(operation))
        node = ENode(operation, children, result, number, next(self._serials), children, reason)
        self._classes[number].nodes.append(node)
        self._index[key] = node
        self.by_operation.setdefault(type(operation), []).append(node)
        self.nodes += 1
        self._add_parents(node)
        self._fold(node)
        return self.find(number)

    def junction(self, alternatives: Iterable[int]) -> int:
        """A class of no nodes of its own, for which any of the alternatives may stand."""
        parts = dict.fromkeys(map(self.find, alternatives))
        first = self.of(next(iter(parts)))
        number = len(self._parent)
        self._parent.append(number)
        self._classes[number] = EClass(first.leader, first.interval, instead=dict.fromkeys(parts))
        return number

    def node_of(self, operation: Operation, children: Iterable[int]) -> ENode | None:
        """The node that is this operation on these classes."""
        return self._index.get(self._key(operation, tuple(map(self.find, children))))

    def union(self, a: int, b: int, why: Why = None) -> bool:
        """Makes one class of two whose members may stand for each other; False where they are one already."""
        first, second = a, b
        a, b = self.find(a), self.find(b)
        if a == b:
            return False
        self._link(first, second, why)
        kept, gone = self._classes[a], self._classes[b]
        if len(kept.parents) + len(kept.nodes) < len(gone.parents) + len(gone.nodes):
            a, b, kept, gone = b, a, gone, kept
        self._parent[b] = a
        del self._classes[b]
        kept.nodes += gone.nodes
        kept.parents += gone.parents
        kept.instead |= gone.instead
        if _rank(gone.leader) > _rank(kept.leader):
            kept.leader = gone.leader
        kept.interval = _meet(kept.interval, gone.interval)
        self._pending.append(a)
        self._touch(a)
        return True

    def put_instead(self, old: int, new: int, reason: Reason | None = None) -> bool:
        """`new` may stand for `old`, which it equals wherever that is defined; False where that is known."""
        first, second = old, new
        old, new = self.find(old), self.find(new)
        if new in self.standing(old):
            return False
        if old in self.standing(new):
            return self.union(first, second, reason)
        kept = self._classes[old]
        kept.instead[new] = reason
        kept.interval = _meet(kept.interval, self._classes[new].interval)
        self._touch(old)
        return True

    def rebuild(self) -> None:
        """Makes one node of those that became alike through unions, and one class of theirs, until none are."""
        while self._pending:
            todo = dict.fromkeys(map(self.find, self._pending))
            self._pending.clear()
            for number in todo:
                self._repair(self.find(number))

    def _repair(self, number: int) -> None:
        current = self._classes[number]
        for node in current.parents:
            node.children = tuple(map(self.find, node.children))
            if node.operation is None or not node.alive:
                continue
            same = self._index.setdefault(self._key(node.operation, node.children), node)
            if same is not node:
                self._drop(node)
                self.union(same.home, node.home, (same, node))
            self._narrow(same)
        current = self.of(number)
        current.parents = [node for node in dict.fromkeys(current.parents) if node.alive]
        for node in list(current.nodes):
            if node.operation is not None and self.find(node.home) in map(self.find, node.children) and len(current.nodes) > 1:
                # what needs itself can stand for nothing that is not simpler without it
                self._drop(node)

    def _drop(self, node: ENode) -> None:
        node.alive = False
        self.of(node.home).nodes.remove(node)
        self.nodes -= 1

    def _narrow(self, node: ENode) -> None:
        """Takes what the operands' intervals now say of the node into that of its class."""
        assert node.operation is not None
        current = self.of(node.home)
        narrower = _meet(current.interval, self.ranges.transfer(node.operation))
        if narrower != current.interval:
            current.interval = narrower
            current.narrowed += 1
            if current.narrowed <= _MOST_NARROWINGS:
                # intervals of a loop of equal values may shrink for ever
                self._touch(self.find(node.home))
                self._pending.append(node.home)

    def _fresh(self, value: SSAValue, interval: Interval) -> int:
        number = len(self._parent)
        self._parent.append(number)
        self._classes[number] = EClass(value, interval)
        self.home[value] = number
        self._touch(number)
        return number

    def _add_parents(self, node: ENode) -> None:
        for child in dict.fromkeys(node.children):
            self._classes[self.find(child)].parents.append(node)

    def _touch(self, number: int) -> None:
        """Notes that patterns which begin here, or so far above that they see it, may fit now."""
        layer = {self.find(number)}
        for left in range(self._reach, 0, -1):
            above: set[int] = set()
            for part in layer:
                current = self._classes[part]
                if current.changed < (self.round, left):
                    current.changed = (self.round, left)
                    above |= {self.find(node.home) for node in current.parents}
            layer = above

    def _fold(self, node: ENode) -> None:
        """Arithmetic on constants gives a constant, where it is exact in float64."""
        operation = node.operation
        assert operation is not None
        if type(operation) not in _FOLDED or not over_reals(operation):
            return
        numbers = [constant_of(self._classes[self.find(child)].leader) for child in node.children]
        if any(not isinstance(number, Fraction) for number in numbers):
            return
        try:
            made = fold(operation.name.removeprefix("num."), [n for n in numbers if n is not None], {})
            exact = isinstance(made, Fraction) and math.isfinite(float(made)) and Fraction(float(made)) == made
        except (DoesNotFit, OverflowError):
            return
        if exact:
            constant = _CONSTANT.create(operands=[], result_types=[node.result.type], properties={"value": FloatAttr(float(made), 64)})
            self.union(node.home, self.add(constant))

    def _key(self, operation: Operation, children: tuple[int, ...]) -> tuple[Any, ...]:
        if type(operation) in COMMUTATIVE:
            children = tuple(sorted(children))
        return (type(operation), operation.results[0].type, properties_of(operation), *children)


def _rank(value: SSAValue) -> int:
    """Rank of a value as the name of its class: a constant before a leaf before what is computed."""
    return 2 if type(value.owner) is _CONSTANT else 0 if isinstance(value.owner, Operation) else 1


def _meet(x: Interval, y: Interval) -> Interval:
    """Intersection; where it is empty, one of them: an input outside the declared ranges is no reason to stop."""
    lo, hi = max(x.lo, y.lo), min(x.hi, y.hi)
    return Interval(lo, hi, x.nan and y.nan, x.minus_zero and y.minus_zero) if lo <= hi else x


def is_node(operation: Operation) -> bool:
    """Return whether it can be a node: an operation of the dialect with one result."""
    return type(operation) in COMPUTING and len(operation.results) == 1
