"""Difference constraints where every node takes one of finitely many values: the least solution by propagation, or why a list is too short.

Each constraint p_x − p_y ≤ c is closed under pointwise minimum on any chains of values, so propagation alone decides,
and the least solution is unique. Rounding up to the next value means that bounds along a cycle no longer just add up:
the reason is a chain of steps, not a weight.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from hnfc.sheaf.difference import GROUND, DifferenceConstraint
from hnfc.sheaf.graph import Node


@dataclass(frozen=True)
class ForcedLevel:
    """`difference` and the value of its x force its y to `needed` or more, hence to `level`; None where its list ends below."""

    difference: DifferenceConstraint
    needed: int
    level: int | None


@dataclass(frozen=True)
class Shortfall:
    """A derivation, each step's y the next one's x, from a node at its lowest value to one whose list ends `gap` below what is needed.

    With the lists of the nodes that it names it has no solution, so it refutes the system. It is not always a smallest reason.
    """

    steps: tuple[ForcedLevel, ...]
    gap: int


@dataclass(frozen=True)
class _Derived:
    level: int
    step: ForcedLevel | None
    cause: _Derived | None


def least_levels(levels: Mapping[Node, Sequence[int]], differences: Iterable[DifferenceConstraint]) -> dict[Node, int] | Shortfall:
    """The pointwise least choice from the lists that satisfies the constraints, or a shortfall. O(constraints × longest list).

    The lists may come in any order. Raises ValueError for a node without values, and KeyError for a constraint on a node without a list.
    """
    ordered: dict[Node, list[int]] = {GROUND: [0]} | {node: sorted(values) for node, values in levels.items()}
    if bare := [node for node, values in ordered.items() if not values]:
        raise ValueError(f"{bare[0]!r} has no values")
    following: dict[Node, list[DifferenceConstraint]] = defaultdict(list)
    for difference in differences:
        following[difference.x].append(difference)
    now = {node: _Derived(values[0], None, None) for node, values in ordered.items()}
    queue = deque(ordered)
    waiting = set(ordered)
    while queue:
        node = queue.popleft()
        waiting.discard(node)
        for difference in following[node]:
            other, cause = difference.y, now[node]
            needed = cause.level - difference.bound
            if needed <= now[other].level:
                continue
            place = bisect_left(ordered[other], needed)
            if place == len(ordered[other]):
                return Shortfall(_chain(_Derived(0, ForcedLevel(difference, needed, None), cause)), needed - ordered[other][-1])
            now[other] = _Derived(ordered[other][place], ForcedLevel(difference, needed, ordered[other][place]), cause)
            if other not in waiting:
                waiting.add(other)
                queue.append(other)
    return {node: now[node].level for node in levels}


def _chain(last: _Derived) -> tuple[ForcedLevel, ...]:
    steps = []
    derived: _Derived | None = last
    while derived is not None and derived.step is not None:
        steps.append(derived.step)
        derived = derived.cause
    return tuple(reversed(steps))
