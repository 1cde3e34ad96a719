"""Tensors that lie in memory in formats which torch has no type for: codes, and the scales of blocks."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, TypeAlias

import torch
from torch import fx
from torch.utils import _pytree as pytree

from hnfc.dialects.formats import Block, Fixed, Float, Format, Rounding, rounded
from hnfc.dialects.formats.values import finite_values
from hnfc.formats.granular import Granular, rows_of
from hnfc.formats.named import LIBRARY_NAMES
from hnfc.formats.observers import Stored, dequantized, quantized
from hnfc.formats.scaled import ceiling, split, stored_format
from hnfc.formats.torch_arrays import TORCH
from hnfc.formats.torch_rounding import stored_values

aten = torch.ops.aten
Part: TypeAlias = torch.Tensor | None
_PARTS = ("codes", "scales", "step", "zeros")
_SAME = (aten.detach.default, aten.clone.default, aten.alias.default, aten._to_copy.default)


class PackedTensor(torch.Tensor):
    """A tensor whose elements are computed from `codes` when they are needed; to torch it has the type and the shape of these.

    Gradients with respect to it are of the elements, so that they pass the rounding unchanged. It cannot be written to but by `copy_`,
    which rounds. codes: one for each element, or several in a byte. scales: one for each block, or none. step: that of the tensor.
    zeros: the zero point of each block, where there are any.
    """

    codes: torch.Tensor
    scales: Part
    step: Part
    zeros: Part
    form: str

    @staticmethod
    def __new__(
        cls, codes: torch.Tensor, scales: Part, step: Part, form: str, shape: Sequence[int], dtype: torch.dtype, zeros: Part = None
    ) -> PackedTensor:  # fmt: skip
        made: PackedTensor = torch.Tensor._make_wrapper_subclass(cls, tuple(shape), dtype=dtype, device=codes.device)
        return made

    def __init__(
        self, codes: torch.Tensor, scales: Part, step: Part, form: str, shape: Sequence[int], dtype: torch.dtype, zeros: Part = None
    ) -> None:  # fmt: skip
        self.codes, self.scales, self.step, self.zeros, self.form = codes, scales, step, zeros, form

    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    def parts(self) -> list[torch.Tensor]:
        """The tensors that take the memory."""
        return [t for t in (self.codes, self.scales, self.step, self.zeros) if t is not None]

    def dense(self, dtype: torch.dtype | None = None) -> torch.Tensor:
        """The elements, in the tensor's own type or in another that holds them."""
        wide = dtype or self.dtype
        base, exponent = split(self.form)
        stored = stored_format(self.form)
        if isinstance(stored, Granular):
            return dequantized(self.parts_of(stored), stored, self.shape, wide)
        if isinstance(stored, Block):
            count, length = rows_of(self.shape, stored.size)
            codes = self.codes if _bits(stored) == 8 else _spread(self.codes, _bits(stored), self._columns(stored))
            blocks = _elements(codes, stored.element).reshape(count, -1, stored.size)
            result = (blocks * self._block_scales(stored)[..., None]).reshape(count, -1)[:, :length]
            return result.to(wide).reshape(self.shape)
        if (own := _dtype_of(base)) is not None:
            values = _as(self.codes, own).to(wide)
            return values * 2.0**exponent if exponent else values
        codes = self.codes if _bits(stored) >= 8 else _spread(self.codes, _bits(stored), self.numel()).reshape(self.shape)
        values = _elements(codes, stored)
        step = (stored.scale if isinstance(stored, Fixed) else 1.0) * 2.0**exponent
        # a step that float32 rounds would be rounded twice
        return (values if struct.unpack("f", struct.pack("f", step))[0] == step else values.double()).mul(step).to(wide)

    def parts_of(self, stored: Granular) -> Stored:
        """Whole numbers or values of the element by groups, their scales and zero points."""
        assert self.scales is not None
        rows, length, size = stored.rows(self.shape)
        groups, element = math.ceil(length / size), stored.element
        codes = self.codes if stored.bits == 8 else _spread(self.codes, stored.bits, rows * groups * size)
        if isinstance(element, Fixed):
            values = codes if stored.bits == 8 else codes.to(torch.int8) + element.low
        else:
            values = _elements(codes, element)
        return values.reshape(rows, groups, size), self.scales, self.zeros

    def _columns(self, stored: Block) -> int:
        count, length = rows_of(self.shape, stored.size)
        return count * math.ceil(length / stored.size) * stored.size

    def _block_scales(self, stored: Block) -> torch.Tensor:
        assert self.scales is not None
        if stored.has_exponent_scale:
            # a code is the exponent, from 0
            ones = torch.ones((), dtype=torch.float64, device=self.device)
            found = TORCH.times_power(ones, self.scales.long() + stored.scale.emin).to(torch.float32)
        else:
            found = _as(self.scales, _dtype_of(stored.scale.name)).to(torch.float64 if self.step is not None else torch.float32)
            found = found if self.step is None else found * self.step
        step = stored.element.scale if isinstance(stored.element, Fixed) else 1.0
        result: torch.Tensor = found if step == 1 else found * step
        return result

    def share_memory_(self) -> PackedTensor:
        """Moves the parts to memory that other processes share; torch's own would look for a storage."""
        for part in self.parts():
            part.share_memory_()  # type: ignore[no-untyped-call]
        return self

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        return f"PackedTensor({self.form}, {self.dense()!r})"

    def __tensor_flatten__(self) -> tuple[list[str], tuple[Any, ...]]:
        return [name for name in _PARTS if getattr(self, name) is not None], (self.form, self.dtype)

    @staticmethod
    def __tensor_unflatten__(parts: dict[str, torch.Tensor], context: tuple[Any, ...], size: Any, stride: Any) -> PackedTensor:
        others = parts.get("scales"), parts.get("step")
        return PackedTensor(parts["codes"], *others, context[0], size, context[1], parts.get("zeros"))

    def _like(self, change: Callable[[torch.Tensor], torch.Tensor]) -> PackedTensor:
        scales, step, zeros = (None if t is None else change(t) for t in (self.scales, self.step, self.zeros))
        return PackedTensor(change(self.codes), scales, step, self.form, self.shape, self.dtype, zeros)

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        keywords = dict(kwargs or {})
        if function in _SAME and isinstance(args[0], PackedTensor) and keywords.get("dtype") in (None, args[0].dtype):
            others = {name: value for name, value in keywords.items() if name not in ("dtype", "memory_format", "layout")}
            return args[0]._like(lambda t: function(t, *args[1:], **others))
        if function is aten.copy_.default and isinstance(args[0], PackedTensor):
            return args[0]._take(args[1])
        if function._schema.is_mutable and isinstance(args[0], PackedTensor):
            name = function._schema.name.rpartition("::")[2]
            raise TypeError(f"a parameter stored in {args[0].form} cannot be changed in place by {name}: train with apply(train=True)")
        dense = pytree.tree_map_only(PackedTensor, lambda t: t.dense(), (args, keywords))
        return function(*dense[0], **dense[1])

    def _take(self, other: torch.Tensor) -> PackedTensor:
        new = packed(other.dense() if isinstance(other, PackedTensor) else other.to(self.dtype), self.form)
        for mine, theirs in zip(self.parts(), new.parts(), strict=True):
            mine.copy_(theirs)
        return self


