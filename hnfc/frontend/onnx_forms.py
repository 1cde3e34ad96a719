"""Operations of ONNX that torch-mlir converts into something else than ONNX defines, written right before or after it does."""

from __future__ import annotations

import re
from collections.abc import Iterable

from torch_mlir import ir

from hnfc.core.regions import operations_within
from hnfc.core.torch_emitter import Emitter

_POOL = re.compile(r"torch\.aten\.(?:avg|max)_pool\dd")
_PEEPHOLES = 7
"""The operand of an LSTM that torch-mlir drops."""
_INTEGER = re.compile(r",[su]i\d+>$")


def mend_unconverted(found: Iterable[tuple[ir.Operation, str]]) -> list[ir.Operation]:
    """Writes operations that it converts wrongly as others; those for which there are none are returned."""
    wrong = []
    for operation, operator in list(found):
        if operator == "onnx.Split" and "torch.onnx.split" in operation.attributes:
            _split(operation)
        elif _is_wrong(operation, operator):
            wrong.append(operation)
    return wrong


def mend_converted(module: ir.Module) -> list[ir.Operation]:
    """Writes operations that it has converted as ONNX means them; assertions on sizes, which no model wants, are returned."""
    inside = list(operations_within(module.operation))
    asserted = [operation for operation in inside if operation.name == "torch.runtime.assert"]
    for operation in inside:
        if operation.name == "torch.aten.convolution":
            _shorten(operation, 7, _axes(operation, 3), ())
        elif _POOL.match(operation.name):
            _shorten(operation, 2, _axes(operation, 1), (1,))
            _shorten(operation, 3, _axes(operation, 1), ())
        elif operation.name == "torch.aten.div.Tensor" and _INTEGER.search(str(operation.results[0].type)):
            _divide_integers(operation)
    return asserted


def _is_wrong(operation: ir.Operation, operator: str) -> bool:
    """Return whether the conversion is of another function, as ONNX's own tests show."""
    given = {name.removeprefix("torch.onnx.") for name in operation.attributes}
    if operator == "onnx.AveragePool":
        return "dilations" in given and any(ir.IntegerAttr(part).value != 1 for part in operation.attributes["torch.onnx.dilations"])
    if operator in ("onnx.DFT", "onnx.SpaceToDepth"):
        return ("inverse" if operator == "onnx.DFT" else "mode") in given
    if operator == "onnx.LSTM":
        return not _is_missing(operation, _PEEPHOLES)
    if operator == "onnx.Resize":  # the scale decides where the corners lie, not the size that it gives
        mode = operation.attributes["torch.onnx.coordinate_transformation_mode"] if "coordinate_transformation_mode" in given else None
        return mode is not None and ir.StringAttr(mode).value == "align_corners" and not _is_missing(operation, 2)
    if operator in ("onnx.CastLike", "onnx.Cast"):
        return ",f8" in str(operation.results[0].type)  # what is too large
    # the norm of 0; axes and directions of slices; indices, which are those of another output
    return operator in ("onnx.LpNormalization", "onnx.Scan") or (operator == "onnx.Unique" and len(operation.results) > 1)


def _is_missing(operation: ir.Operation, index: int) -> bool:
    return len(operation.operands) <= index or str(operation.operands[index].type) == "!torch.none"


def _emitter(operation: ir.Operation) -> Emitter:
    emitter = Emitter(operation.context, lambda value: value, {})
    emitter.move(ir.InsertionPoint(operation), operation.location)
    return emitter


def _split(split: ir.Operation) -> None:
    """One slice for each size that the attribute lists: torch-mlir makes equal parts."""
    emitter, start = _emitter(split), 0
    axis = ir.IntegerAttr(split.attributes["torch.onnx.axis"]).value if "torch.onnx.axis" in split.attributes else 0
    for size, result in zip(split.attributes["torch.onnx.split"], split.results, strict=True):
        end = start + ir.IntegerAttr(size).value
        result.replace_all_uses_with(emitter.aten("slice.Tensor", [split.operands[0], axis, start, end, 1], str(result.type)))
        start = end
    split.erase()


def _divide_integers(division: ir.Operation) -> None:
    """Cuts a quotient of integers towards 0, as code compiled from torch-mlir's form does, and torch does not."""
    result = division.results[0]
    result.replace_all_uses_with(_emitter(division).aten("div.Tensor_mode", [*division.operands, "trunc"], str(result.type)))
    division.erase()


def _shorten(operation: ir.Operation, index: int, length: int, filling: tuple[int, ...]) -> None:
    """Cuts a list to a number for each axis where torch-mlir writes two: the same ones again, or those that it fills a list with."""
    listed = getattr(operation.operands[index].owner, "operation", None)
    if listed is None or listed.name != "torch.prim.ListConstruct" or len(listed.operands) != 2 * length:
        return
    first, rest = list(listed.operands)[:length], list(listed.operands)[length:]
    if rest != first and not all(_number(value) in filling for value in rest):
        return
    made = ir.Operation.create(
        "torch.prim.ListConstruct", results=[listed.results[0].type], operands=first,
        loc=operation.location, ip=ir.InsertionPoint(operation),
    )  # fmt: skip
    operation.operands[index] = made.results[0]


def _number(value: ir.Value) -> int | None:
    owner = getattr(value.owner, "operation", None)
    return ir.IntegerAttr(owner.attributes["value"]).value if owner is not None and owner.name == "torch.constant.int" else None


def _axes(operation: ir.Operation, index: int) -> int:
    return len(getattr(operation.operands[index].owner, "operation", operation).operands)
