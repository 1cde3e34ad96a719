"""Refusals are true: budgets that they call possible are, and fewer formats never allow what more refuse."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from hnfc.precision import PrecisionOptimizer
from hnfc.precision.assignment import Assignment, Infeasible
from hnfc.precision.certificates import BUDGETS, MEMORY


class _Softmax(nn.Module):
    """A sum that is just beyond float16, and what is left of it there."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("k", torch.tensor(-65504.0))

    def forward(self, s: torch.Tensor) -> torch.Tensor:
        z = s + self.k
        e = torch.exp(z - z.amax(-1, keepdim=True))
        return e / e.sum(-1, keepdim=True)


class _Softplus(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.log(1 + torch.exp(x))


S = torch.linspace(-20, -17, 32).reshape(4, 8)


@pytest.mark.parametrize("formats", [("fp32",), ("fp16", "fp32"), ("bf16", "fp32"), ("fp16", "bf16", "fp32")], ids=str)
def test_more_formats_refuse_nothing(formats: tuple[str, ...]) -> None:
    found = PrecisionOptimizer(1e-2, formats=formats).analyze(_Softmax(), S)
    assert isinstance(found.outcome, Assignment) and found.measured <= 1.1e-2
    assert found.outcome.bound <= found.outcome.moved
    torch.testing.assert_close(found.apply()(S), _Softmax()(S), atol=0.02, rtol=0.05)


@pytest.mark.parametrize("least", ["bytes", "peak"])
def test_a_budget_of_memory_that_nothing_keeps(least: str) -> None:
    model, x = nn.Linear(64, 64), torch.randn(4, 64, generator=torch.Generator().manual_seed(0))
    whole = 2 * (64 * 64 + 64 + 2 * 4 * 64)

    def outcome(memory: float) -> Assignment | Infeasible:
        return PrecisionOptimizer(1e-4, formats=("bf16", "fp32"), memory_budget=memory, least=least).analyze(model, x).outcome

    for memory, certificate in ((100, MEMORY), (whole - 1, MEMORY), (whole, BUDGETS)):
        found = outcome(memory)
        assert isinstance(found, Infeasible) and found.certificate == certificate
        assert any(f"take {whole:,} at least" in reason for reason in found.reasons) == (certificate == MEMORY)


def test_infinite_outputs_are_counted() -> None:
    x = torch.tensor([1000.0, 1.0, -4.0])
    found = PrecisionOptimizer(1e-2).analyze(_Softplus(), x)
    assert found.infinite == 1 and found.apply()(x)[0] == torch.inf
    assert "not counted: 1 element that is infinite in the model as it is" in str(found)
    assert PrecisionOptimizer(1e-2).analyze(_Softplus(), x[1:]).infinite == 0
