"""Exact rewrites of linear layers that make their inputs easier to round: scales that move to the weights, and rotations.

x·W = (x·D⁻¹)·(D·W) with a diagonal D (SmoothQuant, Xiao and others 2023), here of powers of two, so that not a bit changes; and
x·W = (x·H)·(Hᵀ·W/n) with a Hadamard matrix H of ±1 (QuaRot, Ashkboos and others 2024), equal but for rounding.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import torch
from torch import nn

from hnfc.pytorch.optimized import arguments_of

_LARGEST_BLOCK = 256
Rewrite: TypeAlias = Callable[[nn.Module, Sequence[Any]], nn.Module]


class PreparedLinear(nn.Linear):
    """A linear layer on its input times factors, times a Hadamard matrix in blocks; its weight has the reverse of both."""

    factors: torch.Tensor
    rotation: torch.Tensor | None

    @staticmethod
    def of(layer: nn.Linear, factors: torch.Tensor, block: int) -> PreparedLinear:
        """block: size of the Hadamard matrix, 1 for none."""
        made = PreparedLinear(layer.in_features, layer.out_features, layer.bias is not None, device="meta")
        with torch.no_grad():
            weight = layer.weight / factors
            rotation = hadamard(block).to(weight) if block > 1 else None
            if rotation is not None:
                weight = _rotated(weight.double(), rotation.double()).div(block).to(weight.dtype)
        made.weight, made.bias = nn.Parameter(weight, layer.weight.requires_grad), layer.bias
        made.register_buffer("factors", factors)
        made.register_buffer("rotation", rotation)
        return made.train(layer.training)

    def prepared(self, input: torch.Tensor) -> torch.Tensor:
        """Other operand of the product with the weight."""
        scaled = input * self.factors
        return scaled if self.rotation is None else _rotated(scaled, self.rotation)

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return super().forward(self.prepared(input))


def hadamard(size: int) -> torch.Tensor:
    """The symmetric matrix of ±1 whose square is `size` times the identity; a power of two (Sylvester's construction)."""
    made = torch.ones(1, 1)
    while len(made) < size:
        made = torch.cat((torch.cat((made, made), 1), torch.cat((made, -made), 1)))
    return made


def _rotated(x: torch.Tensor, matrix: torch.Tensor) -> torch.Tensor:
    size = len(matrix)
    return (x.reshape(*x.shape[:-1], x.shape[-1] // size, size) @ matrix).reshape(x.shape)


def smoothed(model: nn.Module, samples: Sequence[Any]) -> nn.Module:
    """A copy of the model in which channels of the inputs of linear layers that are large on the samples are divided by powers of two, and
    columns of weights multiplied by them: each by about √(largest input / largest weight)."""
    return _prepared(model, samples, is_scaled=True, is_rotated=False)


def rotated(model: nn.Module, samples: Sequence[Any] = ()) -> nn.Module:
    """A copy of the model in which the inputs of linear layers are rotated by Hadamard matrices, which spread what is large in one channel
    over all, and their weights are rotated back."""
    return _prepared(model, samples, is_scaled=False, is_rotated=True)


def smoothed_and_rotated(model: nn.Module, samples: Sequence[Any]) -> nn.Module:
    """Both: scales first."""
    return _prepared(model, samples, is_scaled=True, is_rotated=True)


REWRITES: tuple[Rewrite, ...] = (smoothed, rotated, smoothed_and_rotated)


def _prepared(model: nn.Module, samples: Sequence[Any], *, is_scaled: bool, is_rotated: bool) -> nn.Module:
    made = copy.deepcopy(model)
    layers = list(_layers(made))
    reached = _greatest_inputs(made, [layer for _, layer in layers], samples) if is_scaled else {}
    for name, layer in layers:
        factors = torch.ones_like(layer.weight[0])
        if layer in reached:
            factors = _factors(reached[layer], layer.weight.detach().abs().amax(0))
        size = layer.in_features & -layer.in_features if is_rotated else 1
        if size > 1 or not bool((factors == 1).all()):
            path, _, own = name.rpartition(".")
            setattr(made.get_submodule(path), own, PreparedLinear.of(layer, factors, min(size, _LARGEST_BLOCK)))
    return made


def _layers(model: nn.Module) -> Iterator[tuple[str, nn.Linear]]:
    """Linear layers whose weight nothing else reads; those of a subclass may compute something else."""
    owners = Counter(id(p) for module in model.modules() for p in module.parameters(recurse=False))
    names = Counter(id(module) for _, module in model.named_modules(remove_duplicate=False))
    for name, module in model.named_modules():
        if type(module) is nn.Linear and name and owners[id(module.weight)] == 1 and names[id(module)] == 1:
            yield name, module


def _greatest_inputs(model: nn.Module, layers: Sequence[nn.Linear], samples: Sequence[Any]) -> dict[nn.Module, torch.Tensor]:
    """The greatest size of each channel of a layer's input on the samples."""
    found: dict[nn.Module, torch.Tensor] = {}

    def note(layer: nn.Module, given: tuple[Any, ...]) -> None:
        sizes = given[0].detach().abs().reshape(-1, given[0].shape[-1]).amax(0)
        found[layer] = torch.maximum(found[layer], sizes) if layer in found else sizes

    handles = [layer.register_forward_pre_hook(note) for layer in layers]
    try:
        with torch.no_grad():
            for sample in samples:
                args, kwargs = arguments_of(sample)
                model(*args, **kwargs)
    finally:
        for handle in handles:
            handle.remove()
    return found


def _factors(inputs: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """Powers of two near √(weights / inputs), relative to their middle, so that the whole is about as large as before."""
    known = (inputs > 0) & (weights > 0) & inputs.isfinite()
    logs = torch.where(known, 0.5 * (weights.double().log2() - inputs.double().log2()), 0.0)
    middle = logs[known].median() if bool(known.any()) else logs.new_zeros(())
    return torch.where(known, torch.exp2((logs - middle).round().clamp(-60, 60)), 1.0).to(inputs.dtype)