torch.serialization.add_safe_globals([PackedTensor])


def packed(x: torch.Tensor, form: str) -> PackedTensor:
    """The tensor with its elements rounded to the format, and stored as codes of it."""
    base, exponent = split(form)
    most = ceiling(form)
    x = x.detach()
    wide = x if x.dtype in (torch.float32, torch.float64) else x.float()
    wide = wide if most is None else wide.clamp(-most, most)
    stored, scaled = stored_format(form), wide * 2.0**-exponent
    if isinstance(stored, Granular):
        return packed_codes(quantized(scaled, stored), form, x.shape, x.dtype)
    if isinstance(stored, Block):
        return PackedTensor(*_blocks(scaled, stored), form, x.shape, x.dtype)
    own = _dtype_of(base)
    if own is not None:
        codes = _bytes_of(stored_values(scaled, stored).to(own))
    else:
        codes = _codes(stored_values(scaled, stored), stored)
        codes = codes if _bits(stored) >= 8 else _joined(codes.reshape(-1), _bits(stored))
    return PackedTensor(codes, None, None, form, x.shape, x.dtype)


def packed_codes(found: Stored, form: str, shape: Sequence[int], dtype: torch.dtype) -> PackedTensor:
    """The packed tensor of a granular format with these codes, scales and zero points."""
    values, scales, zeros = found
    stored = stored_format(form)
    assert isinstance(stored, Granular)
    element = stored.element
    if isinstance(element, Float):
        codes = _codes(values, element)
    elif stored.bits == 8:
        codes = values.to(torch.uint8 if stored.zero else torch.int8)
    else:
        codes = (values - element.low).to(torch.uint8)
    codes = codes.flatten(1) if stored.bits == 8 else _joined(codes.reshape(-1), stored.bits)
    return PackedTensor(codes, scales, None, form, shape, dtype, None if zeros is None else zeros.to(torch.uint8))


