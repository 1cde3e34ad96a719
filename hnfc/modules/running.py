"""A function of the torch dialect run by torch on NumPy arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np
import torch
from torch_mlir import ir

from hnfc.backend.fx import raise_function
from hnfc.errors import ModelError
from hnfc.modules.tensors import to_numpy

Array: TypeAlias = "np.ndarray[Any, Any]"
_NARROW = {
    np.dtype(ml_dtypes.bfloat16): torch.bfloat16,
    np.dtype(ml_dtypes.float8_e4m3fn): torch.float8_e4m3fn,
    np.dtype(ml_dtypes.float8_e5m2): torch.float8_e5m2,
    np.dtype(ml_dtypes.float8_e4m3fnuz): torch.float8_e4m3fnuz,
    np.dtype(ml_dtypes.float8_e5m2fnuz): torch.float8_e5m2fnuz,
}


def on_torch(module: ir.Module, function: str) -> Callable[[Sequence[Array]], list[Array]]:
    """The function as one of arrays; later changes of the module do not reach it. Raises ModelError where torch lacks an operation."""
    graph = raise_function(module, function)

    def run(inputs: Sequence[Array]) -> list[Array]:
        try:
            with torch.no_grad():
                results = graph(*(to_torch(array) for array in inputs))
        except (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError) as error:
            raise ModelError(f"torch cannot run `{function}`: {str(error).splitlines()[0]}") from error
        return [to_numpy(result) for result in results]

    return run


def to_torch(array: Array) -> torch.Tensor:
    """The array as a tensor of its own memory; torch reads narrow floats from their bits."""
    array = np.array(array, order="C")
    narrow = _NARROW.get(array.dtype)
    if narrow is None:
        return torch.from_numpy(array)
    return torch.from_numpy(array.view(f"i{array.dtype.itemsize}")).view(narrow)
