"""torch operations → `num`, in canonical form: one handler for each family, found by the operation's name.

A handler takes the builder, the entries of the operands and the result types, and returns the results, or None where the
operation, with these operands, is not one that `num` has; it then stays opaque.
"""

from __future__ import annotations

from hnfc.dialects.num import OPERATIONS
from hnfc.dialects.num.base import is_plain_function
from hnfc.frontend import convert_constant, convert_contraction, convert_elementwise, convert_movement, convert_reduction
from hnfc.frontend.registry import CONVERSIONS

for _name, _operation in OPERATIONS.items():
    if is_plain_function(_operation):
        for _torch in _operation.FACTS.torch:
            if f"torch.{_torch}" not in CONVERSIONS:
                convert_elementwise.register_unary(_torch, _name)

__all__ = ["CONVERSIONS", "convert_constant", "convert_contraction", "convert_elementwise", "convert_movement", "convert_reduction"]
