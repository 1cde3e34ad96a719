"""Weights of linear layers rounded with compensation of errors, by inputs at hand: GPTQ (Frantar and others 2023).

Columns are rounded one after another. What rounding one changes in the products with the inputs is taken back, as far as can be, by
changing the columns that are still to come.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from hnfc.formats.granular import Along, Granular
from hnfc.formats.observers import Stored, dequantized, quantized, quantized_column
from hnfc.formats.scaled import stored_format
from hnfc.precision.rewriting import PreparedLinear, input_statistics

_DAMPING = 0.01
"""Part of the mean square of the inputs that is added to that of each: columns that inputs do not tell apart stay as they are."""


def is_compensated(form: str) -> bool:
    found = stored_format(form)
    return isinstance(found, Granular) and found.compensated


def compensated_codes(model: nn.Module, formats: Mapping[str, str], samples: Sequence[Any]) -> dict[str, Stored]:
    """Codes of the weights of linear layers whose format compensates errors, by the names of parameters. Others have none."""
    layers = {f"{path}.weight" if path else "weight": module for path, module in model.named_modules() if isinstance(module, nn.Linear)}
    wanted = {name: layer for name, layer in layers.items() if name in formats and is_compensated(formats[name])}
    squares: dict[nn.Module, torch.Tensor] = {}

    def note(layer: nn.Module, given: torch.Tensor) -> None:
        x = layer.prepared(given) if isinstance(layer, PreparedLinear) else given
        rows = x.detach().double().reshape(-1, x.shape[-1])
        squares[layer] = squares.get(layer, torch.zeros((), dtype=torch.float64)) + rows.mT @ rows

    if wanted:
        input_statistics(model, list(wanted.values()), samples, note)
    found = {}
    for name, layer in wanted.items():
        form = stored_format(formats[name])
        assert isinstance(form, Granular)
        if layer in squares and bool(squares[layer].isfinite().all()):
            found[name] = compensated(layer.weight.detach().double(), form, squares[layer])
    return found


def compensated(weight: torch.Tensor, form: Granular, squares: torch.Tensor) -> Stored:
    """Codes, scales and zero points of a weight for inputs with these sums of products; as plain rounding has them where that is better."""
    plain = quantized(weight.float(), form)
    factor = _factor(squares)
    columns = weight.shape[-1]
    size = {Along.GROUP: form.size, Along.CHANNEL: columns, Along.TENSOR: columns}.get(form.along, columns)
    if factor is None or weight.ndim != 2 or columns % size:
        return plain
    rest, codes = weight.clone(), torch.zeros_like(weight)
    scales: list[torch.Tensor] = []
    zeros: list[torch.Tensor] = []
    by_row = replace(form, along=Along.TENSOR if form.along is Along.TENSOR else Along.CHANNEL, size=0)
    for start in range(0, columns, size):
        _, scale, zero = quantized(rest[:, start : start + size].float(), by_row)
        scales.append(scale)
        zeros += [] if zero is None else [zero]
        own_scale, own_zero = scale.expand(len(weight), 1)[:, 0], None if zero is None else zero.expand(len(weight), 1)[:, 0]
        for column in range(start, start + size):
            code = quantized_column(rest[:, column], own_scale, own_zero, form)
            codes[:, column] = code
            stored = (code if own_zero is None else code - own_zero) * own_scale.double()
            error = (rest[:, column] - stored) / factor[column, column]
            rest[:, column:] -= error[:, None] * factor[column, column:]
    shape = plain[0].shape
    own_zeros = torch.cat(zeros, 1).reshape(plain[1].shape) if zeros else None
    found = codes.float().reshape(shape), torch.cat(scales, 1).reshape(plain[1].shape), own_zeros
    return min((plain, found), key=lambda stored: _change(stored, weight, form, squares))


def _factor(squares: torch.Tensor) -> torch.Tensor | None:
    """The upper Cholesky factor of the inverse; None where there is none."""
    mean = float(squares.diagonal().mean())
    if mean <= 0:
        return None
    damped = squares + torch.eye(len(squares), dtype=squares.dtype) * _DAMPING * mean
    inverse, failed = torch.linalg.inv_ex(damped)
    found, wrong = torch.linalg.cholesky_ex(inverse, upper=True)
    return None if bool(failed) or bool(wrong) else found


def _change(stored: Stored, weight: torch.Tensor, form: Granular, squares: torch.Tensor) -> float:
    """Sum of the squares of what products with the inputs change by."""
    off = dequantized(stored, form, weight.shape, torch.float64) - weight
    return float(((off @ squares) * off).sum())
