"""Formulas over all axes of a tensor, whose result is a scalar, as losses are."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

import hnfc
from tests.exporting import FunctionModule

Function = Callable[..., torch.Tensor]

FORMULAS: dict[str, tuple[Function, Function, float, float]] = {
    "variance": (lambda x: (x * x).mean() - x.mean() ** 2, lambda x: x.var(unbiased=False), 1e-5, 1.0),
    "deviation": (lambda x: torch.sqrt((x**2).sum() / x.numel() - x.mean().square()), lambda x: x.std(unbiased=False), 1e-5, 1.0),
    "logsumexp": (lambda x: torch.log(torch.exp(x).sum()), lambda x: torch.logsumexp(x.flatten(), 0), 1.0, 1e6),
    "softmax": (lambda x: torch.exp(x) / torch.exp(x).sum(), lambda x: torch.softmax(x.flatten(), 0).reshape(x.shape), 1.0, 1e6),
    "pooled": (
        lambda x: torch.log(torch.exp(10 * x).mean()) / 10,
        lambda x: (torch.logsumexp(10 * x.flatten(), 0) - math.log(x.numel())) / 10, 1.0, 1e6,
    ),
}  # fmt: skip


@pytest.mark.sampled(10)
@pytest.mark.parametrize("name", FORMULAS)
@pytest.mark.parametrize("shape", [(40,), (5, 8), (1, 3, 4)])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_a_rule_with_kept_axes_fits(name: str, shape: tuple[int, ...], dtype: torch.dtype) -> None:
    formula, right, spread, mean = FORMULAS[name]
    offset = 1e3 if spread < 1 else mean / 1e3
    x = (torch.randn(shape, generator=torch.Generator().manual_seed(3)).double() * max(spread, 1e-2) + offset).to(dtype)
    better = hnfc.optimize(FunctionModule(formula), (x,))
    torch.testing.assert_close(better(x).double(), right(x.double()), rtol=1e-4 if dtype == torch.float32 else 1e-9, atol=0)


def test_gradients_that_cancel_between_uses_of_an_argument() -> None:
    """The gradient of an ordinal model by its score is a difference of two sigmoids."""
    x, low, high = (torch.tensor(v) for v in ([40.0, -35.0, 0.5], [-1.0] * 3, [1.0] * 3))
    model = FunctionModule(lambda x, a, b: -torch.log(1 / (1 + torch.exp(x - b)) - 1 / (1 + torch.exp(x - a))))
    better = hnfc.optimize(model, (x, low, high))
    x.requires_grad_()
    wide = x.detach().double().requires_grad_()
    right = -F.logsigmoid(high - wide) - F.logsigmoid(wide - low) - torch.log(-torch.expm1(low.double() - high))
    found = better(x, low, high)
    torch.testing.assert_close(found.double(), right)
    torch.testing.assert_close(*(torch.autograd.grad(y.sum(), v)[0].double() for y, v in ((found, x), (right, wide))))


def test_the_divergence_of_two_bernoulli_distributions() -> None:
    a, b = torch.tensor([-95.0, 30, 1, 120]), torch.tensor([-90.0, -2, 1.5, -100])

    def divergence(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        p, q = torch.sigmoid(a), torch.sigmoid(b)
        return p * torch.log(p / q) + (1 - p) * torch.log((1 - p) / (1 - q))

    def right(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        ones = torch.sigmoid(a) * (F.logsigmoid(a) - F.logsigmoid(b))
        return ones + torch.sigmoid(-a) * (F.logsigmoid(-a) - F.logsigmoid(-b))

    better = hnfc.optimize(FunctionModule(divergence), (a, b))
    torch.testing.assert_close(better(a, b).double(), right(a.double(), b.double()))