def is_packable(form: str) -> bool:
    """Return whether the codes of the format take fewer bits than float32, and are known one by one."""
    stored = stored_format(form)
    if isinstance(stored, Granular):
        return True
    if isinstance(stored, Block):
        return _bits(stored) <= 8 and (stored.has_exponent_scale or _dtype_of(stored.scale.name) is not None)
    return _dtype_of(split(form)[0]) is not None or _bits(stored) <= 16


class _Unpacked(torch.autograd.Function):
    """Elements of a packed tensor; a gradient of them is one of it."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        ctx.dtype = x.dtype
        return x.dense(dtype) if isinstance(x, PackedTensor) else x.to(dtype, copy=True)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        return gradient.to(ctx.dtype), None


def unpacked(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The elements of a packed tensor in a type that holds them."""
    if isinstance(x, fx.Proxy):
        # a graph is traced when it is unpickled
        return x.tracer.create_proxy("call_function", unpacked, (x, dtype), {})
    result: torch.Tensor = _Unpacked.apply(x, dtype)  # type: ignore[no-untyped-call]
    return result


def _bits(stored: Format) -> int:
    return stored.element.bits if isinstance(stored, Block) else stored.bits


@cache
def _dtype_of(name: str) -> torch.dtype | None:
    """Type of torch with these values."""
    found = getattr(torch, LIBRARY_NAMES.get(name, ""), None)
    return found if isinstance(found, torch.dtype) else None


def _blocks(x: torch.Tensor, form: Block) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
    """Codes, scales, and the scale of the whole tensor, as rounding finds them."""
    blocks = TORCH.in_blocks(x.reshape(rows_of(x.shape, form.size)).double(), form.size)
    greatest, step = blocks.abs().amax(-1, keepdim=True), None
    if form.has_exponent_scale:
        exponents = (TORCH.exponents(greatest) - form.element_exponent).clamp(form.scale.emin, form.scale.emax)
        scales, shared = (exponents - form.scale.emin).to(torch.uint8), TORCH.times_power(torch.ones_like(greatest), exponents)
    else:
        ratio = greatest / form.element.largest
        if form.tensor_scale is not None:
            step = _rounded(TORCH.greatest_of_all(x.double().abs()) / (form.element.largest * form.scale.largest), form.tensor_scale)
            step = torch.where(step == 0, 1.0, step).float()
            ratio = ratio / step
        scales = _rounded(ratio, form.scale).clamp(form.scale.lowest, form.scale.largest)
        shared = scales if step is None else scales * step
        scales = _bytes_of(scales.to(_dtype_of(form.scale.name)))
    elements = _rounded(blocks / torch.where(shared == 0, 1.0, shared), form.element)
    codes = _codes(elements, form.element)
    bits = _bits(form)
    return codes.flatten(1) if bits == 8 else _joined(codes.reshape(-1), bits), scales.squeeze(-1), step


