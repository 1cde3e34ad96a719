"""torch operations → `num`, in canonical form: one handler for each family, found by the operation's name.

A handler takes the builder, the entries of the operands and the result types, and returns the results, or None where the
operation, with these operands, is not one that `num` has; it then stays opaque.
"""

from __future__ import annotations

from hnfc.frontend import convert_contraction, convert_elementwise, convert_movement, convert_reduction
from hnfc.frontend.registry import CONVERSIONS

__all__ = ["CONVERSIONS", "convert_contraction", "convert_elementwise", "convert_movement", "convert_reduction"]
