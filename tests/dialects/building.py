"""One operation as a module, and arrays as torch tensors and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
import torch
from xdsl.dialects.builtin import FunctionType, ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, Region

from hnfc.dialects.num import OPERATIONS
from hnfc.dialects.num.rounding import NUMPY_TYPES
from hnfc.dialects.types import tensor

ELEMENTS = {np.dtype(kind): name for name, kind in NUMPY_TYPES.items()}
DTYPES = {"f64": torch.float64, "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}


def operation(name: str, arrays: Sequence[Any], attributes: dict[str, Any]) -> tuple[ModuleOp, Operation]:
    """A module whose function `main` is the operation, and the operation."""
    types = [tensor(ELEMENTS[np.asarray(array).dtype], np.shape(array)) for array in arrays]
    block = Block(arg_types=types)
    made = OPERATIONS[name].make(*block.args, **attributes)
    block.add_ops([made, ReturnOp(*made.results)])
    kind = FunctionType.from_lists(types, [result.type for result in made.results])
    return ModuleOp([FuncOp("main", kind, Region(block))]), made


def to_torch(array: Any) -> torch.Tensor:
    values = np.ascontiguousarray(array)
    values = values.reshape(np.shape(array))
    if values.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(values.view(np.int16).copy()).view(torch.bfloat16)
    return torch.from_numpy(values.copy())


def to_numpy(value: torch.Tensor) -> np.ndarray[Any, Any]:
    if value.dtype == torch.bfloat16:
        return value.contiguous().view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return value.detach().numpy()


def flat(results: Any) -> list[Any]:
    return list(results) if isinstance(results, list | tuple) else [results]


def doubles(array: Any) -> np.ndarray[Any, Any]:
    return np.asarray(array).astype(np.float64)


def assert_close(got: Any, expected: Any, unit: float, slack: float, scale: float | None = None) -> None:
    """Equal shapes; NaN and inf in the same places; else within slack·unit of `scale`, by default the largest expected value."""
    a, b = doubles(got), doubles(expected)
    assert a.shape == b.shape
    np.testing.assert_array_equal(np.isnan(a), np.isnan(b))
    finite = np.isfinite(b)
    np.testing.assert_array_equal(a[~finite], b[~finite])
    if finite.any():
        size = np.max(np.abs(b[finite])) if scale is None else scale
        assert np.max(np.abs(a[finite] - b[finite])) <= slack * unit * max(size, 1e-30)
