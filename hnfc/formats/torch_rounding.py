"""Rounding as tensor operations: on any device, and under torch.compile."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from hnfc.dialects.formats import Block, Format, Overflow, Rounding, rounded
from hnfc.formats.granular import WITH_SCALES, Granular, rows_of
from hnfc.formats.named import format_named
from hnfc.formats.observers import granular_values
from hnfc.formats.torch_arrays import TORCH


def round_tensor(
    x: torch.Tensor, form: Format, how: Rounding, generator: np.random.Generator | torch.Generator | None, axis: int
) -> torch.Tensor:
    """`round_to` of a tensor; the generator is on its device. Gradients pass as `_Straight` says."""
    if x.dtype not in (torch.float64, torch.float32):
        raise TypeError(f"expected float64 or float32, but got {x.dtype}")
    uniform = None
    if how is Rounding.STOCHASTIC:
        if not isinstance(generator, torch.Generator):
            raise ValueError(f"expected a generator of torch, but got {type(generator).__name__}")
        uniform = torch.rand(x.shape, dtype=x.dtype, device=x.device, generator=generator)
    return _straight(x, uniform, form, how, axis)


def _along(x: torch.Tensor, uniform: torch.Tensor | None, form: Format, how: Rounding, axis: int | None) -> torch.Tensor:
    """The rounded tensor; the blocks of a format lie along an axis, or as `rows_of` says for None."""
    result: torch.Tensor
    if isinstance(form, Granular):
        return granular_values(x, form)
    if not isinstance(form, Block):
        result = rounded(x, form, how, TORCH, uniform)
        return result
    if axis is None:
        result = rounded(x.reshape(rows_of(x.shape, form.size)), form, how, TORCH, uniform)
        return result.reshape(x.shape)
    moved = None if uniform is None else uniform.movedim(axis, -1)
    result = rounded(x.movedim(axis, -1), form, how, TORCH, moved)
    return result.movedim(-1, axis)


def stored_values(x: torch.Tensor, form: Format) -> torch.Tensor:
    """x as the format stores it, in x's own type; blocks lie as `rows_of` says, so that none is shorter than it must be."""
    wide = x if x.dtype in (torch.float32, torch.float64) else x.float()
    return _straight(wide, None, form, Rounding.NEAREST, None).to(x.dtype)


class _Straight(torch.autograd.Function):
    """Rounding through which gradients pass unchanged (the straight-through estimator of Bengio and others 2013).

    They are 0 where a number lies beyond the largest of a format that saturates: the rounded value does not depend on it there.
    The scale of a block follows its largest element, and lets all pass.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(x: torch.Tensor, uniform: torch.Tensor | None, form: Format, how: Rounding, axis: int | None) -> torch.Tensor:
        return _along(x, uniform, form, how, axis)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
        ctx.form = inputs[2]
        ctx.save_for_backward(inputs[0])
        ctx.save_for_forward(inputs[0])

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None, None, None, None]:
        return _passed(gradient, ctx.saved_tensors[0], ctx.form), None, None, None, None


class _StraightForward(_Straight):
    """The same with a derivative in forward mode, which Dynamo does not trace."""

    generate_vmap_rule = True

    @staticmethod
    def jvp(ctx: Any, tangent: torch.Tensor, *_: Any) -> torch.Tensor:
        return _passed(tangent, ctx.saved_tensors[0], ctx.form)


def _passed(gradient: torch.Tensor, x: torch.Tensor, form: Format) -> torch.Tensor:
    """A gradient of the rounded value as one of x."""
    if isinstance(form, WITH_SCALES) or form.overflow is not Overflow.SATURATE:
        return gradient
    return torch.where((x > form.largest) | (x < form.lowest), torch.zeros_like(gradient), gradient)


def _straight(x: torch.Tensor, uniform: torch.Tensor | None, form: Format, how: Rounding, axis: int | None) -> torch.Tensor:
    chosen = _Straight if torch.compiler.is_compiling() else _StraightForward
    result: torch.Tensor = chosen.apply(x, uniform, form, how, axis)  # type: ignore[no-untyped-call]
    return result


_USUAL = (torch.float64, torch.float32, torch.float16, torch.bfloat16)


def cast_tensor(x: torch.Tensor, form: Format, dtype: torch.dtype | None) -> torch.Tensor:
    """x in the format; `dtype` is what torch has for it, if anything."""
    if not x.is_floating_point() or x.dtype == dtype:
        return x
    # torch goes from float64 through float32
    if dtype in _USUAL and not (x.dtype == torch.float64 and dtype.itemsize == 2):
        return x.to(dtype)
    wide = x if x.dtype == torch.float64 else x.float()
    if dtype is None:
        fits = form <= format_named("fp32")
        return round_tensor(x.double(), form, Rounding.NEAREST, None, -1).to(torch.float32 if fits else torch.float64)
    return round_tensor(wide, form, Rounding.NEAREST, None, -1).to(dtype)
