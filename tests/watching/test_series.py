"""Forecasts: growth that leaves a type is foretold, growth that ends is not."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from hnfc.watching.history import History
from hnfc.watching.lines import line
from hnfc.watching.series import ExponentSeries

F16 = 65504.0


def series(exponents: list[float], every: int = 5) -> ExponentSeries:
    made = ExponentSeries("scores", F16)
    for index, exponent in enumerate(exponents):
        made.add(every * index, 2.0**exponent)
    return made


@pytest.mark.parametrize("rate", [0.05, 0.2, 1.0])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_steady_growth_is_foretold_before_it_happens(rate: float, seed: int) -> None:
    noise = np.random.default_rng(seed).normal(0, 0.05, 400)
    made = ExponentSeries("scores", F16)
    for step in range(400):
        exponent = rate * step + noise[step]
        if exponent > 16:
            break
        made.add(step, 2.0**exponent)
        found = made.forecast()
        if found is not None:
            assert found.earliest <= 16 / rate + 2 and found.latest >= 16 / rate - 2
            assert step < 16 / rate - 1
            return
    raise AssertionError("nothing was foretold")


HEALTHY = {
    "constant": [3.0] * 60,
    "noise": list(np.random.default_rng(0).normal(3, 0.5, 60)),
    "logarithmic": [math.log2(1 + n) for n in range(60)],
    "square root": [0.5 * math.log2(1 + n) for n in range(60)],
    "linear": [math.log2(1 + 0.1 * n) for n in range(60)],
    "settling": [8 * (1 - math.exp(-n / 10)) for n in range(60)],
    "warm-up": [min(n / 10, 4.0) for n in range(60)],
    "falling": [10 - n / 10 for n in range(60)],
}


@pytest.mark.parametrize("name", HEALTHY)
def test_growth_that_ends_is_no_alarm(name: str) -> None:
    made = ExponentSeries("scores", F16)
    for step, exponent in enumerate(HEALTHY[name]):
        made.add(step, 2.0**exponent)
        assert made.forecast() is None, step


def test_few_points_and_many() -> None:
    assert series([1.0, 2.0]).forecast() is None
    made = series([0.01 * n for n in range(2000)])
    assert len(made.steps) == len(made.exponents) <= 512 and made.steps[-1] > 9000
    made.add(10000, 0.0)
    made.add(10000, math.inf)
    assert made.steps[-1] < 10000


@pytest.mark.parametrize("power", [2.0, 3.0, 4.0])
def test_growth_by_a_power_of_the_steps_is_foretold_near_its_end(power: float) -> None:
    end = 2 ** (16 / power)
    made = ExponentSeries("scores", F16)
    for step in range(int(end)):
        noise = 0.02 * math.sin(7.0 * step)
        made.add(step, 2.0 ** (power * math.log2(1 + step) + noise))
        found = made.forecast()
        if found is not None and found.latest >= end:
            assert step < 0.9 * end and found.earliest <= end + 1
            return
    raise AssertionError("nothing was foretold")


def test_errors_that_are_alike_widen_a_forecast() -> None:
    steps = np.arange(200.0)
    apart = np.random.default_rng(1).normal(0, 0.1, 200)
    alike = 0.1 * math.sqrt(2) * np.sin(steps / 20)
    one, other = (line(steps, 0.1 * steps + noise) for noise in (apart, alike))
    assert one.wide < 2 * one.error and other.wide > 4 * other.error
    assert other.lowest < one.lowest < 0.1 < one.high < other.high


def test_a_forecast_that_did_not_come_true_is_made_anew() -> None:
    history, said = History(), list[tuple[int, int]]()
    exponent = 0.0
    for step in range(1200):
        exponent += 0.1 if step < 120 or step >= 900 else 0.0
        history.note(step, "scores", "value", "", 2.0**exponent, torch.empty(0, dtype=torch.float16))
        said += [(step, forecast.latest) for forecast in history.end_step(step)]
        if exponent > 15.9:
            break
    assert len(said) == 2 and said[0][0] < 120 and said[1][0] > max(900, said[0][1])
