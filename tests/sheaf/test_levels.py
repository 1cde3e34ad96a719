"""The least choice from finite lists of values against brute force, against difference constraints, and what a shortfall derives."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hnfc.sheaf.difference import GROUND, Conflict, DifferenceConstraint, at_least, at_most, least_solution, within
from hnfc.sheaf.levels import Shortfall, least_levels

FORMATS = (2, 3, 5, 9)


@st.composite
def systems(draw):
    n = draw(st.integers(0, 4))
    levels = {node: sorted(draw(st.sets(st.sampled_from(FORMATS), min_size=1))) for node in range(n)}
    node = st.sampled_from([GROUND, *range(n)])
    steps = draw(st.lists(st.tuples(node, node, st.integers(-9, 9)), max_size=8))
    return levels, [DifferenceConstraint(x, y, bound, f"step {number}") for number, (x, y, bound) in enumerate(steps)]


@settings(deadline=None)
@given(systems())
def test_the_least_choice_is_the_pointwise_minimum(drawn):
    levels, differences = drawn
    found = [
        values
        for values in product(*levels.values())
        if all((0 if d.x is GROUND else values[d.x]) - (0 if d.y is GROUND else values[d.y]) <= d.bound for d in differences)
    ]
    least = least_levels(levels, differences)
    if found:
        assert least == {node: min(values[node] for values in found) for node in levels}
        return
    assert isinstance(least, Shortfall)
    check(least, levels, differences)


def check(shortfall, levels, differences):
    """Each step follows from the one before, and the last one asks for more than its list has."""
    ordered = {GROUND: [0]} | levels
    value = ordered[shortfall.steps[0].difference.x][0]
    for place, step in enumerate(shortfall.steps):
        assert step.difference in differences
        assert step.needed == value - step.difference.bound
        if place:
            assert step.difference.x == shortfall.steps[place - 1].difference.y
        reachable = [level for level in ordered[step.difference.y] if level >= step.needed]
        assert step.level == (reachable[0] if reachable else None)
        value = step.level
    assert value is None and shortfall.gap == shortfall.steps[-1].needed - ordered[shortfall.steps[-1].difference.y][-1] > 0


@settings(deadline=None)
@given(systems())
def test_on_all_integers_it_is_the_least_solution(drawn):
    """Lists without holes, from the floor up, round nothing."""
    levels, differences = drawn
    bounded = [*differences, *(at_least(node, 0, "floor") for node in levels), *(at_most(node, 30, "top") for node in levels)]
    expected = least_solution(bounded)
    found = least_levels({node: range(31) for node in levels}, differences)
    assert isinstance(found, Shortfall) if isinstance(expected, Conflict) else found == expected


def test_a_list_without_the_format_is_named():
    """24 bits are needed, the neighbour may be 3 short, and its list has 11 and 8: 10 bits short."""
    differences = [at_least("softmax", 24, "softmax"), *within("softmax", "ffn", 3, "narrow cast")]
    shortfall = least_levels({"softmax": (8, 11, 24), "ffn": (8, 11)}, differences)
    assert isinstance(shortfall, Shortfall)
    assert [step.difference.reason for step in shortfall.steps] == ["softmax", "narrow cast"]
    assert shortfall.gap == 10
    assert least_levels({"softmax": (8, 11, 24), "ffn": (8, 24)}, differences) == {"softmax": 24, "ffn": 24}


def test_what_is_refused():
    assert least_levels({}, []) == {}
    with pytest.raises(ValueError, match="'a' has no values"):
        least_levels({"a": ()}, [])
    with pytest.raises(KeyError):
        least_levels({"a": (1,)}, [DifferenceConstraint("a", "b", -1, "step")])


def test_lists_come_in_any_order():
    assert least_levels({"a": (9, 2, 5)}, [at_least("a", 4, "need")]) == {"a": 5}
    assert least_levels({"a": (5, 9, 2)}, []) == {"a": 2}
