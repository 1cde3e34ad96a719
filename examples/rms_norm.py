"""A norm in float16: the square of 300 is beyond 65504."""

import torch
from before_and_after import Example, show


class RMSNorm(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x / torch.sqrt((x * x).mean(-1, keepdim=True) + 1e-6)


torch.manual_seed(0)
EXAMPLE = Example("RMSNorm in float16", RMSNorm(), (400 * torch.randn(4, 32).half(),), RMSNorm())

if __name__ == "__main__":
    show(EXAMPLE)
