"""Codes, scales and zero points of granular formats: what observers find on a tensor."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TypeAlias

import torch

from hnfc.dialects.formats import Fixed, Float, Rounding, rounded
from hnfc.formats.granular import Granular
from hnfc.formats.torch_arrays import TORCH

Stored: TypeAlias = tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]
"""Codes by rows, as whole numbers or values of the element; the scale of each group; its zero point."""
_CLIPS = tuple(1 - step / 40 for step in range(24))
"""Parts of the whole range that the least square error is looked for among."""


def quantized(x: torch.Tensor, form: Granular) -> Stored:
    """The elements of a tensor of float32 or float64 in a granular format."""
    groups = _groups(x, form)
    if not groups.numel():
        return groups, groups.new_zeros(groups.shape[:2]), None
    if form.observer == "mse":
        return _of_least_error(groups, form)
    return _in_range(groups, *_range(groups, form), form)


def quantized_column(x: torch.Tensor, scale: torch.Tensor, zero: torch.Tensor | None, form: Granular) -> torch.Tensor:
    """Codes of one element for each row, with the scale and the zero point of its row."""
    return _codes(x / torch.where(scale == 0, 1.0, scale.to(x.dtype)), zero, form.element)


def dequantized(stored: Stored, form: Granular, shape: torch.Size, dtype: torch.dtype) -> torch.Tensor:
    """The reverse, in a type that float32 numbers are rounded to."""
    codes, scale, zero = stored
    wide = codes if zero is None else codes - zero[..., None].float()
    _, length, _ = form.rows(shape)
    result: torch.Tensor = (wide * scale[..., None].float()).flatten(1)[:, :length]
    return result.to(dtype).reshape(shape)


def granular_values(x: torch.Tensor, form: Granular) -> torch.Tensor:
    """x as the format stores it, in its own type."""
    return dequantized(quantized(x, form), form, x.shape, x.dtype)


def _groups(x: torch.Tensor, form: Granular) -> torch.Tensor:
    rows, length, size = form.rows(x.shape)
    return TORCH.in_blocks(x.reshape(rows, length), size)  # type: ignore[no-any-return]


def _range(groups: torch.Tensor, form: Granular) -> tuple[torch.Tensor, torch.Tensor]:
    """The least and the greatest number that each group must hold, with 0 between them."""
    if form.observer == "extreme":
        place = groups.abs().argmax(-1, keepdim=True)
        extreme = groups.gather(-1, place).squeeze(-1)
        return extreme, extreme
    left_out = math.floor(groups.shape[-1] * (1 - form.percentile / 100))
    if not form.zero:
        sizes = groups.abs()
        most = sizes.amax(-1) if not left_out else sizes.kthvalue(sizes.shape[-1] - left_out, dim=-1).values
        return -most, most
    if left_out:
        half = max(left_out // 2, 1)
        low, high = groups.kthvalue(1 + half, dim=-1).values, groups.kthvalue(groups.shape[-1] - half, dim=-1).values
    else:
        low, high = groups.amin(-1), groups.amax(-1)
    return low.clamp(max=0), high.clamp(min=0)


def _in_range(groups: torch.Tensor, low: torch.Tensor, high: torch.Tensor, form: Granular) -> Stored:
    element = form.element
    if form.observer == "extreme":
        assert isinstance(element, Fixed)
        scale, zero = high / element.low, None
    elif form.zero:
        assert isinstance(element, Fixed)
        scale, zero = (high - low) / (element.high - element.low), None
    else:
        # the greatest element may be half a step beyond the last code
        scale, zero = high / ((element.high - element.low) / 2 if isinstance(element, Fixed) else element.largest), None
    scale = _as_stored(scale, form.scale)
    divisor = torch.where(scale == 0, 1.0, scale.to(groups.dtype))
    if form.zero:
        assert isinstance(element, Fixed)
        zero = (-low / divisor).round().clamp(element.low, element.high)
    return _codes(groups / divisor[..., None], zero, element), scale, zero


def _codes(steps: torch.Tensor, zero: torch.Tensor | None, element: Fixed | Float) -> torch.Tensor:
    if isinstance(element, Fixed):
        whole = steps.round() if zero is None else steps.round() + (zero if zero.ndim == steps.ndim else zero[..., None])
        # NaN stays one: it has no code, and no tensor with one is stored
        return whole.clamp(element.low, element.high)
    result: torch.Tensor = rounded(steps.clamp(element.lowest, element.largest), element, Rounding.NEAREST, TORCH)
    return result


def _as_stored(scale: torch.Tensor, form: Float) -> torch.Tensor:
    """A scale in its type; one that is no number makes the whole group none."""
    return scale.to({"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}[form.name])


def _clipped(groups: torch.Tensor, form: Granular) -> Iterator[Stored]:
    low, high = _range(groups, form)
    for part in _CLIPS:
        yield _in_range(groups, low * part, high * part, form)


def _of_least_error(groups: torch.Tensor, form: Granular) -> Stored:
    """Of ranges that are clipped the one with the least square error, for each group."""
    best: Stored | None = None
    least = groups.new_full(groups.shape[:2], math.inf)
    for codes, scale, zero in _clipped(groups, form):
        wide = codes if zero is None else codes - zero[..., None]
        error = (wide * scale[..., None].to(wide.dtype) - groups).square().sum(-1)
        if best is None:
            best, least = (codes, scale, zero), error
            continue
        better = error < least
        least = torch.where(better, error, least)
        best = (
            torch.where(better[..., None], codes, best[0]), torch.where(better, scale, best[1]),
            None if zero is None or best[2] is None else torch.where(better, zero, best[2]),
        )  # fmt: skip
    assert best is not None
    return best
