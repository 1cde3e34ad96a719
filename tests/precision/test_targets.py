"""Targets of single outputs: each is kept, found as cheaply as can be, refused by name, and proved where asked for."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from hnfc.backend.torch_mlir import emit_torch
from hnfc.cli.main import main
from hnfc.core.errors import UsageError
from hnfc.precision.assignment import Assignment, Infeasible, Requirements, assign
from hnfc.precision.cast_insertion import as_module
from hnfc.precision.certificates import RUN
from hnfc.precision.knapsack import cheapest_within
from hnfc.precision.optimizer import PrecisionAnalysis, PrecisionOptimizer
from hnfc.precision.problem import AssignmentProblem
from hnfc.precision.targets import allowances
from hnfc.pytorch.program import CapturedProgram
from hnfc.pytorch.settings import Settings
from hnfc.rewriter import load_rules
from hnfc.sheaf.ilp import Budget, cheapest
from hnfc.sheaf.system import System
from tests.precision.made_sites import least_bytes, made_sites


class Pair(torch.nn.Module):
    """Two outputs of numbers of different size, and one that is an index."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.trunk, self.small, self.large = torch.nn.Linear(8, 16), torch.nn.Linear(16, 4), torch.nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        h = torch.tanh(self.trunk(x))
        return self.small(h), self.small(h).argmax(-1), 100 * self.large(h)


X = torch.randn(64, 8, generator=torch.Generator().manual_seed(1))


def analyzed(target: object, **requirements: object) -> PrecisionAnalysis:
    return PrecisionOptimizer(target_accuracy=target, **{"least": "bytes", **requirements}).analyze(Pair().eval(), X)  # type: ignore[arg-type]


def relative_errors(found: PrecisionAnalysis, x: torch.Tensor) -> list[float]:
    with torch.no_grad():
        mixed, true = found.apply()(x), Pair().double()(x.double())
    return [
        float((a - b).square().mean().sqrt() / b.square().mean().sqrt()) for a, b in zip(mixed, true, strict=True) if b.is_floating_point()
    ]


@pytest.mark.parametrize("targets", [{0: 1e-2, 2: 1e-4}, {"output 0": 1e-4, "output 2": 1e-2}, {"2": 1e-3, "*": 1e-2}])
def test_each_output_keeps_its_target(targets: dict[int | str, float]) -> None:
    found = analyzed(targets)
    assert isinstance(found.outcome, Assignment)
    assert [o.name for o in found.outputs] == ["output 0", "output 2"]
    errors = relative_errors(found, X)
    for output, error, allowed in zip(found.outputs, errors, _by_place(targets), strict=True):
        assert output.allowed == pytest.approx(allowed) and output.estimated <= allowed and output.measured is not None
        assert output.measured <= 1.1 * allowed and output.measured == pytest.approx(error, rel=0.1)


def _by_place(targets: dict[int | str, float]) -> list[float]:
    return [next(targets[k] for k in (i, str(i), f"output {i}", "*") if k in targets) for i in (0, 2)]


def test_what_matters_to_the_strict_output_is_wide() -> None:
    first, last = (analyzed(t).get_precision_assignment() for t in ({0: 1e-5, 2: 1e-1}, {0: 1e-1, 2: 1e-5}))
    assert (first["small.weight"], last["large.weight"]) == ("fp32", "fp32")
    assert "fp32" not in (first["large.weight"], last["small.weight"])


def test_an_output_that_nothing_names_has_no_target() -> None:
    found = analyzed({2: 1e-4})
    free, strict = found.outputs
    assert free.allowed == float("inf") and free.measured is not None and free.measured < float("inf")
    assert strict.estimated <= 1e-4 and found.get_precision_assignment()["small.weight"] in ("bf16", "fp16")


def test_all_outputs_together_are_the_sum_of_single_ones() -> None:
    """One backward pass for each output, or one for all: two estimates of one number."""
    together, apart = analyzed(1e-3).sites, analyzed({0: 1e-3, 2: 1e-3}).sites
    assert together.outputs == {} and set(apart.outputs) == {0, 2} and together.rms == pytest.approx(apart.rms)
    for name in ("trunk.weight", "small.weight", "large.add", "tanh"):
        one, other = together[name], apart[name]
        # both outputs have as many elements
        assert other.moved["bf16"] ** 2 == pytest.approx(sum(e.moved["bf16"] ** 2 for e in other.apart.values()) / 2)
        assert 1 / 3 < other.sensitivity / one.sensitivity < 3
    assert apart["large.weight"].apart[0].sensitivity == 0 and apart["small.weight"].apart[2].sensitivity == 0


