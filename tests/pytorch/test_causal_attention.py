"""Attention: torch's own with `is_causal`, where there is no formula over the reals, and masked rows."""

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


class Masked(nn.Module):
    def forward(self, q: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return torch.softmax(q @ q.mT / 2 + mask, -1) @ q


@pytest.mark.parametrize("group", ["fusion", "all"])
def test_a_query_that_sees_no_key_stays_nan(group: str) -> None:
    """torch's fused operation has 0 there, which no formula gives."""
    model, q, mask = Masked(), torch.randn(2, 3, 4), torch.zeros(2, 3, 3)
    better = hnfc.optimize(model, (q, mask), group)
    assert "attention_fusion_masked" in {rewrite["rule"] for rewrite in hnfc.diff(model, better).data[0]["rewrites"]}
    mask[0, 1], mask[1, 0, 2] = -torch.inf, -torch.inf
    torch.testing.assert_close(better(q, mask), model(q, mask), equal_nan=True)
    assert better(q, mask).isnan().any(-1).sum() == 1
