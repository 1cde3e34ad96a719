"""Sparse polynomials over atoms of any kind: sums, rings of flint, exact roots."""

from __future__ import annotations

from fractions import Fraction as F

import pytest

from hnfc.dsl.polynomials import Ring, added, rational_root, summed_exponents

X, Y = (("x", 1),), (("y", 1),)


def test_terms_that_cancel_are_gone() -> None:
    assert added({X: F(2), Y: F(1)}, {X: F(2), (): F(3)}, -1) == {Y: F(1), (): F(-3)}
    assert added({X: F(1)}, {X: F(1, 2)}) == {X: F(3, 2)}


def test_exponents_of_a_product() -> None:
    assert summed_exponents((("x", 1), ("y", F(1, 2))), (("y", F(1, 2)), ("z", -1))) == {"x": 1, "y": F(1), "z": -1}


@pytest.mark.parametrize(("value", "degree", "root"), [
    (F(9, 4), 2, F(3, 2)), (F(-8, 27), 3, F(-2, 3)), (F(2), 2, None), (F(-4), 2, None), (F(0), 3, F(0)), (F(10**60), 4, F(10**15)),
])  # fmt: skip
def test_rational_roots(value: F, degree: int, root: F | None) -> None:
    assert rational_root(value, degree) == root


def test_a_ring_holds_fractional_powers() -> None:
    """x - y = (√x - √y)(√x + √y)."""
    root_x, root_y = (("x", F(1, 2)),), (("y", F(1, 2)),)
    difference, factor = {X: F(1), Y: F(-1)}, {root_x: F(1), root_y: F(-1)}
    ring = Ring(str, difference, factor)
    quotient, remainder = divmod(ring.enter(difference), ring.enter(factor))
    assert remainder == 0 and ring.leave(quotient) == {root_x: F(1), root_y: F(1)}
