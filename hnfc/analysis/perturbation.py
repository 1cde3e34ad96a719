"""Perturbation of the outputs, to first order, by rounding one value: its derivative times the rounding errors."""

from __future__ import annotations

import math

import torch

from hnfc.formats.granular import WITH_SCALES
from hnfc.formats.named import format_named
from hnfc.formats.scaled import MASK, largest, saturated_name
from hnfc.formats.torch_rounding import stored_values

NATIVE = {"fp64": torch.float64, "fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
"""The formats that torch computes in."""
_LARGEST = torch.finfo(torch.float32).max
_MOST_ROUNDED = 2**20
"""Of a longer value a part of the elements is rounded, and the rest taken to be like it."""


def moved_square(tensor: torch.Tensor, gradient: torch.Tensor | None, form: str) -> tuple[float, bool]:
    """Σ (gradient·(round(x) - x))², infinite where a finite element has no finite value in the format; and whether one becomes 0."""
    if not tensor.numel():
        return 0.0, False
    step = -(-tensor.numel() // _MOST_ROUNDED)
    x = tensor.reshape(-1)[::step]
    dtype = NATIVE.get(form)
    if dtype is not None:
        rounded = x.to(dtype).to(x.dtype)
    else:
        # blocks are not cut into parts
        stored = format_named(form)
        rounded = stored_values(tensor, stored).reshape(-1)[::step] if isinstance(stored, WITH_SCALES) else stored_values(x, stored)
    away = rounded - x
    # what is 0 stays 0
    vanishes = bool(torch.count_nonzero(rounded) < torch.count_nonzero(x))
    part = None if gradient is None else gradient.reshape(-1)[::step]
    if part is not None and (quick := _quick_square_sum(part * away)):
        return quick * step, vanishes
    finite = torch.isfinite(x)
    if not bool(torch.isfinite(away[finite]).all()):
        return math.inf, vanishes
    if part is None:
        return 0.0, vanishes
    return square_sum(part * torch.where(finite, away, torch.zeros_like(away))) * step, vanishes


def moved_square_saturated(tensor: torch.Tensor, gradient: torch.Tensor | None, form: str) -> float:
    """The same where the format saturates: infinite where this would change a number that is no mask, or that moves the outputs."""
    beyond = torch.isfinite(tensor) & (tensor.abs() > largest(saturated_name(form)))
    moves = torch.zeros_like(beyond) if gradient is None else gradient != 0
    if bool((beyond & ((tensor.abs() < MASK) | moves)).any()):
        return math.inf
    return moved_square(torch.where(beyond, torch.zeros_like(tensor), tensor), gradient, form)[0]


def without_lowest(tensor: torch.Tensor, magnitude: float) -> torch.Tensor:
    """0 in place of the lowest and the greatest number of float32 or of the tensor's type: they stand for infinity, and have no errors. In
    a row of nothing but these, which a softmax makes equal, derivatives are not 0, and times such numbers beyond all others."""
    if magnitude < _LARGEST:
        return tensor
    sizes = tensor.abs()
    return torch.where((sizes == _LARGEST) | (sizes == torch.finfo(tensor.dtype).max), torch.zeros_like(tensor), tensor)


def least(tensor: torch.Tensor) -> float:
    sizes = tensor.abs()
    return float(torch.where(sizes == 0, math.inf, sizes).amin())


def square_sum(tensor: torch.Tensor) -> float:
    """Σ x² of the finite elements, in the tensor's own format if that can hold it."""
    return _quick_square_sum(tensor) or float(tensor.double().nan_to_num(0.0, 0.0, 0.0).square().sum())


def _quick_square_sum(tensor: torch.Tensor) -> float:
    """Σ x² in the tensor's own format; 0 where that may not hold it, or an element is not finite."""
    quick = float(torch.linalg.vector_norm(tensor)) ** 2 if tensor.dtype in (torch.float32, torch.float64) else 0.0
    return quick if 1e-30 < quick < 1e30 else 0.0
