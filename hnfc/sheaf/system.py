"""Finite constraint systems: every node has a list of values, every constraint says which of them fit together."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, TypeAlias

from hnfc.sheaf.graph import Graph, Node

Value: TypeAlias = Hashable
Section: TypeAlias = tuple[Value, ...]
"""The values on a tuple of nodes, in the order of that tuple."""


@dataclass(frozen=True)
class Constraint:
    """`holds(*values)` for the values of the nodes of `scope`, in that order; `reason` is what the user reads."""

    reason: str
    scope: tuple[Node, ...]
    holds: Callable[..., Any]

    def __post_init__(self) -> None:
        if not self.scope or len(set(self.scope)) != len(self.scope):
            raise ValueError(f"{self.reason}: a scope names some nodes, each once, but is {self.scope!r}")


@dataclass(frozen=True)
class System:
    """𝒫(U) for every set U of nodes: the assignments that satisfy each constraint whose scope lies in U.

    Raises ValueError for a constraint on a node without a domain.
    """

    domains: Mapping[Node, Sequence[Value]]
    constraints: tuple[Constraint, ...] = ()
    _by_first: dict[Node, list[Constraint]] = field(init=False, repr=False, compare=False, default_factory=dict)

    def __post_init__(self) -> None:
        for constraint in self.constraints:
            self._by_first.setdefault(constraint.scope[0], []).append(constraint)
            for node in constraint.scope:
                if node not in self.domains:
                    raise ValueError(f"{constraint.reason}: {node!r} has no list of values")

    @property
    def nodes(self) -> tuple[Node, ...]:
        return tuple(self.domains)

    def graph(self) -> Graph:
        """The primal graph: an edge wherever two nodes share a constraint."""
        return Graph(self.nodes, tuple(edge for constraint in self.constraints for edge in combinations(constraint.scope, 2)))

    def sections(self, nodes: tuple[Node, ...]) -> tuple[Section, ...]:
        """𝒫(nodes), in the lexicographic order of the domains; one empty section on the empty set. Exponential in len(nodes)."""
        position = {node: place for place, node in enumerate(nodes)}
        due: list[list[tuple[Constraint, list[int]]]] = [[] for _ in nodes]
        for constraint in (constraint for node in nodes for constraint in self._by_first.get(node, ())):
            places = [position[node] for node in constraint.scope if node in position]
            if len(places) == len(constraint.scope):
                due[max(places)].append((constraint, places))

        found: list[Section] = []
        open_: list[Section] = [()]
        while open_:
            values = open_.pop()
            place = len(values)
            if place == len(nodes):
                found.append(values)
                continue
            for value in reversed(self.domains[nodes[place]]):
                longer = (*values, value)
                if all(constraint.holds(*(longer[at] for at in places)) for constraint, places in due[place]):
                    open_.append(longer)
        return tuple(found)

    def violated(self, assignment: Mapping[Node, Value]) -> list[Constraint]:
        """The constraints that an assignment to every node breaks."""
        return [c for c in self.constraints if not c.holds(*(assignment[node] for node in c.scope))]


def restrict(section: Section, source: tuple[Node, ...], target: tuple[Node, ...]) -> Section:
    """ρ: 𝒫(source) → 𝒫(target) forgets the values outside target ⊆ source; a contravariant functor. Raises ValueError elsewhere."""
    return tuple(section[source.index(node)] for node in target)


def uniform(system: System) -> System:
    """The sub-presheaf of the assignments that give all connected nodes one value.

    Mixed precision is forced exactly where this has no global section and the system has one.
    """
    same = tuple(Constraint(f"{u} and {v} are uniform", (u, v), lambda a, b: a == b) for u, v in system.graph().edges)
    return System(system.domains, system.constraints + same)
