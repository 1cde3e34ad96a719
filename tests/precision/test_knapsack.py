"""One choice from each group within a budget: never above the limit, between the bound and the optimum of HiGHS, and close to both."""

from __future__ import annotations

import random

import pytest

from hnfc.precision.knapsack import cheapest_choice
from hnfc.sheaf.ilp import Budget, cheapest
from hnfc.sheaf.system import System


@pytest.mark.parametrize("seed", range(25))
def test_against_the_integer_program(seed: int) -> None:
    draw = random.Random(seed)
    groups = draw.randint(1, 30)
    costs = [[float(draw.randint(1, 40)) for _ in range(draw.randint(1, 4))] for _ in range(groups)]
    weights = [[draw.uniform(0, 1) for _ in row] for row in costs]
    least = sum(map(min, weights))
    limit = least + draw.uniform(0, 0.6) * (sum(map(max, weights)) - least)
    names = {g: tuple(range(len(row))) for g, row in enumerate(costs)}
    exact = cheapest(
        System(names), {g: dict(enumerate(row)) for g, row in enumerate(costs)},
        (Budget("weight", {g: dict(enumerate(row)) for g, row in enumerate(weights)}, limit),),
    )  # fmt: skip
    found = cheapest_choice(costs, weights, limit)
    assert exact is not None and found is not None
    optimum = sum(costs[g][int(place)] for g, place in exact.items())  # type: ignore[call-overload]
    assert sum(row[place] for row, place in zip(weights, found.places, strict=True)) <= limit + 1e-12
    assert found.cost == pytest.approx(sum(row[place] for row, place in zip(costs, found.places, strict=True)))
    assert found.bound <= optimum + 1e-6 and optimum <= found.cost + 1e-6
    assert found.cost - found.bound <= 40


def test_what_does_not_fit() -> None:
    assert cheapest_choice([[1.0], [2.0, 3.0]], [[0.5], [0.6, 0.7]], 1.0) is None
    assert cheapest_choice([], [], 0.0) is not None


def test_a_free_choice_is_the_cheapest() -> None:
    found = cheapest_choice([[5.0, 1.0], [2.0, 3.0]], [[0.0, 1.0], [1.0, 0.0]], 10.0)
    assert found is not None and found.places == (1, 0) and found.cost == found.bound == 3.0
