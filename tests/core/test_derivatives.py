"""Derivatives over the reals, the infinite ones among them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from xdsl.ir import Region

from hnfc.core.derivatives import derivative_at
from tests.graphs import Graph

CASES = [
    ("sqrt", 0.0, math.inf),
    ("sqrt", 4.0, 0.25),
    ("log", 1e-30, 1e30),
    ("acosh", 1.0, math.inf),
    ("asin", 1.0, math.inf),
    ("cbrt", 0.0, math.inf),
    ("sign", 0.0, None),
    ("reciprocal", 0.0, None),
    ("abs", 0.0, 0.0),
]


@pytest.mark.parametrize(("name", "x", "wanted"), CASES)
def test_slopes(name: str, x: float, wanted: float | None) -> None:
    g = Graph(("f64", 1))
    result = getattr(g, name)(g.args[0])
    g.returns(result)
    region = Region([g.block])
    found = derivative_at(g.block, {g.args[0]: np.array([x])}, g.args[0], 0, {result: np.array([1.0])}, None)
    assert found == (pytest.approx(wanted) if wanted is not None else None) and region.block is g.block

