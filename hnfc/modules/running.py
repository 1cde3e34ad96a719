"""A function of the torch dialect run by torch on NumPy arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from torch_mlir import ir

from hnfc.backend.fx import raise_function
from hnfc.errors import ModelError
from hnfc.modules.tensors import to_numpy, to_torch

Array: TypeAlias = "np.ndarray[Any, Any]"


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
