"""The context of the passes: the dialects, and beside the module of a model what it was imported from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.context import Context
from xdsl.dialects.builtin import Builtin
from xdsl.dialects.func import Func
from xdsl.ir import SSAValue

from hnfc.dialects.num import NUM

if TYPE_CHECKING:
    from torch_mlir import ir

    from hnfc.frontend.torch_mlir import Imported


class PipelineContext(Context):
    """A context with the torch module that a module was imported from: import-torch reads `source`, export-torch sets `exported`."""

    def __init__(self) -> None:
        super().__init__()
        for dialect in (Builtin, Func, NUM):
            self.load_dialect(dialect)
        self.begin()

    def begin(self, source: ir.Module | None = None) -> None:
        """Forgets the last module; the next one is imported from `source`."""
        self.source = source
        self.imported: Imported | None = None
        self.replaced: dict[SSAValue, SSAValue] = {}
        self.exported: ir.Module | None = None
