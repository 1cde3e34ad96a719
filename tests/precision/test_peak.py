"""The least memory that is live at once: peaks as they are defined, optima by trying every assignment, and bounds that hold."""

from __future__ import annotations

import math
import random
from itertools import product

import pytest
import torch

from hnfc.errors import UsageError
from hnfc.precision.assignment import Assignment, Refusal, Wishes, assign
from hnfc.precision.optimizer import PrecisionOptimizer
from hnfc.precision.peak import ALL, Lives, Piece, least_peak
from hnfc.precision.sites import Sites
from tests.precision.failing import normal

Rows = list[list[float]]


def made(draw: random.Random, groups: int, steps: int, budgets: int = 1) -> tuple[Lives, list[Rows]]:
    """Three choices each: the smaller, the more of the budgets it takes; some groups have two values, and some are always live."""
    pieces, squares = [], []
    for group in range(groups):
        for _ in range(1 + (draw.random() < 0.3)):
            first = draw.randrange(steps)
            last = draw.randrange(first, steps + 1)
            size = draw.choice([1, 5, 20, 100]) * draw.random()
            span = (-1, steps) if draw.random() < 0.4 else (first, last)
            pieces.append(Piece(group, *span, [size * (4 - choice) for choice in range(3)]))
        squares.append([[10 ** draw.uniform(-3, 0) * 16.0**choice / groups / 30 for choice in range(3)] for _ in range(budgets)])
    return Lives(pieces), [list(rows) for rows in zip(*squares, strict=True)]


def at_worst(lives: Lives, places: tuple[int, ...], steps: int) -> float:
    return max(sum(p.sizes[places[p.group]] for p in lives.pieces if p.first <= t <= p.last) for t in range(-1, steps + 1))


@pytest.mark.parametrize("seed", range(40))
def test_it_agrees_with_trying_every_choice(seed: int) -> None:
    draw = random.Random(seed)
    lives, squares = made(draw, draw.randrange(1, 8), 6, draw.randrange(1, 3))
    within = {
        places: at_worst(lives, places, 6) + ALL * sum(p.sizes[places[p.group]] for p in lives.pieces)
        for places in product(range(3), repeat=len(squares[0]))
        if all(sum(row[c] for row, c in zip(rows, places, strict=True)) <= 1 for rows in squares)
    }
    exact, priced = (least_peak(lives, squares, exact) for exact in (True, False))
    if not within:
        assert exact is None and priced is None
        return
    least = min(within.values())
    assert exact is not None and within[exact.places] == pytest.approx(exact.cost)
    assert exact.cost <= least * 1.0002 and exact.bound <= least * (1 + 1e-9)
    # prices find one within all of several budgets nearly always
    if priced is not None:
        assert within[priced.places] == pytest.approx(priced.cost)
        assert priced.bound <= least * (1 + 1e-9) and priced.cost <= least * 1.5
    else:
        assert len(squares) > 1


def test_prices_come_close_to_their_bound_on_many_groups() -> None:
    lives, squares = made(random.Random(1), 3000, 1000)
    found = least_peak(lives, squares, exact=False)
    assert found is not None and found.bound <= found.cost <= 1.02 * found.bound


class Wide(torch.nn.Module):
    """A value of 4096 elements between narrow ones."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.up, self.down, self.more = torch.nn.Linear(16, 512), torch.nn.Linear(512, 16), torch.nn.Linear(16, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(4):
            x = torch.tanh(self.more(x))
        return self.down(torch.tanh(self.up(x)))


def test_what_is_not_live_at_the_peak_may_be_wide() -> None:
    model, x = Wide().eval(), normal(0, 8, 16)
    by = {
        least: PrecisionOptimizer(1.5e-2, formats=("bf16", "fp8_e4m3fn", "fp32"), least=least).analyze(model, x)
        for least in ("bytes", "peak")
    }
    bytes_, peak = by["bytes"].outcome, by["peak"].outcome
    assert isinstance(bytes_, Assignment) and isinstance(peak, Assignment)
    assert peak.peak < bytes_.peak and bytes_.size <= peak.size
    assert bytes_.bound == bytes_.size and 0.97 * peak.peak < peak.bound <= peak.peak


def test_memory_is_that_of_the_peak_then() -> None:
    model, x = Wide().eval(), normal(0, 8, 16)
    found = PrecisionOptimizer(1e-3, least="peak").analyze(model, x).outcome
    assert isinstance(found, Assignment)
    enough = PrecisionOptimizer(1e-3, least="peak", memory_budget=1.01 * found.peak).analyze(model, x).outcome
    assert isinstance(enough, Assignment) and enough.peak <= 1.01 * found.peak < found.size
    refused = PrecisionOptimizer(1e-3, least="peak", memory_budget=0.9 * found.peak).analyze(model, x).outcome
    assert isinstance(refused, Refusal)
    assert any("the values live at once may take" in reason for reason in refused.reasons)
    (change,) = (r for r in refused.relaxations if r.change == "allow more memory")
    assert float(change.cost.split()[0].replace(",", "")) >= found.bound
    with pytest.raises(UsageError, match="bytes, peak or time"):
        PrecisionOptimizer(least="pieces").analyze(model, x)


def test_sites_are_live_from_where_they_are_computed_to_their_last_use() -> None:
    class Skip(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            first = torch.exp(x)
            turned = first.transpose(0, 1)
            second = torch.sin(first)
            third = torch.cos(second)
            return turned + third.transpose(0, 1)

    sites = PrecisionOptimizer(1e-2).analyze(Skip(), normal(0, 4, 8)).sites
    (given, first, second, third, total) = sites.sites
    assert given.live[0] == -1 and given.live[1] == total.live[1]
    # the transposed one is the same value, and is read by the sum
    assert first.live[1] == total.live[0] == third.live[1]
    assert second.live == (second.nodes[0], third.nodes[0])
    assert math.prod(first.shape) == first.elements == 32


def test_of_choices_that_take_as_much_the_more_accurate() -> None:
    lives = Lives([Piece(0, 0, 1, [2.0, 2.0, 1.0]), Piece(1, 0, 1, [4.0, 2.0, 2.0])])
    squares = [[[0.1, 0.01, 2.0], [0.0, 0.2, 0.3]]]
    for exact in (True, False):
        found = least_peak(lives, squares, exact)
        assert found is not None and found.places == (1, 1)


@pytest.mark.parametrize("least", ["bytes", "peak"])
def test_a_model_of_no_values(least: str) -> None:
    found = assign(Sites((), (), 1.0), Wishes(1e-2, least=least))
    assert isinstance(found, Assignment) and not found.formats and found.size == found.peak == 0
