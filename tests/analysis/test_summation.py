"""Bounds of sums in any order: no tree of additions has a larger error, and terms of both signs cost less than γ(n)·Σ|x|."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from hnfc.analysis.summation import any_order, gamma, products
from hnfc.dialects.interval_arrays import IntervalArray
from hnfc.dialects.types import FORMATS, ElementFormat

ONE_UNIT = ElementFormat(2.0**-10, 5e-324, 1e300)
"""A format so coarse that the bound of a sum shows."""


def worst_tree(terms: tuple[float, ...]) -> float:
    """The largest Σ|node| of any tree of additions."""

    @cache
    def below(chosen: int) -> float:
        parts = [part for part in range((chosen - 1) & chosen, 0, -1) if part & chosen == part and part > chosen ^ part]
        if not parts:
            return 0.0
        return abs(sum(t for i, t in enumerate(terms) if chosen >> i & 1)) + max(below(part) + below(chosen ^ part) for part in parts)

    return below((1 << len(terms)) - 1)


@pytest.mark.parametrize("seed", range(60))
def test_no_tree_costs_more(seed: int) -> None:
    generator = np.random.default_rng(seed)
    n = int(generator.integers(2, 7))
    draws = generator.normal(size=n), generator.exponential(size=n) ** 3 * generator.choice([-1, 1], n), generator.integers(1, 4, n) * 1.0
    terms = draws[seed % 3]
    found = float(any_order(IntervalArray.of(terms[None]), ONE_UNIT)[0])
    assert worst_tree(tuple(terms)) * ONE_UNIT.unit_roundoff <= found * 2, "half a unit in the last place is at least half of u"
    assert found <= gamma(n, ONE_UNIT) * np.abs(terms).sum()


@pytest.mark.parametrize("seed", range(12))
def test_no_order_of_additions_in_float32_is_off_by_more(seed: int) -> None:
    generator = np.random.default_rng(seed)
    terms = (generator.normal(size=40) * 10.0 ** generator.integers(-3, 3, 40)).astype(np.float32)
    bound = float(any_order(IntervalArray.of(terms[None].astype(np.float64)), FORMATS["f32"])[0])
    true = terms.astype(np.longdouble).sum()
    orders = [np.argsort(terms), np.argsort(-np.abs(terms)), np.argsort(np.abs(terms)), *(generator.permutation(40) for _ in range(20))]
    for order in orders:
        total = np.float32(0)
        for x in terms[order]:
            total += x
        assert abs(total - true) <= bound
    assert bound < gamma(39, FORMATS["f32"]) * float(np.abs(terms).sum())


def test_many_terms_are_bounded_without_sorting_and_a_bias_is_one_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(0)
    a, b, bias = generator.normal(size=(1, 5, 30)), generator.normal(size=(1, 30, 4)), np.full((1, 4), 1e3)
    boxes = [IntervalArray.of(x) for x in (a, b)]
    sharp = products(*boxes, None, FORMATS["f32"])
    onto = products(*boxes, IntervalArray.of(bias[:, None]), FORMATS["f32"])
    assert (onto > 20 * sharp).all()
    monkeypatch.setattr("hnfc.analysis.summation.MOST_SORTED", 0)
    rough = products(*boxes, None, FORMATS["f32"])
    assert (sharp <= rough).all()
    assert (rough <= gamma(30, FORMATS["f32"]) * (np.abs(a) @ np.abs(b))).all()
