"""Diagonals and traces of torch as slices of a row."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import hnfc


class Applied(torch.nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x)


@pytest.mark.parametrize(
    ("function", "shape"),
    [
        (lambda x: x.diagonal(), (4, 4)),
        (lambda x: x.diagonal(1, -2, -1), (3, 5)),
        (lambda x: x.diagonal(-2, 0, -1), (5, 2, 3)),
        (lambda x: x.diagonal(2, -1, 1), (2, 4, 3, 5)),
        (lambda x: torch.diag(x, -1), (4, 3)),
        (lambda x: torch.trace(x), (3, 5)),
    ],
)
def test_they_are_known_and_right(function: Any, shape: tuple[int, ...]) -> None:
    model, x = Applied(lambda x: function(torch.exp(x))), torch.randn(shape)
    better = hnfc.optimize(model, x, "none", validate=False)
    assert "not known" not in str(hnfc.diff(model, better))
    assert torch.equal(better(x), model(x))
    inputs = x.clone().requires_grad_()
    (slopes,) = torch.autograd.grad(better(inputs).sum(), inputs)
    assert torch.equal(slopes, torch.autograd.grad(model(inputs).sum(), inputs)[0])


def test_a_matrix_made_of_a_row_and_an_empty_diagonal_are_left_to_torch() -> None:
    model, x = Applied(lambda x: torch.diag(x) + torch.diagonal(x[:, None] * x, 9).sum()), torch.randn(3)
    assert torch.equal(hnfc.optimize(model, x, "none", validate=False)(x), model(x))


def test_a_contrastive_loss_finds_its_way_through_a_diagonal() -> None:
    def loss(x: torch.Tensor) -> torch.Tensor:
        likeness = torch.exp(x @ x.T)
        return -torch.log(torch.diag(likeness) / likeness.sum(-1)).mean()

    x = 12 * torch.nn.functional.normalize(torch.randn(6, 8, generator=torch.Generator().manual_seed(0)), dim=-1)
    model = Applied(loss)
    better = hnfc.optimize(model, x)
    assert model(x).isnan() and better(x).isfinite()
    exact = torch.nn.functional.cross_entropy(x.double() @ x.double().T, torch.arange(6))
    assert float(better(x)) == pytest.approx(float(exact), rel=1e-3, abs=1e-14)
