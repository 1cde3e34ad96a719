"""Attention with its softmax written out: scores above 88 overflow in float32."""

import torch
from before_and_after import Example, show


class Attention(torch.nn.Module):
    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        scores = torch.exp(q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5)
        return scores / scores.sum(-1, keepdim=True) @ v


def textbook(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return torch.softmax(q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5, -1) @ v


torch.manual_seed(0)
EXAMPLE = Example("attention with large scores", Attention(), tuple(9 * torch.randn(3, 2, 6, 8)), textbook)

if __name__ == "__main__":
    show(EXAMPLE)
