"""The present value of payments at a small rate: 1 - (1 + r)^-n cancels, and is divided by r."""

import torch
from before_and_after import Example, show


class Annuity(torch.nn.Module):
    def forward(self, rate: torch.Tensor, years: torch.Tensor) -> torch.Tensor:
        return (1 - (1 + rate) ** -years) / rate


def textbook(rate: torch.Tensor, years: torch.Tensor) -> torch.Tensor:
    return -torch.expm1(-years * torch.log1p(rate)) / rate


EXAMPLE = Example("present value at a small rate", Annuity(), (torch.tensor([1e-6, 1e-4, 0.03]), torch.tensor([30.0, 10.0, 5.0])), textbook)

if __name__ == "__main__":
    show(EXAMPLE)