def _rounded(x: torch.Tensor, form: Format) -> torch.Tensor:
    result: torch.Tensor = rounded(x, form, Rounding.NEAREST, TORCH)
    return result


def _codes(values: torch.Tensor, form: Format) -> torch.Tensor:
    """Values of the format as codes: those of torch's type, steps, or places among all values in order."""
    own = _dtype_of(form.name)
    if own is not None:
        return _bytes_of(values.to(own))
    if isinstance(form, Fixed):
        places = (values / form.scale).round() - (form.low - form.zero_point)
    else:
        places = torch.searchsorted(torch.from_numpy(finite_values(form)).to(values.device), values.double().contiguous())
    if form.bits < 8:
        return places.to(torch.uint8)
    return (places - _middle(form)).to(torch.int8 if form.bits == 8 else torch.int16)


def _middle(form: Format) -> int:
    """Place whose code is 0, in codes with a sign: of numbers with a fixed step their zero, where it has a code."""
    zero = form.zero_point - form.low if isinstance(form, Fixed) else 1 << (form.bits - 1)
    return zero if zero in (1 << (form.bits - 1), (1 << (form.bits - 1)) - 1) else 1 << (form.bits - 1)


def _elements(codes: torch.Tensor, form: Format) -> torch.Tensor:
    """Values of codes, of numbers with a fixed step in steps."""
    if (own := _dtype_of(form.name)) is not None:
        return _as(codes, own).float()
    if isinstance(form, Fixed):
        first = form.low - form.zero_point + (_middle(form) if form.bits >= 8 else 0)
        return codes if first == 0 else codes.float() + first
    return torch.tensor(_values(form), device=codes.device)[codes.int() + (_middle(form) if form.bits >= 8 else 0)]


def _bytes_of(values: torch.Tensor) -> torch.Tensor:
    """The same bytes as integers: pickle, and much of torch, knows no type of 8 bits but these."""
    return values.view(torch.uint8) if values.dtype.itemsize == 1 else values


def _as(codes: torch.Tensor, dtype: torch.dtype | None) -> torch.Tensor:
    return codes if dtype is None else codes.view(dtype)


def _joined(codes: torch.Tensor, bits: int) -> torch.Tensor:
    """Codes without a sign, 8 of them in `bits` bytes."""
    if bits == 4 and codes.numel() % 8 == 0:
        low, high = codes.reshape(-1, 2).unbind(1)
        return (low | high << 4).reshape(-1, 4)
    rows = torch.nn.functional.pad(codes, (0, -codes.numel() % 8)).reshape(-1, 8).long()
    words = (rows << torch.arange(0, 8 * bits, bits, device=codes.device)).sum(-1, keepdim=True)
    return ((words >> torch.arange(0, 8 * bits, 8, device=codes.device)) & 255).to(torch.uint8)


def _spread(joined: torch.Tensor, bits: int, count: int) -> torch.Tensor:
    """The first of them, one in each byte."""
    if bits == 4:
        return torch.stack((joined & 15, joined >> 4), -1).reshape(-1)[:count]
    words = (joined.long() << torch.arange(0, 8 * bits, 8, device=joined.device)).sum(-1, keepdim=True)
    codes = (words >> torch.arange(0, 8 * bits, bits, device=joined.device)) & ((1 << bits) - 1)
    return codes.to(torch.uint8).reshape(-1)[:count]


@cache
def _values(form: Format) -> tuple[float, ...]:
    return tuple(finite_values(form).tolist())
