"""Forms in other operations of `num`, for operations that torch-mlir cannot lower, or lowers with a loss of digits."""

from __future__ import annotations

from collections.abc import Sequence

from torch_mlir import ir
from xdsl.ir import Operation

from hnfc.backend.emitter import Emitter
from hnfc.backend.writers import WRITERS
from hnfc.errors import ModelError


def write(e: Emitter, operation: Operation) -> Sequence[ir.Value]:
    """The torch values of the operation's results."""
    writer = WRITERS.get(operation.name)
    if writer is None:
        raise ModelError(f"no torch operation is known for {operation.name}")
    made = writer(e, operation)
    return made if isinstance(made, list) else [made]
