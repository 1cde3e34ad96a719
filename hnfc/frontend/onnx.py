"""An ONNX file → the torch dialect, by torch-mlir's importer and its conversion of ONNX operations.

Weights become resources that share the memory of what was read; external data is mapped and never read as a whole. An operation
that torch-mlir cannot convert stays a `torch.operator "onnx.…"`: a wall that no rule crosses.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from torch_mlir import ir
from torch_mlir.passmanager import PassManager

from hnfc.core.errors import ModelError
from hnfc.frontend.onnx_data import External
from hnfc.frontend.torch_mlir import new_context

_SMALL = 4096
"""Elements of a constant up to which the conversion gets to see it: sizes, axes, indices."""
_CONVERT = "builtin.module(func.func(convert-torch-onnx-to-torch))"
_TIDY = "builtin.module(func.func(torch-scalarize-shapes),inline,func.func(canonicalize,cse),symbol-dce)"
_KEPT = "kept."
_OPERATOR = re.compile(r"onnx\.[\w.]+")


def read_onnx(source: Path | bytes) -> ir.Module:
    """The torch-dialect module of an ONNX model in a file or in bytes. Raises ModelError."""
    name = str(source) if isinstance(source, Path) else "<bytes>"
    try:
        import onnx
    except ImportError:
        raise ModelError("this is an ONNX model, which the package `onnx` reads; `pip install onnx` gets it", name) from None
    model = _loaded(onnx, source, name)
    data = External(source.parent if isinstance(source, Path) else None, name)
    data.check(onnx, model)
    data.take_in(onnx, model)
    return convert(_imported(_inferred(model, onnx, name), data, onnx, name), name)


def _loaded(onnx: Any, source: Path | bytes, name: str) -> Any:
    try:
        model = onnx.load(source, load_external_data=False) if isinstance(source, Path) else onnx.load_from_string(source)
    except OSError:
        raise
    except Exception as error:  # the exceptions of protobuf differ between its versions
        raise ModelError(f"this is no ONNX model: {str(error).splitlines()[0] if str(error) else type(error).__name__}", name) from None
    if not model.HasField("graph") or not model.graph.output:
        raise ModelError("this is no ONNX model: it has no graph with an output", name)
    return model


def _inferred(model: Any, onnx: Any, name: str) -> Any:
    """The model with the types of all its values."""
    for node in model.graph.node:
        node.name = node.name or next(iter(node.output), "")  # what a reader finds it by
    try:
        inferred = onnx.shape_inference.infer_shapes(model, strict_mode=False, data_prop=True)
    except Exception as error:
        raise ModelError(f"the types of this ONNX model do not fit together: {str(error).splitlines()[0]}", name) from None
    return inferred


def _imported(model: Any, external: External, onnx: Any, name: str) -> ir.Module:
    """The model in torch-mlir's own form: `torch.operator "onnx.…"`."""
    from torch_mlir.extras import onnx_importer

    class Weights(onnx_importer.ContextCache):  # type: ignore[misc]
        __slots__ = ()

        def tensor_proto_to_attr(self, tensor: Any) -> ir.Attribute:
            if tensor.data_location == tensor.EXTERNAL:
                kind = self.tensor_proto_to_builtin_type(tensor)
                data = external.mapped(onnx, tensor)
                return ir.DenseResourceElementsAttr.get_from_buffer(data, self._sanitize_name(tensor.name), kind, alignment=1)
            return super().tensor_proto_to_attr(tensor)

    context = new_context()
    info = onnx_importer.ModelInfo(model)
    module = info.create_module(context=context)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            cache = Weights(context)
            importer = onnx_importer.NodeImporter.define_function(info.main_graph, module.operation, context_cache=cache)
            importer.import_all()
        module.operation.verify()
    except ModelError:
        raise
    except (onnx_importer.OnnxImportError, ir.MLIRError, KeyError, ValueError, TypeError, AttributeError, NotImplementedError) as error:
        raise ModelError(f"torch-mlir cannot import this ONNX model: {str(error).splitlines()[0]}", name) from None
    return module


def is_onnx(module: ir.Module) -> bool:
    """Return whether the module has operations of ONNX in torch-mlir's own form."""
    return any(name.startswith("onnx.") for _, name in _operators(module))


def _operators(module: ir.Module) -> Iterator[tuple[ir.Operation, str]]:
    """Every `torch.operator` and its name, in regions too."""
    pending = [module.operation]
    while pending:
        operation = pending.pop()
        if operation.name == "torch.operator":
            yield operation, ir.StringAttr(operation.attributes["name"]).value
        pending += [view.operation for region in operation.regions for block in region.blocks for view in block.operations]


def convert(module: ir.Module, name: str = "") -> ir.Module:
    """The module with operations of torch in place of those of ONNX, but for those that torch-mlir cannot convert."""
    _place_weights(module)
    while True:
        error = _converted(module)  # which leaves the module as it was, if something failed
        if error is None:
            break
        failed = _failed(module, error)
        if not failed:
            raise ModelError(f"torch-mlir cannot convert this ONNX model: {error.message}", name)
        for operation, operator in failed:
            operation.attributes["name"] = ir.StringAttr.get(f"{_KEPT}{operator}", module.context)
    _tidy(module, name)
    for operation, operator in _operators(module):
        operation.attributes["name"] = ir.StringAttr.get(operator.removeprefix(_KEPT), module.context)
    return module


def _place_weights(module: ir.Module) -> None:
    """Writes large constants as literals here: the conversion would copy each into an attribute of its own."""
    for operation, operator in list(_operators(module)):
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
    return [(operation, name) for operation, name in _operators(module) if name in names and str(operation.location) in places]


def _tidy(module: ir.Module, name: str) -> None:
    """Sizes that the model computes from tensors become numbers; what torch-mlir asserts of them goes: no model requested it."""
    _run(_TIDY, module, name)
    inside = [view.operation for function in module.body.operations for region in function.operation.regions
              for block in region.blocks for view in block.operations]  # fmt: skip
    asserted = [operation for operation in inside if operation.name == "torch.runtime.assert"]
    for operation in inside:
        if operation.name == "torch.aten.convolution":
            _pad_no_output(operation)
    for operation in asserted:
        operation.erase()
    if asserted:
        _run("builtin.module(func.func(canonicalize))", module, name)


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


def _run(passes: str, module: ir.Module, name: str) -> None:
    try:
        PassManager.parse(passes, module.context).run(module.operation)
    except ir.MLIRError as error:
        raise ModelError(f"torch-mlir cannot simplify this ONNX model: {error.message}", name) from None
