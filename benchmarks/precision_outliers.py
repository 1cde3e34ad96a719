"""Weights in int8 by channel and inputs of linear layers in int8 by token, with and without exact rewrites, where channels are outlying.

`python benchmarks/precision_outliers.py`. A transformer block of width 256 whose normalizations make 1 % of the channels larger, by the
factor in the first column; the medians of five seeds. Errors are of fresh inputs, relative to the outputs' root mean square.
"""

from __future__ import annotations

import copy
import sys
from functools import partial
from pathlib import Path
from statistics import median

import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).parent.parent))

from hnfc.precision import round_to
from hnfc.precision.rewriting import REWRITES, PreparedLinear

WIDTH = 256


class Block(nn.Module):
    """Attention with one head, and a feed-forward layer."""

    def __init__(self, outlying: float) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2))
        self.query, self.key, self.value, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        for norm in self.norms:
            norm.weight.data[torch.randperm(WIDTH)[: WIDTH // 100]] *= outlying

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.norms[0](x)
        weights = torch.softmax(self.query(h) @ self.key(h).transpose(-1, -2) / WIDTH**0.5, -1)
        x = x + self.out(weights @ self.value(h))
        result: torch.Tensor = x + self.down(torch.nn.functional.gelu(self.up(self.norms[1](x))))
        return result


def in_integers(model: nn.Module) -> nn.Module:
    made = copy.deepcopy(model)
    for layer in made.modules():
        if isinstance(layer, nn.Linear):
            layer.weight.data = round_to(layer.weight.data, "int8/channel")
            layer.forward = partial(product, layer)
    return made


def product(layer: nn.Linear, x: torch.Tensor) -> torch.Tensor:
    prepared = layer.prepared(x) if isinstance(layer, PreparedLinear) else x
    return nn.functional.linear(round_to(prepared, "int8/token"), layer.weight, layer.bias)


def relative_error(made: nn.Module, model: nn.Module, x: torch.Tensor) -> float:
    with torch.no_grad():
        true = model(x)
        return float((made(x) - true).square().mean().sqrt() / true.square().mean().sqrt())


def main() -> None:
    names = [rewrite.__name__.replace("_", " ") for rewrite in REWRITES]
    print(f"{'outliers':>8} {'plain':>10} " + " ".join(f"{name:>20}" for name in names) + "   (in float32)")
    for outlying in (1.0, 10.0, 30.0, 100.0):
        rows = []
        for seed in range(5):
            torch.manual_seed(seed)
            model, x, unseen = Block(outlying).eval(), torch.randn(4, 64, WIDTH), torch.randn(4, 64, WIDTH)
            made = [rewrite(model, [x]) for rewrite in REWRITES]
            exact = [relative_error(m, model, unseen) for m in made]
            rows.append([relative_error(in_integers(m), model, unseen) for m in (model, *made)] + exact)
        plain, *others = (median(column) for column in zip(*rows, strict=True))
        shown = zip(others[:3], others[3:], strict=True)
        print(f"{outlying:8g} {plain:10.1e} " + " ".join(f"{error:10.1e} ({exact:7.1e})" for error, exact in shown), flush=True)


if __name__ == "__main__":
    main()
