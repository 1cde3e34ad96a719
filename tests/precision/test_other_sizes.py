"""Calls with other batches and lengths: in the formats that were found, by a graph that is there already."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch import nn

from hnfc.formats.packed import PackedTensor
from hnfc.precision import PrecisionOptimizer
from hnfc.precision.running import PRODUCTS, record


class Decoder(nn.Module):
    """A causal block with learned positions and tied embeddings, called by keyword as models of Hugging Face are."""

    def __init__(self, width: int = 32, words: int = 50) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(64, width)
        self.norm, self.heads, self.out = nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.head = nn.Linear(width, words, bias=False)
        self.head.weight = self.words.weight

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor | None = None) -> torch.Tensor:
        batch, length = input_ids.shape
        x = self.words(input_ids) + self.places(torch.arange(length))
        q, k, v = (t.view(batch, length, 4, -1).transpose(1, 2) for t in self.heads(self.norm(x)).chunk(3, -1))
        attended = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        result: torch.Tensor = self.head(x + self.out(attended.transpose(1, 2).flatten(2)))
        return result


def convolutional() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5)
    )  # fmt: skip


def words(batch: int, length: int) -> dict[str, torch.Tensor]:
    return {"input_ids": torch.randint(50, (batch, length))}


def image(batch: int, size: int) -> tuple[torch.Tensor, ...]:
    return (torch.randn(batch, 3, size, size),)


def rows(batch: int, length: int) -> tuple[torch.Tensor, ...]:
    return (torch.randn(batch, length, 16),)


CASES = {
    "decoder": (Decoder, words, (2, 12), [(3, 12), (2, 20), (5, 7), (1, 12), (1, 1)]),
    "convolutions": (convolutional, image, (4, 16), [(1, 16), (7, 16), (4, 24)]),
    "rows": (lambda: nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 4)), rows, (4, 6), [(1, 6), (9, 3)]),
}


@pytest.mark.parametrize("formats", [("bf16", "fp32"), ("int8", "fp32"), ("int4/group16", "bf16", "fp32")], ids=",".join)
@pytest.mark.parametrize("name", CASES)
def test_no_capture_and_no_original(name, formats):
    make, draw, first, others = CASES[name]
    torch.manual_seed(0)
    model = make().eval()
    module = PrecisionOptimizer(0.3, formats=formats, least="parameters").analyze(model, draw(*first)).apply()
    graphs = len(module._hnfc.known)
    narrow = {type(p) for p in module.parameters()} | {p.dtype for p in module.parameters()}
    assert PackedTensor in narrow or torch.bfloat16 in narrow
    for sizes in (first, *others):
        call = draw(*sizes)
        args, kwargs = ((), call) if isinstance(call, dict) else (call, {})
        with torch.no_grad(), warnings.catch_warnings():
            warnings.filterwarnings("error", message="hnfc")
            got, true = module(*args, **kwargs), model(*args, **kwargs)
        assert got.shape == true.shape and got.dtype == true.dtype
        error = float((got - true).square().mean().sqrt() / true.square().mean().sqrt())
        assert 0 < error < 0.4
        types = record(module, args, kwargs).types_of(*PRODUCTS)
        assert sum(types.values()) and ("bf16" not in formats or set(types) == {"bfloat16"})
    assert len(module._hnfc.known) == graphs
