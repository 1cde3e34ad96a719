"""Exact rewrites of linear layers that make their inputs easier to round: scales that move to the weights, and rotations.

The layers are made by proved rules of rules/quantisation.hnf; what is chosen here are values of their parameters: scales that are powers of
two, so that not a bit changes (SmoothQuant, Xiao and others 2023), and Hadamard matrices of ±1/√n in blocks (QuaRot, Ashkboos and others
2024), whose products are equal but for rounding.
"""

from __future__ import annotations

import copy
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import torch
from torch import fx, nn

from hnfc.precision.instances import BlockMatrix, ParameterValue, product_rule
from hnfc.pytorch.optimized import arguments_of

_LARGEST_BLOCK = 256
_RULES = {("s",): "scale_between_operands", ("h",): "rotation_between_operands", ("s", "h"): "scaled_and_rotated"}
"""Rules by the parameters that values were found for."""
Rewrite: TypeAlias = Callable[[nn.Module, Sequence[Any]], nn.Module]


class PreparedLinear(nn.Linear):
    """A linear layer by a proved rule of products: its input and its weight are those of the rule's right side."""

    rule: str
    form: fx.GraphModule
    needed: tuple[str, ...]

    @staticmethod
    def of(layer: nn.Linear, rule: str, values: Mapping[str, ParameterValue]) -> PreparedLinear:
        """rule: its name; values: of its parameters. Raises ModelError for values that do not meet its conditions."""
        made = PreparedLinear(layer.in_features, layer.out_features, layer.bias is not None, device="meta")
        found = product_rule(rule)
        found.check(values, layer.in_features)
        with torch.no_grad():
            wide = {name: BlockMatrix(v.block.double()) if isinstance(v, BlockMatrix) else v.double() for name, v in values.items()}
            weight = found.weight(layer.weight.double().mT, wide).mT.to(layer.weight.dtype).contiguous()
        made.weight, made.bias = nn.Parameter(weight, layer.weight.requires_grad), layer.bias
        made.rule, made.form, made.needed = rule, found.graph(values), found.needed
        for name in found.needed:
            value = values[name]
            made.register_buffer(f"value_of_{name}", value.block if isinstance(value, BlockMatrix) else value)
        return made.train(layer.training)

    def prepared(self, input: torch.Tensor) -> torch.Tensor:
        """Other operand of the product with the weight."""
        result: torch.Tensor = self.form(input, *(getattr(self, f"value_of_{name}") for name in self.needed))
        return result

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return super().forward(self.prepared(input))


def hadamard(size: int) -> torch.Tensor:
    """The symmetric matrix of ±1 whose square is `size` times the identity; a power of two (Sylvester's construction)."""
    made = torch.ones(1, 1)
    while len(made) < size:
        made = torch.cat((torch.cat((made, made), 1), torch.cat((made, -made), 1)))
    return made


def block_size(width: int) -> int:
    """The largest power of four that divides the width, up to a limit: the root of it divides a matrix of ±1 without a rounding."""
    size = 1
    while width % (4 * size) == 0 and 4 * size <= _LARGEST_BLOCK:
        size *= 4
    return size


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
        values: dict[str, ParameterValue] = {}
        if layer in reached:
            scales = _scales(reached[layer], layer.weight.detach().abs().amax(0))
            values |= {"s": scales[None]} if bool((scales != 1).any()) else {}
        size = block_size(layer.in_features) if is_rotated else 1
        if size > 1:
            values["h"] = BlockMatrix(hadamard(size).to(layer.weight) / math.isqrt(size))
        if values:
            path, _, own = name.rpartition(".")
            setattr(made.get_submodule(path), own, PreparedLinear.of(layer, _RULES[tuple(values)], values))
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

    def note(layer: nn.Module, given: torch.Tensor) -> None:
        sizes = given.detach().abs().reshape(-1, given.shape[-1]).amax(0)
        found[layer] = torch.maximum(found[layer], sizes) if layer in found else sizes

    input_statistics(model, layers, samples, note)
    return found


def input_statistics(
    model: nn.Module, layers: Sequence[nn.Module], samples: Sequence[Any], note: Callable[[nn.Module, torch.Tensor], None]
) -> None:
    """Runs the model on the samples, and gives `note` each of the layers with each of its inputs."""
    handles = [layer.register_forward_pre_hook(lambda layer, given: note(layer, given[0])) for layer in layers]
    try:
        with torch.no_grad():
            for sample in samples:
                args, kwargs = arguments_of(sample)
                model(*args, **kwargs)
    finally:
        for handle in handles:
            handle.remove()


def _scales(inputs: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """Powers of two near √(inputs / weights), relative to their middle, so that the whole is about as large as before."""
    known = (inputs > 0) & (weights > 0) & inputs.isfinite()
    logs = torch.where(known, 0.5 * (inputs.double().log2() - weights.double().log2()), 0.0)
    middle = logs[known].median() if bool(known.any()) else logs.new_zeros(())
    return torch.where(known, torch.exp2((logs - middle).round().clamp(-60, 60)), 1.0).to(inputs.dtype)
