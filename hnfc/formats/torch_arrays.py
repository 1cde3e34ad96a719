"""The operations of rounding on tensors of torch."""

from __future__ import annotations

from typing import Any

import torch

from hnfc.dialects.formats import Arrays


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
