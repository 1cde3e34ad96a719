"""How many arithmetic operations an operation takes."""

from __future__ import annotations

import math

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue

from hnfc.dialects.num.base import NumOp

_FREE = {
    "num.constant", "num.weight", "num.reshape", "num.transpose", "num.broadcast", "num.slice", "num.concat", "num.reverse", "num.pad",
}  # fmt: skip


def flops(operation: Operation) -> float:
    """Multiplications, additions and functions, each counted as one; sizes that are not known count as 128. Movement is free."""
    if not isinstance(operation, NumOp) or operation.name in _FREE or not operation.results:
        return 0
    sizes = [elements(value) for value in (*operation.operands, *operation.results)]
    if operation.name == "num.matmul":
        inner = _shape(operation.operands[0])[-1]
        return 2 * elements(operation.results[0]) * inner
    return max(sizes)


def elements(value: SSAValue) -> float:
    return math.prod(_shape(value))


def _shape(value: SSAValue) -> tuple[int, ...]:
    if not isinstance(value.type, TensorType):
        return ()
    return tuple(size if size >= 0 else 128 for size in value.type.get_shape())
