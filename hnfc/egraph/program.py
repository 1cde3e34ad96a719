"""Programs into an e-graph, and what was chosen in it back into a program."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from xdsl.ir import Block, Operation, SSAValue

from hnfc.core.interpreter import WeightReader
from hnfc.dialects.interval import ANYTHING, Interval
from hnfc.egraph.graph import EGraph, ENode, Reason, is_node


@dataclass
class Written:
    """Replacement of each erased value, the node of each new operation, and of what stands for a root now."""

    replaced: dict[SSAValue, SSAValue] = field(default_factory=dict)
    made: dict[Operation, ENode] = field(default_factory=dict)
    roots: dict[SSAValue, ENode] = field(default_factory=dict)


@dataclass
class Program:
    """A block of `num` operations in an e-graph. inside: the e-graph's value for each value of the block.

    roots: what must be computed, the operands of what is no node: an operation, the place of the operand, and the class that it was.
    """

    block: Block
    graph: EGraph
    inside: dict[SSAValue, SSAValue] = field(default_factory=dict)
    roots: list[tuple[Operation, int, int]] = field(default_factory=list)

    @staticmethod
    def of(block: Block, intervals: Mapping[SSAValue, Interval] | None = None, weights: WeightReader | None = None) -> Program:
        known = intervals or {}
        program = Program(block, EGraph(weights))
        for argument in block.args:
            program.inside[argument] = program.graph.leaf(argument.type, known.get(argument, ANYTHING))
        program.add(block.ops, known)
        program.roots = [(o, index, program.class_of(v)) for o in block.ops if not is_node(o) for index, v in enumerate(o.operands)]
        return program

    def needed(self) -> list[int]:
        """The classes of the roots."""
        return list(dict.fromkeys(self.graph.find(number) for _, _, number in self.roots))

    def join(self) -> None:
        """Lets what the block computes now, and what was added to the e-graph, stand for what it computed."""
        graph = self.graph
        self.roots = [(o, index, graph.junction((number, self.class_of(o.operands[index])))) for o, index, number in self.roots]

    def add(
        self,
        operations: Iterable[Operation],
        known: Mapping[SSAValue, Interval] | None = None,
        reason: Callable[[Operation], Reason | None] = lambda operation: None,
    ) -> None:
        """Adds what is not there yet, and operations that have other operands than they had; `reason` says why an operation equals
        something that was."""
        graph = self.graph
        for operation in operations:
            operands = [self.inside[operand] for operand in operation.operands]
            if is_node(operation):
                types = [result.type for result in operation.results]
                copy = type(operation).create(operands=operands, result_types=types, properties=operation.properties)
                number = graph.add(copy, reason(operation))
                if operation.results[0] in self.inside:
                    graph.put_instead(self.class_of(operation.results[0]), number)
                else:
                    self.inside[operation.results[0]] = graph.of(number).leader
                continue
            if all(result in self.inside for result in operation.results):
                continue
            children = [graph.class_of(operand) for operand in operands]
            for result in operation.results:
                self.inside[result] = graph.leaf(result.type, (known or {}).get(result, ANYTHING), children)

    def class_of(self, value: SSAValue) -> int:
        return self.graph.class_of(self.inside[value])

    def standing(self) -> dict[int, ENode]:
        """The choice that the block is now: of each class the first operation in it, which needs only what comes before."""
        graph = self.graph
        found: dict[int, ENode] = {}
        for argument in (*self.block.args, *(result for operation in self.block.ops for result in operation.results)):
            number = self.class_of(argument)
            leaf = next((node for node in graph.of(number).nodes if node.operation is None), None)
            owner = argument.owner
            if leaf is not None and number not in found:
                found[number] = leaf
            elif isinstance(owner, Operation) and number not in found:
                node = graph.node_of(owner, [self.class_of(operand) for operand in owner.operands])
                if node is not None:
                    found[number] = node
        for operation, index, number in self.roots:
            found[graph.find(number)] = found[self.class_of(operation.operands[index])]
        return found

    def write(self, chosen: Mapping[int, ENode]) -> Written:
        """Makes the block compute its roots by the chosen node of each class.

        Operations that are chosen stay where they are and take other operands where those changed; the others are made, and what nothing
        needs any more is left for the caller to erase.
        """
        writing = _Writing(self, chosen)
        written = Written()
        for operation, index, number in self.roots:
            new, old = writing.value(number), operation.operands[index]
            if new is not old:
                operation.operands[index] = new
                # a class that may stand for another is not the same class
                written.replaced[old], written.roots[old] = new, chosen[self.graph.find(number)]
        writing.arrange()
        for operation in self.block.ops:
            for result in operation.results if is_node(operation) and operation not in writing.made else ():
                new = writing.values.get(self.class_of(result), result)
                if new is not result:
                    written.replaced[result] = new
        written.made.update(writing.made)
        return written


@dataclass
class _Writing:
    program: Program
    chosen: Mapping[int, ENode]
    values: dict[int, SSAValue] = field(default_factory=dict)
    by_node: dict[ENode, SSAValue] = field(default_factory=dict)
    made: dict[Operation, ENode] = field(default_factory=dict)

    def __post_init__(self) -> None:
        graph = self.program.graph
        self.external = {self.program.inside[value]: value for value in reversed(list(self.program.inside)) if self._stands(value)}
        self.standing: dict[tuple[int, ...], list[Operation]] = {}
        for operation in self.program.block.ops:
            if is_node(operation):
                self.standing.setdefault(self._key(operation), []).append(operation)
        self.graph = graph

    def _stands(self, value: SSAValue) -> bool:
        owner = value.owner
        return owner is self.program.block or (isinstance(owner, Operation) and owner.parent is self.program.block)

    def _key(self, operation: Operation) -> tuple[int, ...]:
        return (id(type(operation)), *(self.program.class_of(operand) for operand in operation.operands))

    def value(self, number: int) -> SSAValue:
        """The value of the block that stands for a class; what it takes is made first."""
        graph = self.graph
        stack = [graph.find(number)]
        while stack:
            current = stack[-1]
            if current in self.values:
                stack.pop()
                continue
            node = self.chosen[current]
            missing = [child for child in map(graph.find, node.children) if child not in self.values and node.operation is not None]
            if missing:
                stack += missing
                continue
            stack.pop()
            self.values[current] = self._made(node)
        return self.values[graph.find(number)]

    def _made(self, node: ENode) -> SSAValue:
        if node.operation is None:
            return self.external[node.result]
        if node in self.by_node:
            return self.by_node[node]
        operands = [self.values[self.graph.find(child)] for child in node.children]
        kind = node.operation.results[0].type
        key = (id(type(node.operation)), *map(self.graph.find, node.children))
        standing = self.standing.get(key, [])
        operation = next((o for o in standing if o.properties == node.operation.properties and o.results[0].type == kind), None)
        if operation is not None:
            standing.remove(operation)
            for index, operand in enumerate(operands):
                if operation.operands[index] is not operand:
                    operation.operands[index] = operand
        else:
            operation = type(node.operation).create(operands=operands, result_types=[kind], properties=node.operation.properties)
            self.made[operation] = node
        self.by_node[node] = operation.results[0]
        return operation.results[0]

    def arrange(self) -> None:
        """Puts what was made before what uses it, and leaves the order of the rest as it is where that can be."""
        block = self.program.block
        placed: set[Operation] = set()
        order: list[Operation] = []
        for operation in list(block.ops):
            stack = [operation]
            while stack:
                current = stack[-1]
                if current in placed:
                    stack.pop()
                    continue
                missing = [
                    o.owner for o in current.operands
                    if isinstance(o.owner, Operation) and o.owner not in placed and (o.owner in self.made or o.owner.parent is block)
                ]  # fmt: skip
                if missing:
                    stack += missing
                    continue
                stack.pop()
                placed.add(current)
                order.append(current)
        for operation in list(block.ops):
            operation.detach()  # type: ignore[no-untyped-call]
        for operation in order:
            block.add_op(operation)


__all__ = ["Program"]
