"""The least memory that is live at once: peaks as they are defined, optima by trying every assignment, and bounds that hold."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from itertools import product

import pytest
import torch

from hnfc.core.errors import UsageError
from hnfc.precision.assignment import Assignment, Infeasible, Requirements, assign
from hnfc.precision.infeasibility import UNDECIDED
from hnfc.precision.optimizer import PrecisionOptimizer
from hnfc.precision.peak import ALL, Buffer, LiveRanges, least_peak, within_peak
from hnfc.precision.problem import AssignmentProblem
from hnfc.precision.values import Effect, PrecisionSite, PrecisionSites
from tests.precision.failing import normal
from tests.precision.made_sites import least_peak_of, made_site, made_sites, with_lives

Rows = list[list[float]]


def made(draw: random.Random, groups: int, steps: int, budgets: int = 1) -> tuple[LiveRanges, list[Rows]]:
    """Three choices each: the smaller, the more of the budgets it takes; some groups have two values, and some are always live."""
    buffers, squares = [], []
    for group in range(groups):
        for _ in range(1 + (draw.random() < 0.3)):
            first = draw.randrange(steps)
            last = draw.randrange(first, steps + 1)
            size = draw.choice([1, 5, 20, 100]) * draw.random()
            span = (-1, steps) if draw.random() < 0.4 else (first, last)
            buffers.append(Buffer(group, *span, [size * (4 - choice) for choice in range(3)]))
        squares.append([[10 ** draw.uniform(-3, 0) * 16.0**choice / groups / 30 for choice in range(3)] for _ in range(budgets)])
    return LiveRanges(buffers), [list(rows) for rows in zip(*squares, strict=True)]


def at_worst(ranges: LiveRanges, places: tuple[int, ...], steps: int) -> float:
    return max(sum(p.sizes[places[p.group]] for p in ranges.buffers if p.first <= t <= p.last) for t in range(-1, steps + 1))


@pytest.mark.sampled(10)
@pytest.mark.parametrize("seed", range(40))
def test_it_agrees_with_trying_every_choice(seed: int) -> None:
    draw = random.Random(seed)
    ranges, squares = made(draw, draw.randrange(1, 8), 6, draw.randrange(1, 3))
    within = {
        places: at_worst(ranges, places, 6) + ALL * sum(p.sizes[places[p.group]] for p in ranges.buffers)
        for places in product(range(3), repeat=len(squares[0]))
        if all(sum(row[c] for row, c in zip(rows, places, strict=True)) <= 1 for rows in squares)
    }
    exact, priced = (least_peak(ranges, squares, exact) for exact in (True, False))
    peaks = {places: at_worst(ranges, places, 6) for places in within}
    for part in (1.0, 0.999) if peaks else ():
        memory, enough = part * min(peaks.values()), part == 1.0
        for found in (*(least_peak(ranges, squares, exact, memory) for exact in (True, False)), within_peak(ranges, squares, memory)):
            assert (found is not None) == enough and (found is None or peaks[found.places] <= memory * (1 + 1e-9))
    if not within:
        assert exact is None and priced is None
        return
    least = min(within.values())
    assert exact is not None and within[exact.places] == pytest.approx(exact.cost)
    assert exact.cost <= least * 1.0002 and exact.bound <= least * (1 + 1e-9)
    assert priced is not None and within[priced.places] == pytest.approx(priced.cost)
    assert priced.bound <= least * (1 + 1e-9) and priced.cost <= least * (1.5 if len(squares) == 1 else 4)


def test_prices_come_close_to_their_bound_on_many_groups() -> None:
    ranges, squares = made(random.Random(1), 3000, 1000)
    found = least_peak(ranges, squares, exact=False)
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
    # bounds are of the target that was asked for, which was made stricter
    first, least = (assign(found.sites, found.requirements) for found in by.values())
    assert isinstance(first, Assignment) and isinstance(least, Assignment)
    assert bytes_.bound == first.bound == first.size and 0.97 * least.peak < peak.bound == least.bound <= least.peak


def test_memory_is_that_of_the_peak_then() -> None:
    model, x = Wide().eval(), normal(0, 8, 16)
    found = PrecisionOptimizer(1e-3, least="peak").analyze(model, x).outcome
    assert isinstance(found, Assignment)
    enough = PrecisionOptimizer(1e-3, least="peak", memory_budget=1.01 * found.peak).analyze(model, x).outcome
    assert isinstance(enough, Assignment) and enough.peak <= 1.01 * found.peak < found.size
    refused = PrecisionOptimizer(1e-3, least="peak", memory_budget=0.9 * found.peak).analyze(model, x).outcome
    assert isinstance(refused, Infeasible)
    assert any("the values live at once may take" in reason for reason in refused.reasons)
    (change,) = (r for r in refused.relaxations if r.change == "allow more memory")
    assert float(change.cost.split()[0].replace(",", "")) >= found.bound
    with pytest.raises(UsageError, match="parameters, peak or time"):
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
    ranges = LiveRanges([Buffer(0, 0, 1, [2.0, 2.0, 1.0]), Buffer(1, 0, 1, [4.0, 2.0, 2.0])])
    squares = [[[0.1, 0.01, 2.0], [0.0, 0.2, 0.3]]]
    for exact in (True, False):
        found = least_peak(ranges, squares, exact)
        assert found is not None and found.places == (1, 1)


@pytest.mark.parametrize("least", ["bytes", "peak"])
def test_a_model_of_no_values(least: str) -> None:
    found = assign(PrecisionSites((), (), 1.0), Requirements(1e-2, least=least))
    assert isinstance(found, Assignment) and not found.formats and found.size == found.peak == 0


@pytest.mark.sampled(15)
@pytest.mark.parametrize("seed", range(60))
def test_memory_near_the_least_peak_among_all_assignments(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = random.Random(seed)
    outputs = draw.randint(1, 3)
    sites = with_lives(draw, made_sites(draw, 6, outputs, 2.0), 5)
    target: dict[int | str, float] = {o: 2.0 ** draw.uniform(-11, -5) for o in range(outputs)}
    uncast = [(f"s{i}", f"s{i + 1}") for i in range(5) if draw.random() < 0.3]
    requirements = Requirements(target, False, uncast=uncast, scaling=False, saturation=False, least="peak")
    least = least_peak_of(AssignmentProblem(sites, requirements))
    if draw.random() < 0.5:
        monkeypatch.setattr("hnfc.precision.problem._EXACT", 0)
    for memory in (math.inf,) if least is None else (least, least + 0.5, least - 0.5, 0.9 * least, 1.1 * least):
        problem = AssignmentProblem(sites, replace(requirements, memory=memory))
        enough = least is not None and least <= memory
        found, possible = problem.solve(), problem.possible()
        assert (found is not None) == (possible is not None) == enough and not problem.undecided
        for each in (found, possible):
            assert each is None or problem.peak(each.formats) <= memory
        if found is not None and least is not None:
            assert found.bound <= least


def test_the_peak_may_be_a_little_less_than_that_of_what_takes_the_least_in_all() -> None:
    """A thousandth of all bytes counts beside the peak: what is less at the peak is more in all, and still is within the memory."""
    elsewhere = [replace(made_site(f"e{i}", [1e-9], elements=1000), live=(i, i)) for i in range(1, 5)]
    first = replace(made_site("a", [1.0], elements=5000), live=(0, 0))
    sites = PrecisionSites((first, *elsewhere), (), 1.0)
    requirements = Requirements(1.0, False, ("bf16", "fp32"), least="peak")
    least = assign(sites, requirements)
    assert isinstance(least, Assignment)
    assert isinstance(assign(sites, replace(requirements, memory=least.peak)), Assignment)
    assert isinstance(assign(sites, replace(requirements, memory=least.peak - 1)), Infeasible)


def halves(draw: random.Random, count: int) -> PrecisionSites:
    """Each is exact in one of two formats for one of two outputs, and in the other for the other."""

    def made_either(number: int) -> PrecisionSite:
        off = draw.uniform(0.5, 1.5)
        apart = {0: Effect(1.0, {"bf16": off, "fp16": 0.0}), 1: Effect(1.0, {"bf16": 0.0, "fp16": off})}
        site = made_site(f"s{number}", [1.0, 1.0], elements=draw.randint(1, 9))
        return replace(site, apart=apart, moved={"bf16": off, "fp16": off})

    return with_lives(draw, PrecisionSites(tuple(map(made_either, range(count))), (), 1.0, {0: 1.0, 1: 1.0}), 50)


@pytest.mark.parametrize(("count", "slack"), [
    *((300, slack) for slack in (3e-4, 1e-3, 3e-3)), pytest.param(2100, 5e-5, marks=pytest.mark.slow),
])  # fmt: skip
def test_targets_that_leave_little_are_met_beyond_the_solver(count: int, slack: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is to be made whole of the linear program exceeds a target, and with less of the targets that has no solution."""
    monkeypatch.setattr("hnfc.precision.problem._EXACT", min(count - 1, 2000))
    sites = halves(random.Random(0), count)
    half = math.sqrt(sum(site.moved["bf16"] ** 2 for site in sites.sites) / 2)
    requirements = Requirements(dict.fromkeys((0, 1), half * (1 + slack)), False, ("bf16", "fp16"), scaling=False, saturation=False)
    for least in ("bytes", "peak"):
        found = assign(sites, replace(requirements, least=least))
        assert isinstance(found, Assignment) and max(found.errors[0], found.errors[1]) <= half * (1 + slack) * (1 + 1e-9)


