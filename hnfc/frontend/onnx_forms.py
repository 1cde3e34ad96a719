"""Operations of ONNX that torch-mlir converts into something else than ONNX defines, written right before or after it does."""

from __future__ import annotations

import re
from collections.abc import Iterable

from torch_mlir import ir

from hnfc.core.torch_emitter import Emitter

_INTEGER = re.compile(r",[su]i\d+>$")


def mend_unconverted(found: Iterable[tuple[ir.Operation, str]]) -> list[ir.Operation]:
    """Writes operations that it converts wrongly as others; those for which there are none are returned."""
    wrong = []
    for operation, operator in list(found):
        if operator == "onnx.Split" and "torch.onnx.split" in operation.attributes:
            _split(operation)
        elif (operator == "onnx.SpaceToDepth" and "torch.onnx.mode" in operation.attributes) or (
            operator == "onnx.Unique" and len(operation.results) > 1  # its indices are those of another output
        ):
            wrong.append(operation)
    return wrong


def mend_converted(module: ir.Module) -> list[ir.Operation]:
    """Writes operations that it has converted as ONNX means them; assertions on sizes, which no model wants, are returned."""
    inside = [view.operation for function in module.body.operations for region in function.operation.regions
              for block in region.blocks for view in block.operations]  # fmt: skip
    asserted = [operation for operation in inside if operation.name == "torch.runtime.assert"]
    for operation in inside:
        if operation.name == "torch.aten.convolution":
            _pad_no_output(operation)
        elif operation.name == "torch.aten.div.Tensor" and _INTEGER.search(str(operation.results[0].type)):
            _divide_integers(operation)
    return asserted


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


def _pad_no_output(convolution: ir.Operation) -> None:
    """Lists as many numbers for the padding of the output as there are axes: torch-mlir writes two of them for one axis too."""
    strides, padding = (getattr(convolution.operands[i].owner, "operation", None) for i in (3, 7))
    if strides is None or padding is None or len(padding.operands) <= len(strides.operands):
        return
    made = ir.Operation.create(
        "torch.prim.ListConstruct", results=[padding.results[0].type], operands=list(padding.operands)[: len(strides.operands)],
        loc=convolution.location, ip=ir.InsertionPoint(convolution),
    )  # fmt: skip
    convolution.operands[7] = made.results[0]
