"""Certified mode: no input in reach has a larger error than what is proved, and a target that nothing proves is refused."""

from __future__ import annotations

import pytest
import torch

from hnfc.core.errors import UsageError
from hnfc.precision.assignment import Assignment, Infeasible
from hnfc.precision.optimizer import PrecisionAnalysis, PrecisionOptimizer


def mlp() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(6, 12), torch.nn.Tanh(), torch.nn.Linear(12, 3)).eval()


X = torch.randn(8, 6, generator=torch.Generator().manual_seed(1))


def analyzed(model: torch.nn.Module, x: torch.Tensor = X, **requirements) -> PrecisionAnalysis:
    return PrecisionOptimizer(**requirements).analyze(model, x)


@pytest.mark.parametrize("width", [0.0, 1e-3])
@pytest.mark.parametrize("target", [3e-2, 5e-3])
def test_no_input_in_reach_has_a_larger_error(target, width):
    model = mlp()
    found = analyzed(model, target_accuracy=target, relative=False, certified=True, width=width, formats=("bf16", "fp32"))
    assert isinstance(found.outcome, Assignment)
    assert found.measured <= found.proved <= target
    mixed = found.apply()
    generator = torch.Generator().manual_seed(2)
    for _ in range(20):
        x = X + width * (2 * torch.rand(X.shape, generator=generator) - 1)
        x = torch.minimum(torch.maximum(x, X - width), X + width)
        with torch.no_grad():
            true = mlp().double()(x.double())
            error = (mixed(x).double() - true).square().mean().sqrt().item()
        assert error <= found.proved


def test_a_proof_costs_wider_formats():
    plain = analyzed(mlp(), target_accuracy=5e-3, relative=False, formats=("bf16", "fp32"))
    proved = analyzed(mlp(), target_accuracy=5e-3, relative=False, formats=("bf16", "fp32"), certified=True)
    assert plain.proved is None
    assert proved.outcome.size >= plain.outcome.size


def test_what_cannot_be_proved_is_refused_with_a_way_out():
    refused = analyzed(mlp(), target_accuracy=1e-9, relative=False, formats=("bf16", "fp32"), certified=True).outcome
    assert isinstance(refused, Infeasible)

    class Unknown(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.special.i0(x)

    refused = analyzed(Unknown(), target_accuracy=1e-2, certified=True).outcome
    assert isinstance(refused, Infeasible)
    assert "no bound" in refused.reasons[0]
    assert any("without a proof" in relaxation.change for relaxation in refused.relaxations)


def test_a_tighter_proof_than_the_target_is_found_by_stricter_estimates():
    found = analyzed(mlp(), target_accuracy=1e-2, relative=False, formats=("bf16", "fp16", "fp32"), certified=True)
    assert isinstance(found.outcome, Assignment)
    assert found.error <= found.proved <= 1e-2


@pytest.mark.parametrize("requirements", [{"width": 1e-3}, {"certified": True, "width": -1.0}, {"certified": True, "width": float("nan")}])
def test_a_width_is_that_of_a_proof(requirements: dict[str, float]) -> None:
    with pytest.raises(UsageError, match="width"):
        PrecisionOptimizer(**requirements).analyze(torch.nn.Linear(2, 2), torch.ones(1, 2))  # type: ignore[arg-type]
