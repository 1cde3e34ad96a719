"""`round_to` on arrays of NumPy and tensors of torch; torch is loaded by whoever made the tensor."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from hnfc.dialects.formats import NUMPY, Block, Format, Rounding, rounded
from hnfc.formats.granular import Granular
from hnfc.formats.named import format_named

if TYPE_CHECKING:
    import torch

Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"


def round_to(
    x: Any,
    format: str | Format,
    rounding: str | Rounding = Rounding.NEAREST,
    *,
    generator: np.random.Generator | torch.Generator | None = None,
    axis: int = -1,
) -> Any:
    """Each element of x as a value of the format, in the element type of x, which is float64 or float32.

    x: an array, a number (a float64), or a tensor on any device; also under torch.compile. rounding: `nearest` (ties to even),
    `toward_zero`, or `stochastic` with a generator of the same library. Blocks lie along `axis`.
    Numbers beyond the largest become what the format says; NaN stays NaN. An element type that cannot hold the result rounds it again.
    Raises TypeError for other element types, UnknownFormat (a ValueError), and ValueError for a rounding without what it needs.
    """
    form, how = format_named(format), Rounding(rounding)
    if how is Rounding.STOCHASTIC and generator is None:
        raise ValueError("stochastic rounding needs a generator: np.random.default_rng(seed), or torch.Generator().manual_seed(seed)")
    if (torch := sys.modules.get("torch")) is not None and isinstance(x, torch.Tensor):
        from hnfc.formats.torch_rounding import round_tensor

        _check_axes(x.ndim, form)
        return round_tensor(x, form, how, generator, axis)
    array = np.asarray(x)
    if array.dtype not in (np.float64, np.float32):
        raise TypeError(f"expected float64 or float32, but got {array.dtype}")
    if isinstance(form, Granular):
        raise TypeError(f"{form} is a format of tensors: give a tensor of torch, as torch.from_numpy makes of an array")
    _check_axes(array.ndim, form)
    if how is not Rounding.STOCHASTIC:
        return _round_array(array, form, how, None, axis)
    if not isinstance(generator, np.random.Generator):
        raise ValueError(f"expected a generator of NumPy, but got {type(generator).__name__}")
    return _round_array(array, form, how, generator.random(array.shape, dtype=array.dtype.type), axis)


def _check_axes(count: int, form: Format) -> None:
    if count == 0 and isinstance(form, Block):
        raise ValueError(f"the blocks of {form} lie along an axis, but a single number has none")


PIECE = 1 << 16
"""Elements that are rounded at a time: what is computed between stays in the cache, and takes no memory worth counting."""


def _round_array(array: Array, form: Format, how: Rounding, uniform: Array | None, axis: int) -> Array:
    with np.errstate(all="ignore"):
        if isinstance(form, Block):
            draws = None if uniform is None else np.moveaxis(uniform, axis, -1)
            return np.moveaxis(rounded(np.moveaxis(array, axis, -1), form, how, NUMPY, draws), -1, axis)
        flat = np.ascontiguousarray(array).reshape(-1)
        draws = None if uniform is None else uniform.reshape(-1)
        result = np.empty_like(flat)
        for start in range(0, flat.size, PIECE):
            piece = slice(start, start + PIECE)
            result[piece] = rounded(flat[piece], form, how, NUMPY, None if draws is None else draws[piece])
        return result.reshape(array.shape)
