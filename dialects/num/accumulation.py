"""Sums of products that a kernel accumulates onto what is added to them: the bias of linear, addmm, baddbmm and convolutions."""

from __future__ import annotations

import math
from typing import Any

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue

from hnfc.dialects.types import DYNAMIC

PASSING = frozenset((
    "num.transpose", "num.reshape", "num.broadcast", "num.slice", "num.neg", "num.mul", "num.div", "num.cast", "num.detach",
))  # fmt: skip
"""Operations between a product and the sum with a bias that a kernel may do on the way."""
_DEPTH = 6


def scaled_product_of(value: SSAValue) -> tuple[Operation | None, float]:
    """The matrix product or convolution whose multiple this is, or None, and the number it is multiplied by."""
    factor = 1.0
    for _ in range(_DEPTH):
        operation = value.owner
        name = getattr(operation, "name", "")
        if name in ("num.matmul", "num.affine", "num.conv"):
            return operation, factor  # type: ignore[return-value]
        if name not in PASSING:
            break
        operands = operation.operands  # type: ignore[union-attr]
        # of a scaled product the other factor is a number
        value = next((o for o in operands if getattr(o.owner, "name", "") != "num.constant"), operands[0])
        if name in ("num.mul", "num.div"):
            constants: list[Any] = [o.owner for o in operands if getattr(o.owner, "name", "") == "num.constant"]
            number = float(constants[0].value.value.data) if constants else 1.0
            factor = factor * number if name == "num.mul" else factor / number if number else math.inf
    return None, factor


def terms_of(value: SSAValue) -> float:
    """Number of products in the sum that each element is (inf: unknown); 0 for a value that is no matrix product or convolution."""
    operation, _ = scaled_product_of(value)
    if operation is None:
        return 0.0
    weight = operation.operands[1].type
    assert isinstance(weight, TensorType)
    shape = weight.get_shape()
    sizes = shape[1:] if operation.name == "num.conv" else shape[-2:-1] if len(shape) > 1 else shape[:1]
    return math.inf if DYNAMIC in sizes else float(math.prod(sizes))
