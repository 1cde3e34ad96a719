"""The function of a module as analyses take it: its values are those of the model, without what nothing uses."""

from __future__ import annotations

from torch_mlir import ir
from xdsl.dialects.func import FuncOp

from hnfc.core.dead_code import erase_dead
from hnfc.core.errors import ModelError
from hnfc.frontend.torch_mlir import Imported, import_module


def read_function(module: ir.Module) -> tuple[Imported, FuncOp]:
    """The import of a module, and its only function. Raises ModelError where it has none, or several."""
    imported = import_module(module)
    functions = [op for op in imported.module.ops if isinstance(op, FuncOp) and op.body.blocks]
    if len(functions) != 1:
        raise ModelError(f"this model has {len(functions)} functions; an analysis takes one")
    erase_dead([op for op in functions[0].body.block.ops if not any(result.uses for result in op.results)])
    return imported, functions[0]
