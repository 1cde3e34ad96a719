"""Blocks stitched along their interfaces give the answer of the whole, and their number costs linear time."""

from __future__ import annotations

import random

import pytest

from hnfc.sheaf.ilp import cheapest, total
from hnfc.sheaf.stitching import cheapest_by_blocks, interfaces
from hnfc.sheaf.system import Constraint, System


def chain(draw: random.Random, blocks: int, size: int, shared: int) -> tuple[System, list[tuple[int, ...]]]:
    """Blocks of consecutive nodes that share some with the next, and random constraints within each."""
    step = size - shared
    parts = [tuple(range(i * step, i * step + size)) for i in range(blocks)]
    nodes = range(parts[-1][-1] + 1)
    domains = {n: tuple(draw.sample((8, 11, 24, 53), draw.randint(1, 3))) for n in nodes}
    constraints = []
    for part in parts:
        for _ in range(draw.randint(0, 4)):
            u, v = draw.sample(part, 2)
            tolerance = draw.choice((0, 3, 13, 45))
            constraints.append(Constraint(f"{u} and {v} within {tolerance}", (u, v), lambda a, b, t=tolerance: abs(a - b) <= t))
    return System(domains, tuple(constraints)), parts


@pytest.mark.parametrize("seed", range(40))
def test_the_same_cost_as_the_whole(seed: int) -> None:
    draw = random.Random(seed)
    system, blocks = chain(draw, draw.randint(1, 4), 4, draw.randint(1, 2))
    cost = {n: {value: float(draw.randint(0, 9)) for value in values} for n, values in system.domains.items()}
    whole, stitched = cheapest(system, cost), cheapest_by_blocks(system, cost, blocks)
    assert (whole is None) == (stitched is None)
    if whole is not None and stitched is not None:
        assert not system.violated(stitched)
        assert total(cost, stitched) == total(cost, whole)


def test_blocks_that_meet_far_apart() -> None:
    """A cycle: the last block meets the first one again."""
    ring = 9
    blocks = [tuple(sorted({i, (i + 1) % ring})) for i in range(ring)]
    different = tuple(Constraint(f"{u} differs from {v}", (u, v), lambda a, b: a != b) for u, v in blocks)
    assert cheapest_by_blocks(System(dict.fromkeys(range(ring), (0, 1)), different), {}, blocks) is None
    found = cheapest_by_blocks(System(dict.fromkeys(range(ring), (0, 1, 2)), different), {}, blocks)
    assert found is not None and all(found[u] != found[v] for u, v in blocks)


def test_a_thousand_blocks() -> None:
    system, blocks = chain(random.Random(1), 1000, 3, 1)
    free = System(dict.fromkeys(system.nodes, (8, 11, 24)))
    found = cheapest_by_blocks(free, {n: {8: 1.0, 11: 2.0, 24: 0.5} for n in free.nodes}, blocks)
    assert found == dict.fromkeys(free.nodes, 24)


def test_interfaces() -> None:
    assert interfaces([(1, 2), (2, 3), (3, 1)]) == [(1, 2), (1, 3), ()]


def test_a_cover_that_misses_something() -> None:
    system = System({1: (0,), 2: (0,)}, (Constraint("together", (1, 2), lambda a, b: True),))
    with pytest.raises(ValueError, match="2 lies in no block"):
        cheapest_by_blocks(system, {}, [(1,)])
    with pytest.raises(ValueError, match="together"):
        cheapest_by_blocks(system, {}, [(1,), (2,)])
