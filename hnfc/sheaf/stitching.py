"""Global sections block by block: 𝒫(A ∪ B) is the fibre product of 𝒫(A) and 𝒫(B) over 𝒫(A ∩ B).

Blocks are taken in order, and of what lies behind only the sections on the interface with what follows are kept, each with the cheapest
way to extend it backwards. The time grows linearly with the number of blocks, and exponentially only with the size of one and of the
interfaces (dynamic programming on a path decomposition; Bodlaender 1988). A cover whose blocks meet elsewhere has wider interfaces.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hnfc.sheaf.graph import Node
from hnfc.sheaf.ilp import Weights
from hnfc.sheaf.system import Constraint, Section, System, Value, restrict


@dataclass(frozen=True)
class _Extension:
    """The cheapest way to a section on an interface: its cost, the section of the block before it, and the interface behind that."""

    cost: float
    nodes: tuple[Node, ...]
    section: Section
    behind: _Extension | None


def interfaces(blocks: Sequence[tuple[Node, ...]]) -> list[tuple[Node, ...]]:
    """After each block, the nodes seen so far that a later block has too."""
    last = {node: index for index, block in enumerate(blocks) for node in block}
    found: list[tuple[Node, ...]] = []
    for index, block in enumerate(blocks):
        seen = dict.fromkeys((*(found[-1] if found else ()), *block))
        found.append(tuple(node for node in seen if last[node] > index))
    return found


def cheapest_by_blocks(system: System, cost: Weights, blocks: Sequence[tuple[Node, ...]]) -> dict[Node, Value] | None:
    """A global section of least cost; None where there is none. The same cost as that of the whole system at once.

    Raises ValueError where a node or the scope of a constraint lies in no block.
    """
    known: dict[Section, _Extension | None] = {(): None}
    before: tuple[Node, ...] = ()
    for block, after, constraints in zip(blocks, interfaces(blocks), _by_block(system, blocks), strict=True):
        nodes = tuple(dict.fromkeys((*before, *block)))
        fresh = nodes[len(before) :]
        found: dict[Section, _Extension | None] = {}
        for start, behind in known.items():
            domains = dict(zip(before, ((value,) for value in start), strict=True)) | {n: system.domains[n] for n in fresh}
            for section in System(domains, constraints).sections(nodes):
                values = dict(zip(nodes, section, strict=True))
                total = (behind.cost if behind else 0.0) + sum(cost.get(n, {}).get(values[n], 0.0) for n in fresh)
                key = restrict(section, nodes, after)
                best = found.get(key)
                if best is None or total < best.cost:
                    found[key] = _Extension(total, nodes, section, behind)
        known, before = found, after
    if not known:
        return None
    step = known.get(())
    assignment: dict[Node, Value] = {}
    while step is not None:
        assignment.update(zip(step.nodes, step.section, strict=True))
        step = step.behind
    return assignment


def _by_block(system: System, blocks: Sequence[tuple[Node, ...]]) -> list[tuple[Constraint, ...]]:
    """For each block the constraints that it is the first to hold."""
    places: dict[Node, list[int]] = {}
    for index, block in enumerate(blocks):
        for node in block:
            places.setdefault(node, []).append(index)
    if missing := [node for node in system.nodes if node not in places]:
        raise ValueError(f"{missing[0]} lies in no block")
    found: list[list[Constraint]] = [[] for _ in blocks]
    for constraint in system.constraints:
        holding = (index for index in places[constraint.scope[0]] if set(constraint.scope) <= set(blocks[index]))
        first = next(holding, None)
        if first is None:
            raise ValueError(f"no block holds the scope of: {constraint.reason}")
        found[first].append(constraint)
    return [tuple(constraints) for constraints in found]
