"""Writers of `num` operations in the torch dialect, operand lists complete, in forms that torch-mlir lowers: one for each, by its name.

Where torch's operation has no lowering, or a poor one, `expansions` says it in other operations of `num`.
"""

from hnfc.backend import write_constant, write_contraction, write_elementwise, write_movement, write_reduction
from hnfc.backend.writer_registry import HALVES, WRITERS, by_name, in_dialect

__all__ = [
    "HALVES", "WRITERS", "by_name", "in_dialect", "write_constant", "write_contraction", "write_elementwise", "write_movement",
    "write_reduction",
]  # fmt: skip
