"""The loss of a variational autoencoder: log(1 - p) for a pixel that is certain, and a divergence of nearly equal distributions."""

import torch
from before_and_after import Example, show


class Loss(torch.nn.Module):
    def forward(self, logits: torch.Tensor, pixels: torch.Tensor, mean: torch.Tensor, log_variance: torch.Tensor) -> torch.Tensor:
        p = torch.sigmoid(logits)
        likelihood = pixels * torch.log(p) + (1 - pixels) * torch.log(1 - p)
        divergence = 0.5 * (mean**2 + torch.exp(log_variance) - log_variance - 1)
        return divergence.sum(-1) - likelihood.sum(-1)


def textbook(logits: torch.Tensor, pixels: torch.Tensor, mean: torch.Tensor, log_variance: torch.Tensor) -> torch.Tensor:
    likelihood = -torch.nn.functional.binary_cross_entropy_with_logits(logits, pixels, reduction="none")
    return 0.5 * (mean**2 + torch.expm1(log_variance) - log_variance).sum(-1) - likelihood.sum(-1)


torch.manual_seed(0)
SAMPLE = (40 * torch.randn(4, 16), torch.rand(4, 16).round(), 1e-3 * torch.randn(4, 5), 1e-3 * torch.randn(4, 5))
EXAMPLE = Example("loss of a variational autoencoder", Loss(), SAMPLE, textbook)

if __name__ == "__main__":
    show(EXAMPLE)