def test_what_is_not_decided_in_time_is_not_said_to_be_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    sites = halves(random.Random(0), 100)
    half = math.sqrt(sum(site.moved["bf16"] ** 2 for site in sites.sites) / 2)
    requirements = Requirements(
        dict.fromkeys((0, 1), half * (1 + 1e-3)), False, ("bf16", "fp16"), scaling=False, saturation=False, least="peak"
    )
    assert isinstance(assign(sites, requirements), Assignment)
    for name in ("_SECONDS", "_LONGER"):
        monkeypatch.setattr(f"hnfc.precision.peak.{name}", 0.0)
    refused = assign(sites, requirements)
    assert isinstance(refused, Infeasible) and refused.certificate == UNDECIDED


def test_a_refusal_looks_for_the_least_peak_no_more_often_than_it_tells_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def counted(*given: object) -> object:
        calls.append(given)
        return least_peak(*given)  # type: ignore[arg-type]

    monkeypatch.setattr("hnfc.precision.problem.least_peak", counted)
    draw = random.Random(1)
    sites = with_lives(draw, made_sites(draw, 40, 1, 2.0), 10)
    pins = {f"s{i}": "fp32" for i in range(5)}
    refused = assign(sites, Requirements(1e-2, False, pins=pins, scaling=False, least="peak", memory=10.0))
    # with the memory, and without
    assert isinstance(refused, Infeasible) and len(calls) == 2
    assert [r for r in refused.relaxations if r.change == "allow more memory"]
