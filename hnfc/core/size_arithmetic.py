"""Integer arithmetic on sizes, which models with dynamic shapes do between their tensor operations, on actual numbers."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from hnfc.dialects.num.opaque import OpaqueOp

_ARITHMETIC: dict[str, Callable[[int, int], int]] = {
    "torch.aten.add.int": operator.add,
    "torch.aten.sub.int": operator.sub,
    "torch.aten.mul.int": operator.mul,
    "torch.aten.floordiv.int": operator.floordiv,
    "torch.aten.remainder.int": operator.mod,
    "torch.prim.max.int": max,
    "torch.prim.min.int": min,
}


KNOWN = ("torch.constant.int", "torch.aten.size.int", *_ARITHMETIC)


def compute_size(operation: OpaqueOp, operands: list[Any]) -> Any:
    """The integer that the operation gives for these operands, as a NumPy scalar; None if it is no arithmetic on sizes."""
    name = operation.operation.data
    if name == "torch.constant.int":
        return np.int64(operation.attributes_as_python()["carried"]["value"].split(":")[0])
    if name == "torch.aten.size.int":
        return np.int64(operands[0].shape[int(operands[1])])
    function = _ARITHMETIC.get(name)
    return None if function is None else np.int64(function(int(operands[0]), int(operands[1])))
