"""Gradients that are lost where values are not: in half precision squares of small numbers have few digits, quotients of them overflow."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import hnfc
from tests.pytorch.examples import Plain

Function = Callable[[torch.Tensor], torch.Tensor]
FORMS: dict[str, tuple[Function, float]] = {
    "root mean square": (lambda x: x / torch.sqrt((x * x).mean(-1, keepdim=True) + 1e-6), 1e-3),
    "by a power": (lambda x: x * ((x * x).mean(-1, keepdim=True) + 2e-6) ** -0.5, 8e-4),
}


@pytest.mark.parametrize("name", FORMS)
def test_a_gradient_in_half_precision(name: str) -> None:
    function, size = FORMS[name]
    x = (size * torch.randn(3, 8, generator=torch.Generator().manual_seed(2))).half()
    weights = torch.linspace(0.5, 1.5, 24).reshape(3, 8)

    def gradient(module: torch.nn.Module, x: torch.Tensor) -> torch.Tensor:
        given = x.clone().requires_grad_()
        return torch.autograd.grad(module(given), given, weights.to(x.dtype))[0]

    model = Plain(function)
    better = hnfc.optimize(model, x)
    true = gradient(model, x.double())
    before, after = ((gradient(module, x).double() - true).abs().max() / true.abs().max() for module in (model, better))
    assert after < 2e-3 and not before < after


def test_gradients_that_no_type_holds_change_nothing() -> None:
    model, x = Plain(lambda x: 1 / (x + 1e-3)), torch.tensor([1e-5, 0.5, 3.0]).half()
    assert torch.equal(hnfc.optimize(model, x)(x), model(x))
