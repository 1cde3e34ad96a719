"""Work of MLIR that may end the process, tried in a child first."""

from __future__ import annotations

from collections.abc import Callable

from torch_mlir import ir

from hnfc.core.children import survives

LARGE = 2**26
"""Bytes of bytecode from which on it is not read twice."""
DEADLY = "MLIR's reader of bytecode dies of this file; was it cut or changed? Write it again, or as text"


def outlived(context: ir.Context, work: Callable[[], object]) -> bool:
    """Return whether a child lives on after work in the context; what the child changes is its own."""
    context.enable_multithreading(False)  # a child has none of its parent's threads
    try:
        return survives(work)
    finally:
        context.enable_multithreading(True)
