"""torch operations → `num`, in canonical form: one handler for each family, found by the operation's name.

A handler takes the builder, the entries of the operands and the result types, and returns the results, or None where the
operation, with these operands, is not one that `num` has; it then stays opaque.
"""

from __future__ import annotations

from hnfc.dialects.num import OPERATIONS
from hnfc.dialects.num.base import BinaryOp, UnaryOp, is_plain_function
from hnfc.frontend import convert_constant, convert_contraction, convert_elementwise, convert_movement, convert_reduction
from hnfc.frontend.registry import CONVERSIONS

for _operation in OPERATIONS.values():
    for _torch in _operation.FACTS.torch if is_plain_function(_operation) else ():
        if f"torch.{_torch}" not in CONVERSIONS:
            if issubclass(_operation, UnaryOp):
                convert_elementwise.register_unary(_torch, _operation)
            elif issubclass(_operation, BinaryOp):
                convert_elementwise.register_binary(_torch, _operation)

__all__ = ["CONVERSIONS", "convert_constant", "convert_contraction", "convert_elementwise", "convert_movement", "convert_reduction"]
