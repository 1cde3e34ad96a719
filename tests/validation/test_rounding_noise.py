"""Limits of a gradient that was NaN, where sums cancel: it may become their rounding noise, and no other number."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from xdsl.ir import Region

from hnfc.dialects.types import FORMATS
from hnfc.validation.gradients import leniency, rounding_noise, worse
from hnfc.validation.measurement import Original
from tests.graphs import Graph

F32 = FORMATS["f32"]


def test_noise_is_the_largest_change_next_to_the_inputs():
    found = np.array([1.0, 0.0], np.float32)
    assert rounding_noise(found, lambda random: found) == 0
    assert rounding_noise(found, lambda random: None) == 0
    assert rounding_noise(found, lambda random: found + np.array([0.5, np.nan], np.float32)) == 0.5
    draws = iter([0.25, -2.0, 1.0, 0.0])
    assert rounding_noise(found, lambda random: found + np.float32(next(draws))) == 2


@pytest.mark.parametrize(("became", "noise", "fault"), [(0.01, 0.0, True), (0.01, 0.02, False), (5.0, 0.02, True), (0.0, 0.0, False)])
def test_nan_becomes_noise_and_no_other_number(became, noise, fault):
    rules = replace(leniency(True, 0.0, False), unnoticed=noise)
    old, new, right = (np.array([x, 1.0], np.float32) for x in (np.nan, became, 0.0))
    wide = right.astype(np.float64)
    assert bool(worse([old, new, wide, wide.copy()], F32, lambda at: 0.0 if at == 0 else 1.0, rules)) is fault


def test_rounded_inputs_are_no_error_of_a_form():
    g = Graph((5,))
    x = g.args[0]
    doubled, cancelling = g.add(x, x), g.sub(g.add(x, 1.0), 1.0)
    g.returns(doubled)
    region = Region([g.block])
    original = Original(g.block)
    sample = {x: np.array([0.1, 1.7, 3e-8, 5e8, -2.3], np.float32)}
    exact, loses = original.error_near(sample, None, [doubled, cancelling])
    assert exact is not None and loses is not None
    assert not exact.any() and loses[2] > 1e-9 and region.block is g.block
