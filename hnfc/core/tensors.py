"""torch tensors as NumPy arrays of the same memory and back, narrow floats included."""

from __future__ import annotations

from typing import Any, TypeAlias

import ml_dtypes
import numpy as np
import torch

Array: TypeAlias = "np.ndarray[Any, Any]"
_NARROW = {
    torch.bfloat16: np.dtype(ml_dtypes.bfloat16),
    torch.float8_e4m3fn: np.dtype(ml_dtypes.float8_e4m3fn),
    torch.float8_e5m2: np.dtype(ml_dtypes.float8_e5m2),
    torch.float8_e4m3fnuz: np.dtype(ml_dtypes.float8_e4m3fnuz),
    torch.float8_e5m2fnuz: np.dtype(ml_dtypes.float8_e5m2fnuz),
}
"""Formats that torch and ml_dtypes have, and NumPy by itself does not."""
_OF_ARRAYS = {dtype: kind for kind, dtype in _NARROW.items()}


def to_numpy(tensor: Any) -> Array:
    """The elements, without a copy where they lie in the CPU's memory; a number becomes an array of rank 0."""
    if not isinstance(tensor, torch.Tensor):
        return np.asarray(tensor)
    tensor = tensor.detach().cpu()
    if tensor._is_zerotensor():  # a gradient that is 0 everywhere, which has no memory
        tensor = torch.zeros(tensor.shape, dtype=tensor.dtype)
    if tensor.dtype in _NARROW:
        same_size = torch.int16 if tensor.element_size() == 2 else torch.uint8
        return np.asarray(tensor.contiguous().view(same_size).numpy().view(_NARROW[tensor.dtype]))
    return np.asarray(tensor.resolve_conj().resolve_neg().numpy())


def to_torch(array: Array) -> torch.Tensor:
    """The elements as a tensor with memory of its own."""
    return shared_with_torch(np.array(array, order="C"))


def shared_with_torch(array: Array) -> torch.Tensor:
    """The elements as a tensor in the same memory, which must not be written to; a copy where torch cannot read them as they lie."""
    if not array.flags.writeable or not array.flags.c_contiguous:
        array = np.array(array, order="C")
    narrow = _OF_ARRAYS.get(array.dtype)
    if narrow is None:
        return torch.from_numpy(array)
    return torch.from_numpy(array.view(f"i{array.dtype.itemsize}")).view(narrow)
