"""Covers of a set of nodes, and their nerves."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from hnfc.sheaf.graph import Graph, Node
from hnfc.sheaf.system import System

Simplex: TypeAlias = tuple[int, ...]
"""Increasing indices of contexts that meet; q + 1 of them in dimension q."""


@dataclass(frozen=True)
class Cover:
    """Contexts U_0 … U_n, each a tuple of different nodes. Raises ValueError for an empty one and for a node named twice in one."""

    contexts: tuple[tuple[Node, ...], ...]
    _simplices: list[tuple[Simplex, ...]] = field(init=False, repr=False, compare=False, default_factory=list)
    _holders: dict[Node, list[int]] = field(init=False, repr=False, compare=False, default_factory=dict)

    def __post_init__(self) -> None:
        for context in self.contexts:
            if not context or len(set(context)) != len(context):
                raise ValueError(f"a context names some nodes, each once, but is {context!r}")
        self._simplices.append(tuple((index,) for index in range(len(self.contexts))))
        for index, context in enumerate(self.contexts):
            for node in context:
                self._holders.setdefault(node, []).append(index)

    def meet(self, simplex: Simplex) -> tuple[Node, ...]:
        """U_σ = ∩ U_i over i in σ, in the order of σ's first context."""
        others = [set(self.contexts[index]) for index in simplex[1:]]
        return tuple(node for node in self.contexts[simplex[0]] if all(node in other for other in others))

    def simplices(self, dimension: int) -> tuple[Simplex, ...]:
        """N_q: the sets of q + 1 contexts with a node in common, in lexicographic order; empty above the nerve's dimension."""
        while len(self._simplices) <= dimension:
            self._simplices.append(tuple((*face, index) for face in self._simplices[-1] for index in self._beyond(face)))
        return self._simplices[dimension]

    def _beyond(self, face: Simplex) -> list[int]:
        """The contexts after the face's last one that share a node with all of it."""
        return sorted({index for node in self.meet(face) for index in self._holders[node] if index > face[-1]})

    def check(self, system: System) -> None:
        """Raises ValueError where a node or a constraint's scope lies in no context: families would then glue to too much."""
        if lost := [node for node in system.nodes if node not in self._holders]:
            raise ValueError(f"{lost[0]!r} lies in no context")
        for constraint in system.constraints:
            if not set.intersection(*(set(self._holders[node]) for node in constraint.scope)):
                raise ValueError(f"{constraint.reason}: its scope lies in no context")


def stars(graph: Graph) -> Cover:
    """The star cover: every node with its neighbours."""
    return Cover(tuple(graph.star(node) for node in graph.nodes))


def scopes(system: System) -> Cover:
    """Every constraint's scope once, and each node that no constraint names."""
    sets: dict[frozenset[Node], tuple[Node, ...]] = {}
    for constraint in system.constraints:
        sets.setdefault(frozenset(constraint.scope), constraint.scope)
    named = {node for scope in sets for node in scope}
    return Cover((*sets.values(), *((node,) for node in system.nodes if node not in named)))
