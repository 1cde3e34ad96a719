"""A remedy for a loss that stands beside the model says that it is one for both."""

from __future__ import annotations

import torch

import hnfc
from tests.watching.test_loops_of_all_kinds import quiet


def cross_entropy(p: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return -(y * torch.log(p) + (1 - y) * torch.log(1 - p)).mean()


class Exponential(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        raised = torch.exp(x)
        return raised / raised.sum(-1, keepdim=True)


def test_the_loss_is_at_fault() -> None:
    model, x = torch.nn.Sequential(torch.nn.Identity(), torch.nn.Sigmoid()), torch.tensor([[40.0], [1.0]], requires_grad=True)
    with quiet(model, folder=None) as watching:
        watching.loss(cross_entropy, model(x), torch.tensor([[0.0], [1.0]])).backward()
    assert "hnfc.optimize of a module that returns the loss rewrites this place" in str(watching.bad[0])


def test_the_model_is_at_fault() -> None:
    model, x = Exponential(), torch.tensor([[100.0, 1.0]], requires_grad=True)
    with quiet(model, folder=None) as watching:
        watching.loss(torch.nn.functional.mse_loss, model(x), torch.zeros(1, 2)).backward()
    assert "hnfc.optimize applies softmax_fusion" in str(watching.bad[0]) or "hnfc.optimize rewrites" in str(watching.bad[0])


def test_a_trace_with_a_loss() -> None:
    found = hnfc.trace(torch.nn.Sigmoid(), (torch.tensor([[40.0], [1.0]]), torch.tensor([[0.0], [1.0]])), loss=cross_entropy)
    assert found.first is not None and any("of a module that returns the loss" in remedy for remedy in found.first.remedies)
