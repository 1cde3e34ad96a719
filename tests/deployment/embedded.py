"""A model with an embedding, linear layers and a normalization, for files that others read."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from hnfc.precision import PrecisionOptimizer
from hnfc.precision.optimizer import PrecisionAnalysis


class Embedded(nn.Module):
    """Words to vectors, and a layer of two matrices."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.up, self.norm, self.down = nn.Embedding(50, 64), nn.Linear(64, 128), nn.LayerNorm(128), nn.Linear(128, 64)
        self.register_buffer("counts", torch.arange(3))

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.down(self.norm(torch.nn.functional.gelu(self.up(self.embed(words)))))
        return result


WORDS = torch.randint(50, (4, 16), generator=torch.Generator().manual_seed(0))


def analyzed(*formats: str, target: float = 0.5, **more: Any) -> PrecisionAnalysis:
    torch.manual_seed(0)
    return PrecisionOptimizer(target, formats=formats, **more).analyze(Embedded().eval(), WORDS)


def off(found: PrecisionAnalysis, module: nn.Module) -> float:
    with torch.no_grad():
        true = found.model(WORDS)
        return float((module(WORDS) - true).square().mean().sqrt() / true.square().mean().sqrt())
