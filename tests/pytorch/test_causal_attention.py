"""torch's own attention with `is_causal`: which keys are hidden depends on indices, and there is no formula over the reals."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

import hnfc


class Causal(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Linear(16, 48)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.mix(x).unflatten(-1, (3, 2, 8)).permute(2, 0, 3, 1, 4)
        return scaled_dot_product_attention(q, k, v, is_causal=True) @ torch.softmax(v, -1).mT


@pytest.mark.parametrize("group", ["stability", "fusion", "all"])
def test_it_is_compiled_and_validated(group: str) -> None:
    torch.manual_seed(0)
    model, x, unseen = Causal().eval(), torch.randn(2, 5, 16), torch.randn(2, 5, 16)
    better = hnfc.optimize(model, x, group)
    with torch.no_grad():
        assert torch.allclose(better(unseen), model(unseen), atol=1e-6)
