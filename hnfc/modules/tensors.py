"""torch tensors as NumPy arrays of the same memory, narrow floats included."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import torch

_NARROW = {
    torch.bfloat16: (torch.int16, ml_dtypes.bfloat16),
    torch.float8_e4m3fn: (torch.uint8, ml_dtypes.float8_e4m3fn),
    torch.float8_e5m2: (torch.uint8, ml_dtypes.float8_e5m2),
    torch.float8_e4m3fnuz: (torch.uint8, ml_dtypes.float8_e4m3fnuz),
    torch.float8_e5m2fnuz: (torch.uint8, ml_dtypes.float8_e5m2fnuz),
}


def to_numpy(tensor: Any) -> np.ndarray[Any, Any]:
    """The elements, without a copy where they lie in the CPU's memory; a number becomes an array of rank 0."""
    if not isinstance(tensor, torch.Tensor):
        return np.asarray(tensor)
    tensor = tensor.detach().cpu()
    if tensor.dtype in _NARROW:
        same_size, dtype = _NARROW[tensor.dtype]
        return np.asarray(tensor.contiguous().view(same_size).numpy().view(dtype))
    return np.asarray(tensor.resolve_conj().resolve_neg().numpy())
