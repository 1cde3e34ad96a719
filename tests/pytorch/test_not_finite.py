"""NaN and infinities among inputs: a rewrite gives NaN where the original does, and finite numbers where the original does."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import hnfc


class Form(torch.nn.Module):
    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x)


def quotient(e: torch.Tensor) -> torch.Tensor:
    return e / e.sum(-1, keepdim=True)


ROWS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "softmax": lambda x: torch.softmax(x, -1),
    "shifted softmax": lambda x: torch.softmax(x - x.amax(-1, keepdim=True), -1),
    "written": lambda x: quotient(torch.exp(x)),
    "written and shifted": lambda x: quotient(torch.exp(x - x.amax(-1, keepdim=True))),
    "exp of log_softmax": lambda x: torch.exp(torch.log_softmax(x, -1)),
}


@pytest.mark.sampled(5)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", ROWS)
def test_infinite_logits(name: str, dtype: torch.dtype) -> None:
    model, x = Form(ROWS[name]), torch.randn(5, 4, generator=torch.Generator().manual_seed(0)).to(dtype)
    better = hnfc.optimize(model, x, "all")
    x[0, 1], x[1], x[2, 3], x[3, 0] = torch.inf, -torch.inf, torch.nan, -torch.inf
    torch.testing.assert_close(better(x), model(x), equal_nan=True)
