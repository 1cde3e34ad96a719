"""Models of ONNX whose nodes torch cannot run as they were converted: these stay operations of ONNX, which its reference runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from torch_mlir import ir

from hnfc.backend.execution import Array, runner
from hnfc.core.errors import ModelError, NodeError
from hnfc.frontend.models import read_model


def run_with_references(source: str | Path, module: ir.Module, function: str, inputs: Sequence[Array]) -> tuple[ir.Module, list[Array]]:
    """The module of a file that torch runs, and its results on the inputs. Raises ModelError where it runs none.

    Each node at which torch fails is kept, and the file is read again.
    """
    kept = set[str]()
    first: ModelError | None = None
    while True:
        try:
            return module, runner(module, function, "torch")(inputs)
        except NodeError as error:
            if not error.node or error.node in kept:
                raise first or error from None
            first = first or error
            kept.add(error.node)
        except ModelError as error:
            raise first or error from None
        module = read_model(source, kept=kept)


def is_of_onnx(module: ir.Module) -> bool:
    """Return whether a function of the module comes from an ONNX model."""
    return any(_VERSION in view.operation.attributes for view in module.body.operations)


_VERSION = "torch.onnx_meta.opset_version"
