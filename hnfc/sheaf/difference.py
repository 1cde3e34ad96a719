"""Difference constraints p_x − p_y ≤ c: the least solution by longest paths, or a negative cycle and its gap.

Solutions are closed under pointwise minimum, so the least one is unique. A system has none if and only if some directed cycle
has negative total (Farkas); a simple one is a minimal core. Bounds on one node go through the ground, whose value is 0.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import count

from hnfc.sheaf.graph import Node

GROUND = None


@dataclass(frozen=True)
class DifferenceConstraint:
    """p_x − p_y ≤ bound; x or y may be GROUND, so no node is None. `reason` is what the user reads."""

    x: Node
    y: Node
    bound: int
    reason: str


def at_least(node: Node, bits: int, reason: str) -> DifferenceConstraint:
    return DifferenceConstraint(GROUND, node, -bits, reason)


def at_most(node: Node, bits: int, reason: str) -> DifferenceConstraint:
    return DifferenceConstraint(node, GROUND, bits, reason)


def within(u: Node, v: Node, tolerance: int, reason: str) -> tuple[DifferenceConstraint, DifferenceConstraint]:
    """|p_u − p_v| ≤ tolerance."""
    return DifferenceConstraint(u, v, tolerance, reason), DifferenceConstraint(v, u, tolerance, reason)


@dataclass(frozen=True)
class Conflict:
    """A simple cycle, each constraint's y the next one's x, whose bounds add up to −gap < 0.

    It is a minimal core: without any one of its constraints the others have a solution.
    """

    cycle: tuple[DifferenceConstraint, ...]

    @property
    def gap(self) -> int:
        return -sum(difference.bound for difference in self.cycle)


def least_solution(differences: Iterable[DifferenceConstraint]) -> dict[Node, int] | Conflict:
    """The pointwise least solution on the nodes that the constraints name, or a conflict.

    Upper bounds never raise a value, so they are compared at the end, and the one that is exceeded most is reported.
    Near-linear where no strongly connected component has a negative bound (|p_u − p_v| ≤ δ, and p_u ≥ p_v + c without cycles);
    otherwise nodes × constraints within that component.
    Raises ValueError if nothing bounds a node from below.
    """
    raising: dict[Node, list[DifferenceConstraint]] = defaultdict(list)
    caps = []
    nodes: dict[Node, None] = {}
    for difference in differences:
        nodes.update(dict.fromkeys((difference.x, difference.y)))
        if difference.y is GROUND:
            caps.append(difference)
        else:
            raising[difference.x].append(difference)
    nodes.pop(GROUND, None)

    values: dict[Node, int] = {GROUND: 0}
    parents: dict[Node, DifferenceConstraint] = {}
    for component in _strong_components((GROUND, *nodes), raising):
        if cycle := _raise_within(component, raising, values, parents):
            return Conflict(cycle)
    if floating := [node for node in nodes if node not in values]:
        raise ValueError(f"nothing bounds {floating[0]!r} from below")
    if caps:
        worst = max(caps, key=lambda cap: values[cap.x] - cap.bound)
        if values[worst.x] > worst.bound:
            return Conflict((*_path(parents, worst.x), worst))
    return {node: values[node] for node in nodes}


def _path(parents: dict[Node, DifferenceConstraint], node: Node) -> list[DifferenceConstraint]:
    """The constraints that give the node its value, from the ground."""
    steps = []
    while node is not GROUND:
        steps.append(parents[node])
        node = steps[-1].x
    return steps[::-1]


def _raise_within(
    component: list[Node],
    raising: dict[Node, list[DifferenceConstraint]],
    values: dict[Node, int],
    parents: dict[Node, DifferenceConstraint],
) -> tuple[DifferenceConstraint, ...]:
    """Settles a strong component, into which those before it have raised, and raises what follows; a negative cycle if it has one."""
    inside = set(component)
    inner = {node: [d for d in raising[node] if d.y in inside] for node in component}
    if all(d.bound >= 0 for steps in inner.values() for d in steps):
        _largest_first(inner, values, parents)
    elif cycle := _in_rounds(inner, values, parents):
        return cycle
    for node in component:
        if node in values:
            for d in raising[node]:
                if d.y not in inside:
                    _raise(d, values, parents)
    return ()


def _raise(difference: DifferenceConstraint, values: dict[Node, int], parents: dict[Node, DifferenceConstraint]) -> bool:
    """p_y ≥ p_x − bound; whether that raised p_y."""
    value = values[difference.x] - difference.bound
    if difference.y in values and values[difference.y] >= value:
        return False
    values[difference.y], parents[difference.y] = value, difference
    return True


def _largest_first(
    inner: dict[Node, list[DifferenceConstraint]], values: dict[Node, int], parents: dict[Node, DifferenceConstraint]
) -> None:
    """Dijkstra: where no step raises, the largest open value is final."""
    ticket = count()
    heap = [(-values[node], next(ticket), node) for node in inner if node in values]
    heapify(heap)
    while heap:
        key, _, node = heappop(heap)
        if -key == values[node]:
            for d in inner[node]:
                if _raise(d, values, parents):
                    heappush(heap, (-values[d.y], next(ticket), d.y))


def _in_rounds(
    inner: dict[Node, list[DifferenceConstraint]], values: dict[Node, int], parents: dict[Node, DifferenceConstraint]
) -> tuple[DifferenceConstraint, ...]:
    """Bellman–Ford with a queue. With a negative cycle, the parents contain one from some step on (Cherkassky and Goldberg 1999)."""
    queue = deque(node for node in inner if node in values)
    waiting = set(queue)
    raised = 0
    while queue:
        node = queue.popleft()
        waiting.discard(node)
        for d in inner[node]:
            if not _raise(d, values, parents):
                continue
            if d.y not in waiting:
                waiting.add(d.y)
                queue.append(d.y)
            raised += 1
            if raised % len(inner) == 0 and (cycle := _cycle_of_parents(inner, parents)):
                return cycle
    return ()


def _cycle_of_parents(
    inner: dict[Node, list[DifferenceConstraint]], parents: dict[Node, DifferenceConstraint]
) -> tuple[DifferenceConstraint, ...]:
    walk: dict[Node, int] = {}
    for number, start in enumerate(inner):
        node = start
        while node in inner and node in parents and node not in walk:
            walk[node] = number
            node = parents[node].x
        if walk.get(node) == number and node in parents:
            steps = [parents[node]]
            while steps[-1].x != node:
                steps.append(parents[steps[-1].x])
            return tuple(steps[::-1])
    return ()


def _strong_components(nodes: Iterable[Node], raising: dict[Node, list[DifferenceConstraint]]) -> list[list[Node]]:
    """The strongly connected components, each before those that it raises (Tarjan 1972)."""
    found: list[list[Node]] = []
    number: dict[Node, int] = {}
    low: dict[Node, int] = {}
    stack: list[Node] = []
    done: set[Node] = set()
    for root in nodes:
        if root in number:
            continue
        calls: list[tuple[Node, Iterator[DifferenceConstraint]]] = []
        _enter(root, number, low, stack, calls, raising)
        while calls:
            node, steps = calls[-1]
            for d in steps:
                if d.y not in number:
                    _enter(d.y, number, low, stack, calls, raising)
                    break
                if d.y not in done:
                    low[node] = min(low[node], number[d.y])
            else:
                calls.pop()
                if calls:
                    low[calls[-1][0]] = min(low[calls[-1][0]], low[node])
                if low[node] == number[node]:
                    component = [stack.pop()]
                    while component[-1] != node:
                        component.append(stack.pop())
                    found.append(component)
                    done.update(component)
    return found[::-1]


def _enter(
    node: Node,
    number: dict[Node, int],
    low: dict[Node, int],
    stack: list[Node],
    calls: list[tuple[Node, Iterator[DifferenceConstraint]]],
    raising: dict[Node, list[DifferenceConstraint]],
) -> None:
    number[node] = low[node] = len(number)
    stack.append(node)
    calls.append((node, iter(raising[node])))
