"""Cellular sheaves with stalk ℤ on a graph, with known cohomology; exact relations and the cycles that forbid them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hnfc.sheaf.homology import Group
from hnfc.sheaf.relations import Holonomy, Relation, cohomologies, is_solvable, solve


def ring(n, *, head_scale=1, last_scale=None, tail_scale=1):
    scales = [tail_scale] * (n - 1) + [tail_scale if last_scale is None else last_scale]
    return [Relation(i, (i + 1) % n, 0, tail_scale=scale, head_scale=head_scale) for i, scale in enumerate(scales)]


@pytest.mark.parametrize(
    ("nodes", "relations", "h0", "h1"),
    [
        pytest.param(4, ring(4)[:3], Group(1), Group(0), id="C1 path"),
        pytest.param(4, ring(4), Group(1), Group(1), id="C2 cycle"),
        pytest.param(4, ring(4, last_scale=-1), Group(0), Group(0, (2,)), id="C3 one sign"),
        pytest.param(2, [Relation(0, 1, 0)] * 3, Group(1), Group(2), id="C4 theta"),
        pytest.param(2, ring(2, tail_scale=2), Group(0), Group(0, (3,)), id="C5 doubling, 2"),
        pytest.param(3, ring(3, tail_scale=2), Group(0), Group(0, (7,)), id="C5 doubling, 3"),
        pytest.param(4, ring(4, tail_scale=2), Group(0), Group(0, (15,)), id="C5 doubling, 4"),
        pytest.param(4, [Relation(u, v, 0) for u, v in ((0, 1), (0, 2), (1, 3), (2, 3))], Group(1), Group(1), id="C6 diamond"),
        pytest.param(0, [], Group(0), Group(0), id="empty"),
        pytest.param(1, [], Group(1), Group(0), id="point"),
        pytest.param(5, [Relation(0, 1, 0), Relation(2, 3, 0)], Group(3), Group(0), id="three components"),
        pytest.param(1, [Relation(0, 0, 0)], Group(1), Group(1), id="loop"),
    ],
)
def test_known_cohomology(nodes, relations, h0, h1):
    assert cohomologies(range(nodes), relations) == (h0, h1)
    assert nodes - len(relations) == h0.free - h1.free


@pytest.mark.parametrize(("offsets", "total"), [((7, 1, 1, 7), 0), ((7, 1, 0, 7), 1)])
def test_the_diamond_closes_or_not(offsets, total):
    """C6: 0→1, 0→2, 1→3, 2→3; the two ways agree if w₀ + w₂ = w₁ + w₃."""
    ends = ((0, 1), (0, 2), (1, 3), (2, 3))
    relations = [Relation(u, v, w) for (u, v), w in zip(ends, offsets, strict=True)]
    assert is_solvable(range(4), relations) == (total == 0)
    found = solve(range(4), relations)
    if total:
        assert isinstance(found, Holonomy) and len(found.cycle) == 4 and abs(found.total) == total
    else:
        assert found == {0: 0, 1: 7, 2: 1, 3: 8}


relations = st.lists(st.builds(Relation, st.integers(0, 4), st.integers(0, 4), st.integers(-1, 1)), max_size=7)


@settings(deadline=None)
@given(relations)
def test_the_core_is_the_class(drawn):
    """A solution exists exactly where the class vanishes; otherwise the simple cycle that is shown has a nonzero sum."""
    found = solve(range(5), drawn)
    assert isinstance(found, Holonomy) != is_solvable(range(5), drawn)
    if not isinstance(found, Holonomy):
        assert all(found[r.head] - found[r.tail] == r.offset for r in drawn)
        return
    walk = [(r.tail, r.head)[::sign] for r, sign in found.cycle]
    assert all(before[1] == after[0] for before, after in zip(walk, (*walk[1:], walk[0]), strict=True))
    assert len({start for start, _ in walk}) == len(walk)
    assert found.total != 0


def test_scales_are_refused_where_they_have_no_cycle():
    with pytest.raises(ValueError, match="scales"):
        solve(range(2), ring(2, tail_scale=2))
    assert is_solvable(range(2), [Relation(0, 1, 3, tail_scale=2)])
    assert not is_solvable(range(1), [Relation(0, 0, 1, tail_scale=-1)])


def test_groups_read_as_usual():
    assert [str(group) for group in (Group(0), Group(1), Group(4, (2, 6)))] == ["0", "ℤ", "ℤ^4 ⊕ ℤ/2 ⊕ ℤ/6"]
