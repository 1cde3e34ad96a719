"""Difference constraints against brute force, and the conflicts of systems without a solution."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hnfc.sheaf.difference import GROUND, Conflict, DifferenceConstraint, at_least, at_most, least_solution, within

HIGH = 9
"""Above every value that the systems drawn here need, if they have a solution."""


@st.composite
def systems(draw, smallest=-3):
    n = draw(st.integers(1, 3))
    node = st.integers(0, n - 1)
    floors = [at_least(v, draw(st.integers(0, 3)), f"floor {v}") for v in range(n)]
    steps = draw(st.lists(st.tuples(node, node, st.integers(smallest, 3)), max_size=7))
    caps = draw(st.lists(st.tuples(node, st.integers(0, 6)), max_size=3))
    return n, [
        *floors,
        *(DifferenceConstraint(x, y, bound, f"step {number}") for number, (x, y, bound) in enumerate(steps)),
        *(at_most(v, bound, f"cap {v}") for v, bound in caps),
    ]


def solutions(n, differences):
    for values in product(range(HIGH + 1), repeat=n):
        if all((0 if d.x is GROUND else values[d.x]) - (0 if d.y is GROUND else values[d.y]) <= d.bound for d in differences):
            yield values


@settings(deadline=None)
@given(systems())
def test_the_least_solution_is_the_pointwise_minimum(drawn):
    n, differences = drawn
    found = list(solutions(n, differences))
    least = least_solution(differences)
    if found:
        assert least == {node: min(values[node] for values in found) for node in range(n)}
        return
    assert isinstance(least, Conflict)
    check(least, differences)


def check(conflict, differences):
    cycle = conflict.cycle
    assert set(cycle) <= set(differences)
    assert all(before.y == after.x for before, after in zip(cycle, (*cycle[1:], cycle[0]), strict=True))
    assert len({d.x for d in cycle}) == len(cycle)
    assert conflict.gap == -sum(d.bound for d in cycle) > 0


@settings(deadline=None)
@given(systems())
def test_a_conflict_is_minimal(drawn):
    _, differences = drawn
    conflict = least_solution(differences)
    if isinstance(conflict, Conflict):
        nodes = {node for d in conflict.cycle for node in (d.x, d.y)} - {GROUND}
        floors = [at_least(node, -100, "far below") for node in nodes]
        for omitted in conflict.cycle:
            assert not isinstance(least_solution([d for d in conflict.cycle if d != omitted] + floors), Conflict)


def test_a_chain_names_the_bits_that_are_missing():
    differences = [at_least("softmax", 24, "softmax needs 24 bits"), at_most("up", 8, "up is pinned to 8 bits")]
    differences += [*within("softmax", "norm", 0, "fused"), *within("norm", "up", 3, "one narrow cast")]
    conflict = least_solution(differences)
    assert isinstance(conflict, Conflict)
    assert conflict.gap == 13
    assert [d.reason for d in conflict.cycle] == ["softmax needs 24 bits", "fused", "one narrow cast", "up is pinned to 8 bits"]
    assert least_solution([*differences[:1], *differences[2:]]) == {"softmax": 24, "norm": 24, "up": 21}


def test_the_worst_cap_is_reported():
    differences = [at_least("a", 24, "need"), at_most("a", 20, "first"), at_most("a", 8, "second")]
    conflict = least_solution(differences)
    assert isinstance(conflict, Conflict) and conflict.gap == 16


def test_growth_around_a_cycle():
    rounds = [at_least(0, 0, "start"), *(DifferenceConstraint(i, (i + 1) % 5, -1, f"grows {i}") for i in range(5))]
    conflict = least_solution(rounds)
    assert isinstance(conflict, Conflict)
    check(conflict, rounds)
    assert conflict.gap == 5
    assert isinstance(least_solution([at_least(0, 0, "start"), DifferenceConstraint(0, 0, -1, "more than itself")]), Conflict)
    assert isinstance(least_solution([DifferenceConstraint(GROUND, GROUND, -1, "0 < 0")]), Conflict)


def test_nothing_to_solve():
    assert least_solution([]) == {}
    with pytest.raises(ValueError, match="nothing bounds 'a' from below"):
        least_solution([at_most("a", 3, "cap")])


def test_a_long_chain_with_casts():
    """20,000 nodes: each step may lose a bit one way and must gain none the other; deep graphs do not recurse."""
    n = 20_000
    differences = [at_least(0, n, "start"), *(at_least(i, 0, "floor") for i in range(1, n))]
    differences += [d for i in range(n - 1) for d in within(i, i + 1, 1, "cast")]
    least = least_solution(differences)
    assert least == {i: n - i for i in range(n)}
    rising = [at_least(0, 0, "start"), *(DifferenceConstraint(i, i + 1, -1, "grows") for i in range(n - 1))]
    assert least_solution(rising) == {i: i for i in range(n)}
