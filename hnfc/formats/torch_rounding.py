"""Rounding as tensor operations: on any device, and under torch.compile."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from hnfc.dialects.formats import Arrays, Block, Format, Overflow, Rounding, rounded
from hnfc.formats.named import format_named
from hnfc.formats.scaled import rows_of


class _Torch:
    def is_single(self, x: Any) -> bool:
        return bool(x.dtype == torch.float32)

    def double(self, x: Any) -> Any:
        return x.double()

    def like(self, x: Any, other: Any) -> Any:
        return x.to(other.dtype)

    def exponents(self, x: Any) -> Any:
        if x.dtype == torch.float32:
            return ((x.view(torch.int32) >> 23) & 0xFF) - 127
        return ((x.view(torch.int64) >> 52) & 0x7FF) - 1023

    def times_power(self, x: Any, exponents: Any) -> Any:
        half = exponents >> 1
        return x * self._power(half, x) * self._power(exponents - half, x)

    @staticmethod
    def _power(exponents: Any, like: Any) -> Any:
        if like.dtype == torch.float32:
            return ((exponents + 127) << 23).view(torch.float32)
        return ((exponents + 1023) << 52).view(torch.float64)

    clip = staticmethod(torch.clamp)
    abs = staticmethod(torch.abs)
    floor = staticmethod(torch.floor)
    rint = staticmethod(torch.round)

    def where(self, condition: Any, x: Any, y: Any) -> Any:
        return torch.where(condition, x, y)

    def copysign(self, x: Any, sign: Any) -> Any:
        return torch.copysign(x, sign)

    def remainder(self, x: Any, y: float) -> Any:
        return torch.remainder(x, y)

    def greatest(self, x: Any) -> Any:
        return torch.amax(x, dim=-1, keepdim=True)

    def greatest_of_all(self, x: Any) -> Any:
        return torch.amax(x) if x.numel() else x.new_zeros(())

    def in_blocks(self, x: Any, size: int) -> Any:
        filled = torch.nn.functional.pad(x, (0, -x.shape[-1] % size))
        return filled.reshape(*x.shape[:-1], filled.shape[-1] // size, size)

    def out_of_blocks(self, x: Any, length: int) -> Any:
        return x.reshape(*x.shape[:-2], x.shape[-2] * x.shape[-1])[..., :length]


TORCH: Arrays = _Torch()


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
    if isinstance(form, Block) or form.overflow is not Overflow.SATURATE:
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
