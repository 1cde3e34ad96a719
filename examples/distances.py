"""Distances of all points of a set, each to itself among them: the derivative of a root at 0 is infinite, and its gradient NaN."""

import torch
from before_and_after import Example, show


class Distances(torch.nn.Module):
    def forward(self, points: torch.Tensor) -> torch.Tensor:
        return torch.sqrt(((points[:, None] - points) ** 2).sum(-1))


def textbook(points: torch.Tensor) -> torch.Tensor:
    squares = ((points[:, None] - points) ** 2).sum(-1)
    apart = squares > 0
    return torch.where(apart, torch.sqrt(torch.where(apart, squares, 1.0)), 0.0)


torch.manual_seed(0)
EXAMPLE = Example("distances of points to themselves", Distances(), (torch.randn(6, 3),), textbook)

if __name__ == "__main__":
    show(EXAMPLE)
