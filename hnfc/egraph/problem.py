"""Extraction problem: the candidates, and those that can be left out before anything is solved."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from hnfc.egraph.graph import EGraph, ENode

NodeCost: TypeAlias = Callable[[ENode], float]
Choice: TypeAlias = dict[int, ENode]
_SMALL = 1e-6
"""Extra cost of every node, relative to the dearest one: of equal programs the one with fewer operations is taken."""
_DEAREST = 1e9
"""Larger costs count as this: an integer program cannot tell small ones beside them."""


@dataclass
class ExtractionProblem:
    """The classes that the roots can need, their nodes, and what each costs."""

    graph: EGraph
    roots: list[int]
    options: dict[int, list[ENode]] = field(default_factory=dict)
    cost: dict[ENode, float] = field(default_factory=dict)
    standing_in: set[ENode] = field(default_factory=set)
    """Nodes that compute nothing: another class stands for theirs."""
    _children: dict[ENode, tuple[int, ...]] = field(default_factory=dict)

    def children(self, node: ENode) -> tuple[int, ...]:
        """The classes of the operands, each once."""
        found = self._children.get(node)
        if found is None:
            found = self._children[node] = tuple(dict.fromkeys(map(self.graph.find, node.children)))
        return found

    def price(self, chosen: Choice) -> float:
        return math.fsum(self.cost[node] for node in dict.fromkeys(chosen.values()))

    def resolved(self, chosen: Choice) -> Choice:
        """Part of a choice that the roots need; a merged class has the node of its canonical one."""
        found: Choice = {}
        waiting = list(self.roots)
        while waiting:
            number = self.graph.find(waiting.pop())
            if number not in found:
                node = chosen[number]
                while node in self.standing_in:
                    node = chosen[self.graph.find(node.children[0])]
                found[number] = node
                waiting += node.children
        return found


def problem_of(graph: EGraph, roots: list[int], cost: NodeCost) -> ExtractionProblem:
    problem = ExtractionProblem(graph, roots)
    waiting = list(roots)
    while waiting:
        number = waiting.pop()
        if number in problem.options:
            continue
        current = graph.of(number)
        leaves = [node for node in current.nodes if node.operation is None and not node.children]
        problem.options[number] = list(leaves or current.nodes)
        for other in () if leaves else dict.fromkeys(map(graph.find, current.instead)):
            if other != number:
                stand_in = ENode(None, (other,), current.leader, number)
                problem.standing_in.add(stand_in)
                problem.options[number].append(stand_in)
        for node in problem.options[number]:
            price = cost(node) if node.operation is not None else 0.0
            if not price >= 0:
                raise ValueError(f"the cost of an operation is {price}, but must not be negative")
            problem.cost[node] = min(price, _DEAREST)
            waiting += map(graph.find, node.children)
    small = _SMALL * max(min(max(problem.cost.values(), default=1.0), 1.0), 1e-3)
    for node in problem.cost:
        problem.cost[node] += small
    return problem


def loops_of(problem: ExtractionProblem, chosen: Choice) -> list[list[ENode]]:
    """The loops in which values of a choice need themselves, reachable from the roots; one through each class at most."""
    state: dict[int, int] = {}
    loops: list[list[ENode]] = []
    for root in problem.roots:
        stack: list[tuple[int, list[int]]] = []
        if root not in state:
            state[root] = 1
            stack.append((root, list(problem.children(chosen[root]))))
        while stack:
            number, left = stack[-1]
            if not left:
                state[number] = 2
                stack.pop()
                continue
            child = left.pop()
            if child not in state:
                state[child] = 1
                stack.append((child, list(problem.children(chosen[child]))))
            elif state[child] == 1:
                path = [entry[0] for entry in stack]
                loops.append([chosen[part] for part in path[path.index(child) :]])
    return loops


@dataclass
class Pruning:
    """Dominators of an e-class, whichever node is chosen: itself, and what all of its nodes have in common of what their operands
    cannot do without (the greatest fixed point). Sets of classes are the bits of integers.
    """

    problem: ExtractionProblem
    must: dict[int, int] = field(default_factory=dict)

    def run(self, most: float) -> float:
        """Drops nodes until none can be seen to be needless, and returns what every choice costs at least; `most` is what one costs."""
        problem = self.problem
        self._numbers = list(problem.options)
        self._place = {number: 1 << index for index, number in enumerate(self._numbers)}
        while True:
            self._find_musts()
            self._least = np.array([min((problem.cost[n] for n in problem.options[number]), default=0.0) for number in self._numbers])
            before = sum(map(len, problem.options.values()))
            always = 0
            for root in problem.roots:
                always |= self.must[root]
            for number, nodes in problem.options.items():
                affordable = [node for node in nodes if self._price(number, node, always) <= most * (1 + 1e-9)]
                problem.options[number] = self._undominated(affordable)
            if sum(map(len, problem.options.values())) == before:
                break
        return self._sum(always) if all(problem.options[root] for root in problem.roots) else most

    def _find_musts(self) -> None:
        problem = self.problem
        everything = (1 << len(self._numbers)) - 1
        self.must = dict.fromkeys(self._numbers, everything)
        users: dict[int, set[int]] = {}
        for number, nodes in problem.options.items():
            for node in nodes:
                for child in problem.children(node):
                    users.setdefault(child, set()).add(number)
        waiting = dict.fromkeys(self._numbers)
        while waiting:
            number, _ = waiting.popitem()
            common = everything
            for node in problem.options[number]:
                common &= self._below(node)
            now = common | self._place[number]
            if now != self.must[number]:
                self.must[number] = now
                waiting.update(dict.fromkeys(users.get(number, ())))

    def _below(self, node: ENode) -> int:
        """Dominators of a node."""
        found = 0
        for child in self.problem.children(node):
            found |= self.must[child]
        return found

    def _price(self, number: int, node: ENode, always: int) -> float:
        """Least cost of the choices with this node; infinite where it would need itself."""
        below, mine = self._below(node), self._place[number]
        return math.inf if below & mine else self._sum((always | below) & ~mine) + self.problem.cost[node]

    def _sum(self, classes: int) -> float:
        bits = np.frombuffer(classes.to_bytes((len(self._numbers) + 7) // 8, "little"), np.uint8)
        return float(self._least @ np.unpackbits(bits, count=len(self._numbers), bitorder="little"))

    def _undominated(self, nodes: list[ENode]) -> list[ENode]:
        """Without nodes for which a cheaper one can stand that has as operands only what they cannot do without anyway."""
        kept: list[tuple[int, ENode]] = []
        for node in sorted(nodes, key=lambda node: (self.problem.cost[node], node.serial)):
            below = self._below(node)
            if not any(operands & ~below == 0 for operands, _ in kept):
                operands = 0
                for child in self.problem.children(node):
                    operands |= self._place[child]
                kept.append((operands, node))
        return [node for _, node in kept]
