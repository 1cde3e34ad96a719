"""Certified bounds of deep models: no run exceeds them, and they stay near what runs show."""

from __future__ import annotations

import copy
import os

import numpy as np
import pytest
import torch
from torch import nn

import hnfc
from hnfc.analysis.certified import certified
from hnfc.dialects.interval_arrays import IntervalArray
from tests.analysis.capturing import captured, encoder

SEED = int(os.environ.get("HNFC_SEED", "1"))


def chain(depth: int, width: int, activation: type[nn.Module] = nn.Tanh) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(*[part for _ in range(depth) for part in (nn.Linear(width, width), activation())]).eval()


class Residual(nn.Module):
    """Blocks of which each adds a little to a path that stays linear."""

    def __init__(self, depth: int, width: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(depth))
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for norm, layer in zip(self.norms, self.layers, strict=True):
            x = x + nn.functional.silu(layer(norm(x)))
        return x


def errors(model: nn.Module, inputs: list[torch.Tensor]) -> float:
    wide = copy.deepcopy(model).double()
    with torch.no_grad():
        return max(float((model(x).double() - wide(x.double())).abs().max()) for x in inputs)


def inputs_near(x: torch.Tensor, width: float, count: int) -> list[torch.Tensor]:
    """Inputs in the box, corners among them."""
    generator = torch.Generator().manual_seed(SEED)
    moves = [2 * torch.rand(x.shape, generator=generator) - 1 for _ in range(count)]
    moves += [torch.randint(0, 2, x.shape, generator=generator) * 2.0 - 1 for _ in range(count)]
    near = [x + width * move.to(x.dtype) for move in moves]
    return [x, *(torch.minimum(torch.maximum(y, x - width), x + width) for y in near)] if width else [x]


@pytest.mark.parametrize("width", [0.0, 1e-3])
def test_six_layers_of_64_are_within_some_hundred_times(width: float) -> None:
    model, x = chain(6, 64), torch.randn(1, 64, generator=torch.Generator().manual_seed(2))
    bound = hnfc.analyze(model, x, certified=True, width=width).error
    assert errors(model, inputs_near(x, width, 50)) <= bound
    assert bound < 400 * errors(model, [torch.randn(16, 64, generator=torch.Generator().manual_seed(3)) for _ in range(40)])


def test_two_blocks_of_a_transformer_are_within_some_hundred_times() -> None:
    model, x = encoder(2, 16), torch.randn(1, 6, 16, generator=torch.Generator().manual_seed(2))
    bound = hnfc.analyze(model, x, certified=True).error
    measured = errors(model, [torch.randn(4, 6, 16, generator=torch.Generator().manual_seed(i)) for i in range(40)])
    assert errors(model, [x]) <= bound < 400 * measured


def test_errors_that_cancel_do() -> None:
    class Cancelling(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            big = torch.exp(5 * x)
            return (big + x) - big

    bounds = hnfc.analyze(Cancelling(), torch.rand(4, 8), certified=True)
    by_operation = {finding.operation: finding for finding in bounds.findings}
    # what the exponential is off by is in both terms of the difference
    assert bounds.error < by_operation["exp"].error / 4


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("width", [0.0, 1e-2])
@pytest.mark.parametrize("seed", range(2))
def test_no_model_at_random_is_off_by_more(dtype: torch.dtype, width: float, seed: int) -> None:
    holds(dtype, width, SEED * 1000 + seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(30))
def test_no_model_at_random_is_off_by_more_at_length(seed: int) -> None:
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        for width in (0.0, 1e-3, 1e-1):
            holds(dtype, width, SEED * 1_000_000 + seed)


def holds(dtype: torch.dtype, width: float, seed: int) -> None:
    """The bound of every element, in whatever row of the batch."""
    generator = np.random.default_rng(seed)
    torch.manual_seed(seed)
    size = int(generator.choice([3, 8, 17]))
    activations = [nn.Tanh, nn.ReLU, nn.GELU, nn.SiLU, nn.Sigmoid, nn.Softplus, nn.ELU, lambda: nn.Softmax(-1), lambda: nn.LayerNorm(size)]
    parts: list[nn.Module] = []
    for _ in range(int(generator.integers(1, 5))):
        parts += [nn.Linear(size, size, bias=bool(generator.integers(2))), activations[generator.integers(len(activations))]()]
    model = nn.Sequential(*parts) if generator.integers(2) else nn.Sequential(*parts[:-1], Residual(2, size))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(float(generator.choice([0.3, 1.0, 3.0])))
    model = model.to(dtype).eval()
    x = (torch.randn(int(generator.integers(1, 6)), size) * float(generator.choice([0.1, 1.0, 10.0]))).to(dtype)
    imported, block, given = captured(model, x)
    boxes = {}
    for value, tensor in zip(block.args, given, strict=True):
        array, by = tensor.double().numpy()[None], width if tensor.data_ptr() == x.data_ptr() else 0.0
        boxes[value] = IntervalArray(array - by, array + by) if by else IntervalArray.of(array)
    bounds = certified(block, boxes, imported.weight, per="element").bounds[block.last_op.operands[0]]
    wide = copy.deepcopy(model).double()
    for near in inputs_near(x, width, 6):
        with torch.no_grad():
            away = (model(near).double() - wide(near.double())).abs().numpy()
        # the reference is off by some units of float64 too
        assert (away <= bounds.errors * (1 + 1e-6) + 1e-13 * (1 + abs(bounds.high) + abs(bounds.low))).all(), (seed, away, bounds.errors)
