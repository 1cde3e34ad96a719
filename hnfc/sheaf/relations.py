"""Exact relations between integers along edges, as a cellular sheaf on a graph with stalk ℤ (Hansen and Ghrist 2019).

The offsets are a 1-cochain w. A solution exists if and only if [w] = 0 in H¹; with all scales 1 that is H¹(G; ℤ), and a minimal core is
one cycle with nonzero sum. Here, and only here and for affine systems, the core and the cohomology class say the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hnfc.sheaf.graph import Node
from hnfc.sheaf.homology import Group, Lattice, cohomology, matrix


@dataclass(frozen=True)
class Relation:
    """head_scale · p_head − tail_scale · p_tail = offset. Parallel relations and loops are allowed."""

    tail: Node
    head: Node
    offset: int
    reason: str = ""
    tail_scale: int = 1
    head_scale: int = 1


@dataclass(frozen=True)
class Holonomy:
    """A simple cycle of relations, each with the sign in which it is walked, and the sum of the signed offsets, which is not zero."""

    cycle: tuple[tuple[Relation, int], ...]

    @property
    def total(self) -> int:
        return sum(sign * relation.offset for relation, sign in self.cycle)


def _rows(nodes: Sequence[Node], relations: Sequence[Relation]) -> dict[tuple[int, int], int]:
    place = {node: number for number, node in enumerate(nodes)}
    entries: dict[tuple[int, int], int] = {}
    for row, relation in enumerate(relations):
        for node, scale in ((relation.head, relation.head_scale), (relation.tail, -relation.tail_scale)):
            entries[row, place[node]] = entries.get((row, place[node]), 0) + scale
    return entries


def coboundary(nodes: Sequence[Node], relations: Sequence[Relation]) -> Any:
    """d: C⁰ → C¹ of shape (relations, nodes)."""
    return matrix(len(relations), len(nodes), _rows(nodes, relations))


def cohomologies(nodes: Sequence[Node], relations: Sequence[Relation]) -> tuple[Group, Group]:
    """H⁰ and H¹ of the sheaf; on a graph there is no more."""
    d = coboundary(nodes, relations)
    return cohomology(matrix(len(nodes), 0, {}), d), cohomology(d, matrix(0, len(relations), {}))


def is_solvable(nodes: Sequence[Node], relations: Sequence[Relation]) -> bool:
    """Return whether [offsets] = 0 in H¹, for any scales."""
    columns: list[dict[int, int]] = [{} for _ in nodes]
    for (row, column), entry in _rows(nodes, relations).items():
        columns[column][row] = entry
    return {row: relation.offset for row, relation in enumerate(relations)} in Lattice(len(relations), columns)


def solve(nodes: Sequence[Node], relations: Sequence[Relation]) -> dict[Node, int] | Holonomy:
    """Values that satisfy every relation, 0 at the first node of each component; or a cycle that forbids them.

    Linear. Raises ValueError unless all scales are 1.
    """
    if scaled := [relation for relation in relations if (relation.tail_scale, relation.head_scale) != (1, 1)]:
        raise ValueError(f"expected differences, but {scaled[0]!r} scales")
    steps: dict[Node, list[tuple[Node, Relation, int]]] = {node: [] for node in nodes}
    for relation in relations:
        steps[relation.tail].append((relation.head, relation, 1))
        steps[relation.head].append((relation.tail, relation, -1))
    values: dict[Node, int] = {}
    tree: dict[Node, tuple[Node, Relation, int]] = {}
    for root in nodes:
        if root in values:
            continue
        values[root] = 0
        order = [root]
        for node in order:
            for other, relation, sign in steps[node]:
                value = values[node] + sign * relation.offset
                if other not in values:
                    values[other], tree[other] = value, (node, relation, sign)
                    order.append(other)
                elif values[other] != value:
                    return Holonomy(_close(tree, node, other, relation, sign))
    return values


def _close(
    tree: dict[Node, tuple[Node, Relation, int]], node: Node, other: Node, relation: Relation, sign: int
) -> tuple[tuple[Relation, int], ...]:
    """The cycle of a step from node to other and the way back in the tree."""

    def way(start: Node) -> list[tuple[Relation, int]]:
        found = []
        while start in tree:
            start, step, direction = tree[start]
            found.append((step, direction))
        return found[::-1]

    down, back = way(node), way(other)
    shared = 0
    while shared < min(len(down), len(back)) and down[shared] == back[shared]:
        shared += 1
    return (*down[shared:], (relation, sign), *((step, -direction) for step, direction in reversed(back[shared:])))
