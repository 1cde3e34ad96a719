"""Sums of products that a kernel accumulates onto what is added to them: the bias of linear, addmm, baddbmm and convolutions."""

from __future__ import annotations

import math

from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue

from hnfc.dialects.types import DYNAMIC

PASSING = frozenset((
    "num.transpose", "num.reshape", "num.broadcast", "num.slice", "num.neg", "num.mul", "num.div", "num.cast", "num.detach",
))  # fmt: skip
"""Operations between a product and the sum with a bias that a kernel may do on the way."""
_DEPTH = 6


def terms_of(value: SSAValue) -> float:
    """Number of products in the sum that each element is (inf: unknown); 0 for a value that is no matrix product or convolution."""
    for _ in range(_DEPTH):
        operation = value.owner
        name = getattr(operation, "name", "")
        if name in ("num.matmul", "num.affine", "num.conv"):
            weight = operation.operands[1].type  # type: ignore[union-attr]
            assert isinstance(weight, TensorType)
            shape = weight.get_shape()
            sizes = shape[1:] if name == "num.conv" else shape[-2:-1] if len(shape) > 1 else shape[:1]
            return math.inf if DYNAMIC in sizes else float(math.prod(sizes))
        if name not in PASSING:
            return 0.0
        # of a scaled product the other factor is a number
        value = next((o for o in operation.operands if getattr(o.owner, "name", "") != "num.constant"), operation.operands[0])  # type: ignore[union-attr]
    return 0.0
