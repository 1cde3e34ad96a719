"""Exact rewrites of linear layers: equal to the model, and easier to round where a channel is large."""

from __future__ import annotations

import copy
from functools import partial

import pytest
import torch
from torch import nn

from hnfc.precision import PrecisionOptimizer, round_to
from hnfc.precision.rewriting import REWRITES, PreparedLinear, hadamard, rotated, smoothed, smoothed_and_rotated


class Outlying(nn.Module):
    """Attention and a feed-forward layer, whose normalizations make some channels large."""

    def __init__(self, width: int = 64, outliers: float = 40.0) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        for norm in self.norms:
            norm.weight.data[torch.randperm(width)[:3]] *= outliers

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.norms[0](x)
        weights = torch.softmax(self.query(h) @ self.key(h).transpose(-1, -2) / h.shape[-1] ** 0.5, -1)
        x = x + self.out(weights @ self.value(h))
        result: torch.Tensor = x + self.down(torch.nn.functional.gelu(self.up(self.norms[1](x))))
        return result


def made(seed: int, width: int = 64, outliers: float = 40.0) -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    torch.manual_seed(seed)
    return Outlying(width, outliers).eval(), torch.randn(2, 16, width), torch.randn(2, 16, width)


def off(module: nn.Module, model: nn.Module, x: torch.Tensor) -> float:
    with torch.no_grad():
        true = model(x)
        return float((module(x) - true).square().mean().sqrt() / true.square().mean().sqrt())


def in_integers(model: nn.Module) -> nn.Module:
    """The model with weights of linear layers in int8 by channel, and what they are multiplied with by token."""
    rounding = copy.deepcopy(model)
    for layer in rounding.modules():
        if isinstance(layer, nn.Linear):
            layer.weight.data = round_to(layer.weight.data, "int8")
            layer.forward = partial(_in_integers, layer)
    return rounding


def _in_integers(layer: nn.Linear, x: torch.Tensor) -> torch.Tensor:
    prepared = layer.prepared(x) if isinstance(layer, PreparedLinear) else x
    return nn.functional.linear(round_to(prepared, "int8/token"), layer.weight, layer.bias)


@pytest.mark.parametrize("seed", range(3))
def test_they_are_exact(seed: int) -> None:
    model, x, unseen = made(seed, (64, 48, 20)[seed])
    assert off(smoothed(model, [x]), model, unseen) == 0.0
    for rewrite in (rotated, smoothed_and_rotated):
        assert 0 < off(rewrite(model, [x]), model, unseen) < 5e-6


@pytest.mark.parametrize("seed", range(3))
def test_outliers_cost_half_as_much(seed: int) -> None:
    model, x, unseen = made(seed)
    plain = off(in_integers(model), model, unseen)
    errors = {rewrite.__name__: off(in_integers(rewrite(model, [x])), model, unseen) for rewrite in REWRITES}
    assert plain > 1e-2 and errors["smoothed_and_rotated"] < 0.5 * plain and max(errors.values()) < plain


def test_a_matrix_and_its_square() -> None:
    for size in (1, 2, 8, 64):
        matrix = hadamard(size)
        assert torch.equal(matrix @ matrix, size * torch.eye(size)) and bool((matrix.abs() == 1).all())


def test_what_is_shared_or_not_a_plain_layer_stays() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.head, self.twice = nn.Embedding(16, 8), nn.Linear(8, 16, bias=False), nn.Linear(8, 8)
            self.head.weight, self.again = self.embed.weight, self.twice

        def forward(self, words: torch.Tensor) -> torch.Tensor:
            result: torch.Tensor = self.head(self.again(self.twice(self.embed(words))))
            return result

    model, words = Tied(), torch.arange(6)
    found = smoothed_and_rotated(model, [words])
    assert not any(isinstance(module, PreparedLinear) for module in found.modules())
    assert found.head.weight is found.embed.weight


def test_a_channel_that_is_always_0() -> None:
    model, x, _ = made(0)
    model.norms[0].weight.data[5] = model.norms[0].bias.data[5] = 0
    assert off(smoothed(model, [x]), model, x) == 0.0


def test_the_optimizer_takes_what_opens_most_products() -> None:
    torch.manual_seed(0)
    model, x, unseen = nn.Sequential(nn.LayerNorm(64), nn.Linear(64, 32)).eval(), torch.randn(32, 64), torch.randn(32, 64)
    model[0].weight.data[:2] *= 60
    formats = ("int8", "int8/token", "fp32")
    with_them, without = (PrecisionOptimizer(1e-2, formats=formats, rewrites=r).analyze(model, x) for r in (True, False))
    assert with_them.integer_products > without.integer_products
    assert with_them.measured <= 1e-2 and off(with_them.apply(), model, unseen) < 2e-2
    assert "take scaled or rotated inputs" in str(with_them) and "rotated" not in str(without)
