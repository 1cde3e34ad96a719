"""A survival model's log(exp(exp(x)) - 1), the logarithm of odds of a complementary log-log link."""

import torch
from before_and_after import Example, show


class LogOdds(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        survived = torch.exp(-torch.exp(x))
        return torch.log((1 - survived) / survived)


def textbook(x: torch.Tensor) -> torch.Tensor:
    hazard = torch.exp(x)
    return hazard + torch.log(-torch.expm1(-hazard))


EXAMPLE = Example("log odds of a survival model", LogOdds(), (torch.tensor([-20.0, -3.0, 0.0, 2.0, 6.0]),), textbook)

if __name__ == "__main__":
    show(EXAMPLE)
