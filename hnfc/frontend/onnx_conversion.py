"""ONNX operations in torch-mlir's own form → the torch dialect, by its conversion.

An operation that torch-mlir cannot convert stays a `torch.operator "onnx.…"`: a wall that no rule crosses. Its conversion may end
the process, so that it runs in a child first.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence

import numpy as np
from torch_mlir import ir
from torch_mlir.passmanager import PassManager

from hnfc.core.errors import ModelError
from hnfc.frontend.onnx_forms import mend_converted, mend_unconverted
from hnfc.frontend.trial import outlived
from hnfc.frontend.weights import node_of

_SMALL = 4096
"""Elements of a constant up to which the conversion gets to see it: sizes, axes, indices."""
_CONVERT = "builtin.module(func.func(convert-torch-onnx-to-torch))"
_TIDY = "builtin.module(func.func(torch-scalarize-shapes),inline,func.func(canonicalize,cse),symbol-dce)"
_KEPT = "kept."
_OPERATOR = re.compile(r"onnx\.[\w.]+")


def is_onnx(module: ir.Module) -> bool:
    """Return whether the module has operations of ONNX in torch-mlir's own form."""
    return any(name.startswith("onnx.") for _, name in operators(module))


def operators(module: ir.Module) -> Iterator[tuple[ir.Operation, str]]:
    """Every `torch.operator` and its name, in regions too."""
    pending = [module.operation]
    while pending:
        operation = pending.pop()
        if operation.name == "torch.operator":
            yield operation, ir.StringAttr(operation.attributes["name"]).value
        pending += [view.operation for region in operation.regions for block in region.blocks for view in block.operations]


def convert(module: ir.Module, name: str = "", kept: Collection[str] = ()) -> ir.Module:
    """The module with operations of torch in place of those of ONNX, but for those of `kept` nodes and those that torch-mlir
    cannot convert."""
    _place_weights(module)
    _keep(mend_unconverted((operation, operator) for operation, operator in operators(module) if node_of(operation) not in kept))
    _keep(operation for operation, operator in operators(module) if kept and node_of(operation) in kept)
    while True:
        _keep(_fatal(module, name))
        error = _converted(module)  # which leaves the module as it was, if something failed
        if error is None:
            break
        failed = _failed(module, error)
        if not failed:
            raise ModelError(f"torch-mlir cannot convert this ONNX model: {error.message}", name)
        _keep(operation for operation, _ in failed)
    _tidy(module, name)
    for operation, operator in operators(module):
        operation.attributes["name"] = ir.StringAttr.get(operator.removeprefix(_KEPT), module.context)
    return module


def _keep(operations: Iterable[ir.Operation]) -> None:
    """Renames operations so that they are not converted."""
    for operation in operations:
        operator = ir.StringAttr(operation.attributes["name"]).value
        operation.attributes["name"] = ir.StringAttr.get(f"{_KEPT}{operator}", operation.context)


def _fatal(module: ir.Module, name: str) -> list[ir.Operation]:
    """The operations whose conversion ends the process: of one name, found by halving; none where a child survives them all."""
    found: list[ir.Operation] = []
    while True:
        left = [(operation, operator) for operation, operator in operators(module)
                if operator.startswith("onnx.") and operation not in found]  # fmt: skip
        if _survives(module, found):
            return found
        if not left or not _survives(module, [operation for operation, _ in left] + found):
            raise ModelError("the conversion of this ONNX model by torch-mlir dies, whatever it converts", name)
        low, high = 0, len(left)  # the first `low` operations are harmless, the first `high` are not
        while high - low > 1:
            middle = (low + high) // 2
            harmless = _survives(module, [operation for operation, _ in left[middle:]] + found)
            low, high = (middle, high) if harmless else (low, middle)
        found += [operation for operation, operator in left if operator == left[high - 1][1]]


def _survives(module: ir.Module, kept: Sequence[ir.Operation]) -> bool:
    """Return whether a child lives on after the conversion of all operations but these."""

    def convert() -> None:
        _keep(kept)
        _converted(module)
        PassManager.parse(_TIDY, module.context).run(module.operation)

    return outlived(module.context, convert)


def _place_weights(module: ir.Module) -> None:
    """Writes large constants as literals here: the conversion would copy each into an attribute of its own."""
    for operation, operator in list(operators(module)):
        if operator != "onnx.Constant" or "torch.onnx.value" not in operation.attributes:
            continue
        value = operation.attributes["torch.onnx.value"]
        if not str(value).startswith("dense_resource<"):
            continue
        shaped = ir.ShapedType(value.type)
        if np.prod(shaped.shape, dtype=np.int64) <= _SMALL:
            continue
        literal = ir.Operation.create(
            "torch.vtensor.literal", results=[operation.results[0].type], attributes={"value": value}, loc=operation.location,
            ip=ir.InsertionPoint(operation),
        )  # fmt: skip
        operation.results[0].replace_all_uses_with(literal.results[0])
        operation.erase()


def _converted(module: ir.Module) -> ir.MLIRError | None:
    """Converts the module; what went wrong, if something did."""
    try:
        PassManager.parse(_CONVERT, module.context).run(module.operation)
    except ir.MLIRError as error:
        return error
    return None


def _failed(module: ir.Module, error: ir.MLIRError) -> list[tuple[ir.Operation, str]]:
    """The operations that the error is about: of its names, at its places."""
    names, places = set[str](), set[str]()
    for diagnostic in error.error_diagnostics:
        places.add(str(diagnostic.location))
        names.update(_OPERATOR.findall(" ".join([diagnostic.message, *(note.message for note in diagnostic.notes)])))
    return [(operation, name) for operation, name in operators(module) if name in names and str(operation.location) in places]


def _tidy(module: ir.Module, name: str) -> None:
    """Sizes that the model computes from tensors become numbers; what torch-mlir asserts of them goes: no model requested it."""
    _run(_TIDY, module, name)
    asserted = mend_converted(module)
    for operation in asserted:
        operation.erase()
    if asserted:
        _run("builtin.module(func.func(canonicalize))", module, name)


def _run(passes: str, module: ir.Module, name: str) -> None:
    try:
        PassManager.parse(passes, module.context).run(module.operation)
    except ir.MLIRError as error:
        raise ModelError(f"torch-mlir cannot simplify this ONNX model: {error.message}", name) from None
