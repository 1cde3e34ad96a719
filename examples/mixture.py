"""The likelihood of a mixture of Gaussians: far from every centre all terms underflow, and the logarithm of 0 is -inf."""

import math

import torch
from before_and_after import Example, show


class Mixture(torch.nn.Module):
    def forward(self, x: torch.Tensor, means: torch.Tensor, log_scales: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        scales = torch.exp(log_scales)
        density = torch.exp(-(((x[:, None] - means) / scales) ** 2) / 2) / (scales * math.sqrt(2 * math.pi))
        return torch.log((torch.softmax(weights, -1) * density).sum(-1))


def textbook(x: torch.Tensor, means: torch.Tensor, log_scales: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    parts = torch.distributions.Normal(means, log_scales.exp()).log_prob(x[:, None])
    return torch.logsumexp(torch.log_softmax(weights, -1) + parts, -1)


torch.manual_seed(0)
SAMPLE = (torch.tensor([0.0, 3.0, 20.0, -90.0]), torch.randn(3), 0.1 * torch.randn(3), torch.randn(3))
EXAMPLE = Example("likelihood of a mixture", Mixture(), SAMPLE, textbook)

if __name__ == "__main__":
    show(EXAMPLE)
