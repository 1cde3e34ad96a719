"""Finite undirected graphs: the values of a model, and which of them share a constraint."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import TypeAlias

Node: TypeAlias = Hashable


@dataclass(frozen=True)
class Graph:
    """Nodes in a fixed order, and undirected edges between two different ones; parallel edges count once.

    Raises ValueError for a node named twice, an edge from a node to itself, and an edge to a node that is not there.
    """

    nodes: tuple[Node, ...]
    edges: tuple[tuple[Node, Node], ...] = ()
    _neighbours: dict[Node, dict[Node, None]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        neighbours: dict[Node, dict[Node, None]] = {node: {} for node in self.nodes}
        if len(neighbours) != len(self.nodes):
            raise ValueError("a node is named twice")
        for u, v in self.edges:
            if u == v:
                raise ValueError(f"the edge from {u!r} to itself says nothing")
            if u not in neighbours or v not in neighbours:
                raise ValueError(f"the edge {u!r} - {v!r} leaves the graph")
            neighbours[u][v] = neighbours[v][u] = None
        order = {node: position for position, node in enumerate(self.nodes)}
        edges = sorted({tuple(sorted(edge, key=order.__getitem__)) for edge in self.edges}, key=lambda e: [order[n] for n in e])
        object.__setattr__(self, "edges", tuple(edges))
        object.__setattr__(self, "_neighbours", neighbours)

    def star(self, node: Node) -> tuple[Node, ...]:
        """The node and its neighbours, in the order of the graph's edges."""
        return (node, *self._neighbours[node])

    def components(self) -> list[tuple[Node, ...]]:
        """The connected components; each in the order in which a walk from its first node finds it."""
        seen: set[Node] = set()
        found = []
        for start in self.nodes:
            if start in seen:
                continue
            component = [start]
            seen.add(start)
            for node in component:
                fresh = [other for other in self._neighbours[node] if other not in seen]
                seen.update(fresh)
                component += fresh
            found.append(tuple(component))
        return found
