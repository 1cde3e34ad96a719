"""The context of the passes: the dialects, and what belongs to the module of a model beyond its operations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.context import Context
from xdsl.dialects.builtin import Builtin
from xdsl.dialects.func import Func, FuncOp
from xdsl.ir import SSAValue

from hnfc.core.progress import Progress, tell
from hnfc.dialects.num import NUM

if TYPE_CHECKING:
    from torch_mlir import ir

    from hnfc.frontend.torch_mlir import Imported
    from hnfc.pipeline.compiled import Compiled
    from hnfc.pipeline.request import Request
    from hnfc.pipeline.state import FunctionState


class PipelineContext(Context):
    """Data that passes hand on: import-torch reads `source` and sets `imported`, export-torch sets `exported`; `functions` has the rest."""

    def __init__(self) -> None:
        super().__init__()
        for dialect in (Builtin, Func, NUM):
            self.load_dialect(dialect)
        self.begin()

    def begin(self, source: ir.Module | None = None, request: Request | None = None, progress: Progress = tell) -> None:
        """Forgets the last module; the next one is imported from `source`."""
        self.source, self.request, self.progress = source, request, progress
        self.imported: Imported | None = None
        self.functions: dict[FuncOp, FunctionState] = {}
        self.compiled: Compiled | None = None
        self.exported: ir.Module | None = None

    @property
    def replaced(self) -> dict[SSAValue, SSAValue]:
        """The replacement of each value that a rewrite replaced, in all functions."""
        return {old: new for state in self.functions.values() for old, new in state.outcome.replaced.items()}
