"""An ONNX file → the torch dialect, by torch-mlir's importer and its conversion of ONNX operations.

Weights become resources that share the memory of what was read; external data is mapped and never read as a whole. An operator
that torch-mlir cannot convert is written as the function that ONNX defines it by, if there is one.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from torch_mlir import ir

from hnfc.core.errors import ModelError, first_line
from hnfc.core.regions import operations_within
from hnfc.frontend.onnx_conversion import convert, operators
from hnfc.frontend.onnx_data import External, graphs
from hnfc.frontend.onnx_names import check_names
from hnfc.frontend.reading import new_context


def read_onnx(source: Path | bytes, kept: Collection[str] = ()) -> ir.Module:
    """The torch-dialect module of an ONNX model in a file or in bytes. Raises ModelError.

    kept: nodes, by name, that are not converted; ONNX's functions are written out for them as for others that are not.
    """
    name = str(source) if isinstance(source, Path) else "<bytes>"
    try:
        import onnx
        import onnx.inliner
    except ImportError:
        raise ModelError("this is an ONNX model, which the package `onnx` reads; `pip install onnx` gets it", name) from None
    model = _loaded(onnx, source, name)
    data = External(source.parent if isinstance(source, Path) else None, name)
    data.check(onnx, model)
    data.take_in(onnx, model)
    try:
        _name(onnx, model)
    except UnicodeDecodeError:
        raise ModelError("a name in this ONNX model is no text in UTF-8", name) from None
    check_names(model, name)
    _complete_opsets(onnx, model, name)
    _check_inputs(model, name)
    inferred = _inferred(model, onnx, name)
    module = convert(_imported(inferred, data, onnx, name), name, kept)
    inlined = _inlined(inferred, module, onnx)
    if inlined is None:
        return module
    other = convert(_imported(_inferred(inlined, onnx, name), data, onnx, name), name, kept)
    return other if len(list(operators(other))) < len(list(operators(module))) else module


def _inlined(model: Any, module: ir.Module, onnx: Any) -> Any:
    """The model with the functions of ONNX in place of the operators that could not be converted; None where there are none."""
    opset = next((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), 0)
    left = {operator.removeprefix("onnx.") for _, operator in operators(module)}
    functions = {operator for operator in left if _is_function(onnx, operator, opset)}
    if not functions:
        return None
    given = {value.name for value in (*model.graph.input, *model.graph.value_info)}
    for tensor in model.graph.initializer:  # whose types the bodies of functions depend on
        if tensor.name not in given:
            model.graph.value_info.append(onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims)))
    for node in (node for graph in graphs(model) for node in graph.node if node.op_type in functions):
        _add_defaults(node, onnx.defs.get_schema(node.op_type, opset))
    try:
        return onnx.inliner.inline_selected_functions(model, [("", name) for name in sorted(functions)], inline_schema_functions=True)
    except (RuntimeError, ValueError):  # it takes types that shape inference does not know
        return None


def _add_defaults(node: Any, schema: Any) -> None:
    """Writes the values of attributes that are left out, which the body of a function refers to."""
    present = {attribute.name for attribute in node.attribute}
    for name, attribute in schema.attributes.items():
        if name not in present and attribute.default_value.name:
            node.attribute.append(attribute.default_value)


def _is_function(onnx: Any, operator: str, opset: int) -> bool:
    try:
        schema = onnx.defs.get_schema(operator, opset)
    except onnx.defs.SchemaError:
        return False
    return bool(schema.has_function or schema.has_context_dependent_function)


def _loaded(onnx: Any, source: Path | bytes, name: str) -> Any:
    try:
        model = onnx.load(source, load_external_data=False) if isinstance(source, Path) else onnx.load_from_string(source)
    except OSError:
        raise
    except Exception as error:  # the exceptions of protobuf differ between its versions
        raise ModelError(f"this is no ONNX model: {first_line(error)}", name) from None
    if not model.HasField("graph") or not model.graph.output:
        raise ModelError("this is no ONNX model: it has no graph with an output", name)
    return model


def _name(onnx: Any, model: Any) -> None:
    """Gives nodes a name that a reader finds them by; an operator of another domain keeps that in its name, lest it be taken for ONNX's."""
    own = {(function.domain, function.name) for function in model.functions}
    for graph in graphs(model):
        for node in graph.node:
            node.name = node.name or next(iter(node.output), "")
            if node.domain not in _OWN_DOMAINS and (node.domain, node.op_type) not in own:
                node.op_type = f"{node.domain}.{node.op_type}"


def _complete_opsets(onnx: Any, model: Any, name: str) -> None:
    """Gives a model that has operators of other domains alone a version of ONNX, which the conversion wants. Raises ModelError."""
    if any(entry.domain in _OWN_DOMAINS for entry in model.opset_import):
        return
    plain = next((node for graph in graphs(model) for node in graph.node if node.domain in _OWN_DOMAINS), None)
    if plain is not None:
        raise ModelError(f"the model does not say which version of ONNX the {plain.op_type} `{plain.name}` is of", name)
    model.opset_import.append(onnx.helper.make_opsetid("", onnx.defs.onnx_opset_version()))


