"""Small training loops, healthy ones and such that go wrong."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

import hnfc


class HandSoftmax(nn.Module):
    """A softmax by hand, whose logits grow from step to step."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.1), nn.Linear(8, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        e = torch.exp(20 * self.net(x))
        return e / e.sum(-1, keepdim=True)  # the line at fault is the one before


class Normed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.2), nn.Linear(8, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.net(x)  # type: ignore[no-any-return]


def negative_log(p: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return -torch.log((p * y).sum(-1)).mean()


class NegativeLog(nn.Module):
    def forward(self, p: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return negative_log(p, y)


def batch() -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(1)
    return 4 + torch.rand(12, 4), nn.functional.one_hot(torch.zeros(12, dtype=torch.long), 3).float()


def train(model: nn.Module, criterion: Any, steps: int = 60, watching: Any = None, rate: float = 0.5) -> list[float]:
    """The losses of a loop."""
    x, y = batch()
    optimizer = torch.optim.Adam(model.parameters(), rate)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        output = model(x)
        loss = watching.loss(criterion, output, y) if watching is not None else criterion(output, y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def watched(model: nn.Module, criterion: Any, use_loss: bool = False, **options: Any) -> hnfc.watching.Watch:
    said: list[str] = []
    with hnfc.watch(model, report=said.append, **{"folder": None, **options}) as watching:
        train(model, criterion, watching=watching if use_loss else None)
    return watching
