"""Gradients that a model stops stay stopped, whatever a rule says of the values."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import hnfc
from tests.exporting import FunctionModule

DROPPED = "rule dropped\n    x + detach(y) => x + y\nrule alone\n    detach(x) => x\n"


class Large(torch.nn.Module):
    """More steps than the derivative over the reals may take."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        for _ in range(12):
            x = torch.exp(-torch.square(x + y.detach()))
        return x


class Straight(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.sin(x + (y.round() - y).detach()) * y


class Partly(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.exp(x + y.detach()) + y * x.detach()


@pytest.mark.parametrize(("model", "size"), [(Large(), 3000), (Straight(), 3), (Partly(), 3)], ids=("large", "straight", "partly"))
def test_a_rule_that_lets_a_gradient_through_is_taken_back(model: torch.nn.Module, size: int, tmp_path: Path) -> None:
    path = tmp_path / "r.hnf"
    path.write_text(DROPPED)
    x, y = (torch.randn(size, requires_grad=True) for _ in range(2))
    better = hnfc.optimize(model, (x, y), group=(str(path), "all"))
    before, after = (torch.autograd.grad(each(x, y).sum(), (x, y), allow_unused=True) for each in (model, better))
    for old, new in zip(before, after, strict=True):
        torch.testing.assert_close(torch.zeros(size) if new is None else new, torch.zeros(size) if old is None else old)


@pytest.mark.parametrize(("dtype", "at"), [(torch.float64, 700.0), (torch.float32, 85.0), (torch.bfloat16, 85.0), (torch.float16, 10.5)])
def test_a_difference_that_is_0_has_a_gradient(dtype: torch.dtype, at: float) -> None:
    """A form that divides by the largest exponential multiplies 0 by it, and the derivative of that 0."""
    x = torch.tensor([1.0, 2.0, 3.0], dtype=dtype)
    better = hnfc.optimize(FunctionModule(lambda x: torch.exp(x) - torch.exp(x.detach())), (x,))
    large = torch.tensor([at], dtype=dtype, requires_grad=True)
    torch.testing.assert_close(torch.autograd.grad(better(large).sum(), large)[0], torch.exp(large).detach(), rtol=1e-2, atol=0)