def _described(node: Any, model: Any) -> str:
    """Operator and version of a node, as messages name them: `AveragePool, opset 19`."""
    domains = _OWN_DOMAINS if node.domain in _OWN_DOMAINS else (node.domain,)
    version = next((entry.version for entry in model.opset_import if entry.domain in domains), "?")
    return f"{node.op_type}, opset {version}"


def _check_inputs(model: Any, name: str) -> None:
    for value in model.graph.input:
        if value.type.HasField("tensor_type") and not value.type.tensor_type.HasField("shape"):
            raise ModelError(f"the input `{value.name}` does not say how many axes it has; `onnx.tools.update_model_dims` sets them", name)


def _inferred(model: Any, onnx: Any, name: str) -> Any:
    """The model with the types of all its values."""
    try:
        inferred = onnx.shape_inference.infer_shapes(model, strict_mode=False, data_prop=True)
    except Exception as error:
        raise ModelError(f"the types of this ONNX model do not fit together: {first_line(error)}", name) from None
    return inferred


def _imported(model: Any, external: External, onnx: Any, name: str) -> ir.Module:
    """The model in torch-mlir's own form: `torch.operator "onnx.…"`."""
    from torch_mlir.extras import onnx_importer

    import_errors = (onnx_importer.OnnxImportError, ir.MLIRError, KeyError, ValueError, TypeError, AttributeError, NotImplementedError)

    class Types(onnx_importer.ContextCache):  # type: ignore[misc]
        __slots__ = ()

        def type_proto_to_type(self, kind: Any) -> ir.Type:
            if kind != "" and kind.HasField("tensor_type") and kind.tensor_type.elem_type and not kind.tensor_type.HasField("shape"):
                return ir.Type.parse(f"!torch.vtensor<*,{self.tensor_element_type(kind.tensor_type.elem_type)}>", context)
            return super().type_proto_to_type(kind)

        def tensor_proto_to_attr(self, tensor: Any) -> ir.Attribute:
            if tensor.data_location == tensor.EXTERNAL:
                kind = self.tensor_proto_to_builtin_type(tensor)
                data = external.mapped(onnx, tensor)
                return ir.DenseResourceElementsAttr.get_from_buffer(data, self._sanitize_name(tensor.name), kind, alignment=1)
            if tensor.data_type in _HALVES and not tensor.HasField("raw_data"):
                # as integers, which the importer does not read
                tensor = onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(tensor), tensor.name)
            return super().tensor_proto_to_attr(tensor)

    class Nodes(onnx_importer.NodeImporter):  # type: ignore[misc]
        __slots__ = ()

        def import_node(self, node: Any) -> None:
            try:
                super().import_node(node)
            except import_errors as error:
                raise refused(node, str(error)) from None

    def refused(node: Any, reason: str) -> ModelError:
        what = f"torch-mlir cannot import it: {next(iter(reason.splitlines()), '')}; `onnx.reference` or onnxruntime may run it"
        return ModelError(what, f"{name}: `{node.name}` ({_described(node, model)})")

    def check_ends(cache: Any) -> None:
        """Raises ModelError for an input or output of a type that torch-mlir lacks, at a node that takes or makes it."""
        for value in (*model.graph.input, *model.graph.output):
            try:
                cache.type_proto_to_type(value.type)
            except import_errors as error:
                taking = next((node for node in model.graph.node if value.name in (*node.input, *node.output)), None)
                if taking is None:
                    raise ModelError(f"`{value.name}`: {error}", name) from None
                raise refused(taking, str(error)) from None

    context = new_context()
    info = onnx_importer.ModelInfo(model)
    module = info.create_module(context=context)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            cache = Types(context)
            check_ends(cache)
            importer = onnx_importer.NodeImporter.define_function(info.main_graph, module.operation, context_cache=cache)
            importer.__class__ = Nodes  # the function makes its own class whatever it is called on
            importer.import_all()
        _place_operators(module, model)
        _name_results(module, [output.name for output in model.graph.output])
        module.operation.verify()
    except ModelError:
        raise
    except import_errors as error:
        raise ModelError(f"torch-mlir cannot import this ONNX model: {first_line(error)}", name) from None
    return module


_NAME = re.compile(r'^loc\("([^"]+)"\)$')
_OWN_DOMAINS = ("", "ai.onnx")
_HALVES = (10, 16)
"""float16 and bfloat16, as ONNX numbers the types of elements."""
RESULT_NAMES = "torch.onnx_meta.result_names"
"""Attribute of a function: the names that an ONNX model has for its outputs."""


def _place_operators(module: ir.Module, model: Any) -> None:
    """Gives each operation the operator and the version of its node, behind its name: `loc("conv"("Conv, opset 19"))`."""
    described = {node.name: _described(node, model) for graph in graphs(model) for node in graph.node}
    context = module.context
    for operation in operations_within(module.operation):
        found = _NAME.match(str(operation.location))
        if found and found[1] in described:
            operation.location = ir.Location.name(found[1], ir.Location.name(described[found[1]], context=context), context)


def _name_results(module: ir.Module, names: Sequence[str]) -> None:
    for operation in module.body.operations:
        if operation.operation.name == "func.func":
            context = module.context
            operation.operation.attributes[RESULT_NAMES] = ir.ArrayAttr.get([ir.StringAttr.get(name, context) for name in names], context)