def test_a_refusal_names_the_output_and_its_target() -> None:
    refused = analyzed({0: 1e-1, 2: 1e-3}, formats=("bf16",))
    assert isinstance(refused.outcome, Infeasible)
    assert any(reason.startswith("output 2 may be off by") for reason in refused.outcome.reasons)
    assert not any("output 0" in reason or "the outputs" in reason for reason in refused.outcome.reasons)
    change = next(r.change for r in refused.outcome.relaxations if r.change.startswith("raise"))
    assert change.startswith("raise the target of output 2 to ")
    raised = assign(refused.sites, Requirements({0: 1e-1, 2: float(change.split()[-1])}, formats=("bf16",)))
    assert isinstance(raised, Assignment)


@pytest.mark.parametrize(("targets", "message"), [
    ({1: 1e-3}, "`1`; there are: output 0, output 2"),
    ({"logits": 1e-3}, "output 0, output 2"), ({}, "at least one"), ({0: 0.0}, "above 0"),
])  # fmt: skip
def test_targets_that_say_nothing(targets: dict[int | str, float], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        allowances(targets, True, 1.0, {0: 1.0, 2: 1.0})


def test_an_output_that_is_not_there_is_said() -> None:
    with pytest.raises(UsageError, match="no output of floating-point numbers is `output 1`; there are: output 0, output 2"):
        analyzed({"output 1": 1e-3})


def test_no_input_in_reach_has_a_larger_error_than_is_proved_of_an_output() -> None:
    width = 1e-3
    found = analyzed({0: 5e-2, 2: 1e-2}, certified=True, width=width, formats=("bf16", "fp32"))
    assert isinstance(found.outcome, Assignment)
    sizes, applied, exact = list(found.sites.outputs.values()), found.apply(), Pair().double()
    for _ in range(10):
        x = X + width * (2 * torch.rand(X.shape) - 1)
        x = torch.minimum(torch.maximum(x, X - width), X + width)
        with torch.no_grad():
            mixed, true = applied(x), exact(x.double())
        for output, place, size in zip(found.outputs, (0, 2), sizes, strict=True):
            error = float((mixed[place] - true[place]).square().mean().sqrt()) / size
            assert output.proved is not None and error <= output.proved <= output.allowed


def test_what_cannot_be_proved_of_an_output_is_refused_by_its_name() -> None:
    refused = analyzed({0: 1e-1, 2: 2e-7}, certified=True, formats=("fp32",)).outcome
    assert isinstance(refused, Infeasible) and "output 2 is off by at most" in refused.reasons[0]
    assert refused.relaxations[0].change.startswith("raise the target of output 2 to ")


@pytest.mark.slow
def test_what_estimates_allow_and_a_run_does_not_is_held_for_each_output() -> None:
    class Repeated(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            y = x
            for _ in range(64):
                y = y + 2.0**-9 * x
            return 2 * x, y

    found = PrecisionOptimizer({0: 1e-2, 1: 1e-2}, formats=("bf16", "fp32")).analyze(Repeated(), 1 + torch.zeros(4, 8))
    assert all(o.measured is not None and o.measured <= 1.1 * o.allowed for o in found.outputs)
    narrow = PrecisionOptimizer({0: 1e-2, 1: 3e-2}, formats=("bf16",)).analyze(Repeated(), 1 + torch.zeros(4, 8)).outcome
    assert isinstance(narrow, Infeasible) and "output 1 is off by" in narrow.reasons[0] and "output 0" not in narrow.reasons[0]
    assert narrow.cycle == () and narrow.certificate == RUN


@pytest.mark.parametrize("seed", range(30))
def test_the_fewest_bytes_within_several_targets(seed: int) -> None:
    draw = random.Random(seed)
    sites = made_sites(draw, 6, 3, 1.0)
    requirements = Requirements({i: 2.0 ** draw.uniform(-11, -6) for i in range(draw.randint(1, 3))}, False, scaling=False)
    problem = AssignmentProblem(sites, requirements)
    found, size = problem.solve(), least_bytes(problem)
    assert (found is None) == (size is None) and (found is None or found.size == size)


@pytest.mark.parametrize("seed", range(30))
def test_the_knapsack_of_several_budgets(seed: int) -> None:
    """Within all budgets, and between its bound and the optimum."""
    draw = random.Random(seed)
    groups, budgets = draw.randint(5, 40), draw.randint(2, 4)
    costs = [[float(draw.randint(1, 40)) for _ in range(3)] for _ in range(groups)]
    scale = draw.uniform(1.5, 3.5) / groups
    weights = [[[draw.uniform(0, scale) for _ in row] for row in costs] for _ in range(budgets)]
    names = {g: tuple(range(3)) for g in range(groups)}
    exact = cheapest(
        System(names), {g: dict(enumerate(row)) for g, row in enumerate(costs)},
        tuple(Budget("b", {g: dict(enumerate(row)) for g, row in enumerate(rows)}, 1.0) for rows in weights),
    )  # fmt: skip
    found = cheapest_within(costs, weights)
    if found is not None:
        assert exact is not None
        optimum = sum(costs[g][int(place)] for g, place in exact.items())  # type: ignore[call-overload]
        assert all(sum(row[place] for row, place in zip(rows, found.places, strict=True)) <= 1 + 1e-12 for rows in weights)
        assert found.bound <= optimum + 1e-6 and optimum <= found.cost + 1e-6


def test_a_model_of_very_many_sites_has_several_targets_too() -> None:
    sites = made_sites(random.Random(0), 2500, 2)
    found = assign(sites, Requirements({0: 0.3, 1: 0.1}, False, scaling=False))
    assert isinstance(found, Assignment) and found.errors[0] <= 0.3 and found.errors[1] <= 0.1
    assert found.bound <= found.size < 1.05 * found.bound


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    class Two(torch.nn.Module):
        def forward(self, x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return torch.tanh(x @ w), torch.exp(x)

    x, w = X, torch.randn(8, 4, generator=torch.Generator().manual_seed(2))
    program = CapturedProgram.of(Two(), (x, w), {}, Settings(load_rules("none")))
    model, samples, data = tmp_path / "m.mlir", tmp_path / "s.npz", tmp_path / "o.json"
    model.write_text(emit_torch(as_module(program.graph, [x, w])))
    np.savez(samples, arg0=x.numpy(), arg1=w.numpy())
    given = ["precision", str(model), "--calibrate", str(samples)]
    targets = ["--target-accuracy", "0=1e-2", "--target-accuracy", "1=1e-4"]
    assert main([*given, *targets, "--json", str(data), "--formats", "bf16,fp32"]) == 0
    assert "output 1: about" in capsys.readouterr().err
    first, second = json.loads(data.read_text())["outputs"]
    assert first["estimated"] <= first["allowed"] == pytest.approx(1e-2) and second["measured"] <= 1.1e-4
    assert main([*given, *targets, "--formats", "bf16", "--json", str(data)]) == 1
    assert "output 1 may be off by" in capsys.readouterr().out
    told = json.loads(data.read_text())
    assert sum(edge["bits"] for edge in told["cycle"]) == told["short"] > 0
    for wrong, message in ((["7=1e-3"], "output 0, output 1"), (["1e-3", "1=1e-4"], "not both"), (["1=x"], "OUTPUT=NUMBER")):
        assert main([*given, *(part for text in wrong for part in ("--target-accuracy", text))]) == 2
        assert message in capsys.readouterr().err


@pytest.mark.parametrize("seed", range(6))
def test_what_the_solver_does_not_prove_in_time_is_bounded(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = random.Random(seed)
    sites = made_sites(draw, 120, 3, 4.0)
    narrow = {o: sum(site.apart[o].moved["bf16"] ** 2 for site in sites.sites) ** 0.5 for o in range(3)}
    requirements = Requirements({o: 0.1 * error for o, error in narrow.items()}, False, scaling=False)
    proved = assign(sites, requirements)
    monkeypatch.setattr("hnfc.precision.problem._SECONDS", 1e-3)
    found = assign(sites, requirements)
    assert isinstance(proved, Assignment) and isinstance(found, Assignment) and proved.bound == proved.size
    assert found.bound <= proved.size <= found.size < 1.02 * found.bound
    assert all(found.errors[o] <= 0.1 * error * (1 + 1e-12) for o, error in narrow.items())
    # whether so few bytes are enough is not left open
    for memory, enough in ((proved.size, True), (proved.size - 1, False)):
        assert isinstance(assign(sites, replace(requirements, memory=memory)), Assignment) == enough
    refused = assign(sites, replace(requirements, target=dict.fromkeys(range(3), 1e-9), formats=("bf16",)))
    assert isinstance(refused, Infeasible)


@pytest.mark.parametrize("seed", range(4))
def test_the_knapsack_of_several_budgets_is_close_for_many_groups(seed: int) -> None:
    draw = random.Random(seed)
    groups, budgets = 3000, 2 + seed
    costs = [[float(draw.randint(20, 40)), float(draw.randint(1, 20)), 0.0] for _ in range(groups)]
    weights = [[[0.0, draw.random() ** 4 / groups * 9, draw.random() / groups * 9] for _ in range(groups)] for _ in range(budgets)]
    found = cheapest_within(costs, weights)
    assert found is not None
    assert all(sum(row[place] for row, place in zip(rows, found.places, strict=True)) <= 1 + 1e-12 for rows in weights)
    # no more groups than there are budgets are not as the linear program has them
    assert found.bound <= found.cost <= found.bound + 40 * budgets
