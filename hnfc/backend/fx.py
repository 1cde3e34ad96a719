"""A function of the torch dialect → an FX graph that torch runs: each operation is the one of `torch.ops` that it is named after.

Nothing is looked up by meaning, so whatever came from torch goes back to it, operations too that hnfc does not know.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, TypeAlias

import torch
from torch import fx
from torch_mlir import ir
from torch_mlir.extras.fx_importer import TORCH_DTYPE_TO_INT, TORCH_LAYOUT_TO_INT, TORCH_MEMORY_FORMAT_TO_INT

from hnfc.backend import functions, rows
from hnfc.backend.control_flow import controlled
from hnfc.backend.native import NAMESPACE
from hnfc.backend.onnx_reference import OnnxReference, interpolated, ordered_topk
from hnfc.core.errors import ModelError, NodeError
from hnfc.core.regions import REGION_ENDS, used_within
from hnfc.core.tensors import to_torch
from hnfc.frontend import weights
from hnfc.frontend.torch_mlir import operation_name

Argument: TypeAlias = Any
"""Operand in the graph: a node, a Python number, a string, None, or a list of them."""

_SCALARS = {
    "torch.constant.int": ir.IntegerAttr, "torch.constant.float": ir.FloatAttr, "torch.constant.bool": ir.BoolAttr,
    "torch.constant.str": ir.StringAttr, "torch.constant.device": ir.StringAttr,
}  # fmt: skip
_CODED = {
    "ScalarType": {code: dtype for dtype, code in TORCH_DTYPE_TO_INT.items()},
    "MemoryFormat": {code: kind for kind, code in TORCH_MEMORY_FORMAT_TO_INT.items()},
    "Layout": {code: layout for layout, code in TORCH_LAYOUT_TO_INT.items()},
    "Device": None,
}
_WRAPPERS = ("torch.tensor_static_info_cast", "torch.copy.to_vtensor", "torch.copy.to_tensor", "torch.derefine")
"""Operations that say something of a type and do nothing."""
_OF_ANY_STRIDES = {"torch.aten.view": "torch.aten.reshape", "torch.aten._unsafe_view": "torch.aten.reshape"}
"""The torch dialect has no strides: what a rewrite gives may lie in memory otherwise than what it replaces."""
_INSTEAD: dict[Any, Callable[..., Any]] = {
    torch.ops.aten.copy.default: functions.copied, torch.ops.aten.as_strided_scatter.default: functions.scattered,
    torch.ops.aten.__interpolate.size_list_scale_list: interpolated, torch.ops.prims.squeeze.default: torch.ops.aten.squeeze.dims,
    **{
        getattr(getattr(torch.ops.aten, name), overload): getattr(torch, name)
        for name in ("var", "std", "var_mean", "std_mean") for overload in ("correction", "dim", "default")
    },
}  # fmt: skip
"""Functions that stand for operations: for writes in place, of which torch has no derivative or a wrong one, as torch.export puts them;
for one that takes other coordinates than the scale says; for one that cannot be traced with axes that count from the end; for those that
warn of few elements, in text on stderr where they are not called as functions of Python."""
_ONNX = "torch.onnx."
_NATIVE = f"torch.{NAMESPACE}."
_OMITTED = ("torch.bind_symbolic_shape", "torch.symbolic_int")


def raise_function(module: ir.Module, name: str = "main", nodes: dict[ir.Value, Argument] | None = None) -> fx.GraphModule:
    """The function `name` of a torch-dialect module as a GraphModule: the same arguments, a tuple of the same results.

    Literals become buffers `constant_0`, … of the module. nodes: is given what every value of the function became.
    Raises ModelError where torch has no operation of a name.
    """
    return fx.GraphModule(*raise_graph(module, name, nodes))


def raise_graph(module: ir.Module, name: str = "main", nodes: dict[ir.Value, Argument] | None = None) -> tuple[torch.nn.Module, fx.Graph]:
    """The same as the module with the literals and the graph, for which no Python is written."""
    for view in module.body.operations:
        function = view.operation
        if function.name == "func.func" and ir.StringAttr(function.attributes["sym_name"]).value == name:
            return _Raising(function, nodes).run()
    raise ModelError(f"there is no function `{name}` in this module")


class _Raising:
    def __init__(self, function: ir.Operation, nodes: dict[ir.Value, Argument] | None) -> None:
        self.function = function
        self.graph = fx.Graph()
        self.constants = torch.nn.Module()
        self.values: dict[ir.Value, Argument] = {} if nodes is None else nodes
        self._count = 0
        self._is_onnx = "torch.onnx_meta.opset_version" in function.attributes

    def run(self) -> tuple[torch.nn.Module, fx.Graph]:
        blocks = list(self.function.regions[0].blocks)
        if len(blocks) != 1:
            raise ModelError("a function with control flow cannot be run by torch")
        self._block(blocks[0], {})
        return self.constants, self.graph

    def _block(self, block: ir.Block, outside: Mapping[ir.Value, Argument]) -> list[fx.Node]:
        """Takes in the operations of a block. outside: what it uses of the graph around it, of which the nodes are returned."""
        for index, argument in enumerate(block.arguments):
            self.values[argument] = self.graph.placeholder(f"arg{index}")
        taken: dict[fx.Node, fx.Node] = {}

        def inside(node: fx.Node) -> fx.Node:
            if node not in taken:
                taken[node] = self.graph.placeholder(f"outside{len(taken)}")
            return taken[node]

        for value, entry in outside.items():
            self.values[value] = fx.node.map_arg(entry, inside)
        for view in block.operations:
            operation = view.operation
            if operation.name in ("func.return", *REGION_ENDS):
                self.graph.output(tuple(self.values[operand] for operand in operation.operands))
            elif operation.name not in _OMITTED:
                self._operation(operation)
        return list(taken)

    def _operation(self, operation: ir.Operation) -> None:
        name, results = operation_name(operation), list(operation.results)
        operands = [self.values[operand] for operand in operation.operands]
        if name in _SCALARS:
            self.values[results[0]] = _SCALARS[name](operation.attributes["value"]).value
        elif name == "torch.constant.none":
            self.values[results[0]] = None
        elif name == "torch.constant.number":
            self.values[results[0]] = operation.attributes["value"].value
        elif name in ("torch.prim.ListConstruct", "torch.prim.TupleConstruct"):
            self.values[results[0]] = operands
        elif name == "torch.vtensor.literal":
            self.values[results[0]] = self._constant(operation.attributes["value"])
        elif name in _WRAPPERS:
            self.values[results[0]] = operands[0]
        elif name in ("torch.prim.ListUnpack", "torch.prim.TupleUnpack"):
            self._take(results, operands[0])
        elif len(operation.regions):
            self._control(name, operands, results, operation)
        elif name in _ON_NUMBERS:
            self.values[results[0]] = self._on_numbers(_ON_NUMBERS[name], operands)
        else:
            self._call(name, operands, results, operation)

    def _constant(self, attribute: ir.Attribute) -> fx.Node:
        name = f"constant_{self._count}"
        self._count += 1
        self.constants.register_buffer(name, to_torch(weights.read(attribute)), persistent=False)
        return self.graph.get_attr(name)

    def _reference(self, operator: str, operands: list[Argument], operation: ir.Operation) -> fx.Node:
        """A call of ONNX's own implementation."""
        try:
            module = OnnxReference(operation, operator, [operand is not None for operand in operands])
        except ModelError as error:
            place = weights.place_of(operation, None)
            raise NodeError(f"torch has no operation `onnx.{operator}`: {error.message}", *place, node=weights.node_of(operation)) from None
        name = f"reference_{self._count}"
        self._count += 1
        self.constants.add_module(name, module)
        return self.graph.call_module(name, tuple(operands))

    def _control(self, name: str, operands: list[Argument], results: list[ir.Value], operation: ir.Operation) -> None:
        """A call of a branch or a loop, whose regions become graphs."""
        graphs, used = [], list[list[fx.Node]]()
        for region in operation.regions:
            inner = _Raising(self.function, {})
            nodes = inner._block(region.blocks[0], {value: self.values[value] for value in used_within(region)})
            graphs.append(fx.GraphModule(inner.constants, inner.graph))
            used.append(nodes)
        try:
            module = controlled(operation, graphs, [len(nodes) for nodes in used])
        except ModelError as error:
            what = f"torch has no operation `{name.removeprefix('torch.')}`: {error.message}"
            raise NodeError(what, *weights.place_of(operation, None), node=weights.node_of(operation)) from None
        key = f"controlled_{self._count}"
        self._count += 1
        self.constants.add_module(key, module)
        node = self.graph.call_module(key, (*operands, *(node for nodes in used for node in nodes)))
        self._give(node, results, operation)

    def _give(self, node: fx.Node, results: list[ir.Value], operation: ir.Operation) -> None:
        """Makes the node stand for the results of an operation."""
        # in words: the module may change, or go, before the graph runs
        node.meta["place"] = weights.place_of(operation, None)
        node.meta["node"] = weights.node_of(operation)
        node.meta["declared"] = [str(result.type) for result in results]
        if len(results) == 1:
            self.values[results[0]] = node
        else:
            self._take(results, node)

    def _take(self, results: Sequence[ir.Value], source: Argument) -> None:
        for index, result in enumerate(results):
            if isinstance(source, list):
                self.values[result] = source[index]
            elif next(iter(result.uses), None) is not None:
                self.values[result] = self.graph.call_function(operator.getitem, (source, index))

    def _on_numbers(self, function: Callable[..., Any], operands: list[Argument]) -> Argument:
        if any(isinstance(operand, fx.Node) for operand in operands):
            return self.graph.call_function(function, tuple(operands))
        return function(*operands)

    def _call(self, name: str, operands: list[Argument], results: list[ir.Value], operation: ir.Operation) -> None:
        target = torch_operation(name)
        if target is None and name.startswith(_ONNX):
            node = self._reference(name.removeprefix(_ONNX), operands, operation)
        elif target is None:
            what = f"torch has no operation `{name.removeprefix('torch.')}`; --on iree runs some that torch lacks"
            raise NodeError(what, *weights.place_of(operation, None), node=weights.node_of(operation))
        else:
            try:
                given = (tuple(operands), {}) if name.startswith(_NATIVE) else _arguments(target, operands)
            except ModelError as error:
                raise NodeError(error.message, *weights.place_of(operation, None), node=weights.node_of(operation)) from None
            chosen = ordered_topk if self._is_onnx and target is torch.ops.aten.topk.default else _INSTEAD.get(target, target)
            node = self.graph.call_function(chosen, *given)
        self._give(node, results, operation)


def torch_operation(name: str) -> Any:
    """The overload that an operation of the torch dialect is named after (`torch.aten.add.Tensor`), or None; a function of ours."""
    if name.startswith(_NATIVE):
        own = name.removeprefix(_NATIVE)
        return getattr(rows, own, None) or getattr(functions, own)
    _, namespace, base, *overload = _OF_ANY_STRIDES.get(name, name).split(".")
    packet = getattr(getattr(torch.ops, namespace), base, None)
    return getattr(packet, overload[0] if overload else "default", None)


def _arguments(target: Any, operands: list[Argument]) -> tuple[tuple[Argument, ...], dict[str, Argument]]:
    """Positional and keyword arguments of a call, without those that are what they are by default."""
    positional: list[Argument] = []
    keywords: dict[str, Argument] = {}
    kept = 0
    for (kind, keyword, default, has_default), operand in zip(_schema(target), operands, strict=False):
        value = _decoded(kind, operand)
        given = not (has_default and type(value) is type(default) and value == default)
        if keyword is not None:
            if given:
                keywords[keyword] = value
            continue
        positional.append(value)
        if given:
            kept = len(positional)
    return tuple(positional[:kept]), keywords


@cache
def _schema(target: Any) -> list[tuple[str, str | None, Any, bool]]:
    """Of each argument: what numbers stand for in it, its name if it can only be given by name, its default, whether it has one."""
    return [
        (
            next((kind for kind in _CODED if kind in str(argument.real_type)), ""),
            argument.name if argument.kwarg_only else None,
            argument.default_value,
            argument.has_default_value(),
        )
        for argument in target._schema.arguments
    ]


def _decoded(kind: str, value: Argument) -> Argument:
    if kind == "Device" and isinstance(value, str):
        return torch.device(value)
    table = _CODED.get(kind)
    if not table or type(value) is not int:
        return value
    if value not in table:
        raise ModelError(f"torch's {kind} number {value} is none that runs here; --on iree knows quantised types")
    return table[value]


def _item(x: Any) -> Any:
    return x.item()


def _integer(x: Any) -> Any:
    return int(x.item())


def _sizes(x: Any) -> Any:
    return list(x.size())


_OPERATORS: dict[str, Callable[..., Any]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "floordiv": operator.floordiv, "neg": operator.neg,
    "remainder": operator.mod, "fmod": operator.mod, "pow": operator.pow, "lt": operator.lt, "le": operator.le, "gt": operator.gt,
    "ge": operator.ge, "eq": operator.eq, "ne": operator.ne, "div": operator.truediv,
}  # fmt: skip
_ON_NUMBERS: dict[str, Callable[..., Any]] = {
    **{f"torch.aten.{name}.{kind}": f for name, f in _OPERATORS.items() for kind in ("int", "float", "int_float", "float_int")},
    "torch.aten.size.int": torch.ops.aten.sym_size.int,
    "torch.aten.size": _sizes,
    "torch.prim.tolist": torch.Tensor.tolist,
    "torch.aten.numel": torch.ops.aten.sym_numel.default,
    "torch.aten.stride.int": torch.ops.aten.sym_stride.int,
    "torch.aten.Float.Scalar": torch.sym_float,
    "torch.aten.Float.int": torch.sym_float,
    "torch.aten.Int.Scalar": torch.sym_int,
    "torch.aten.Int.float": torch.sym_int,
    "torch.aten.Int.bool": int,
    "torch.aten.Float.bool": float,
    "torch.aten.Int.Tensor": _item,
    "torch.aten.Float.Tensor": _item,
    "torch.aten.Bool.Tensor": _item,
    "torch.aten.IntImplicit": _integer,
    "torch.aten.Bool.int": bool,
    "torch.aten.Bool.float": bool,
    "torch.aten.__getitem__.t": operator.getitem,
    "torch.prim.max.int": torch.sym_max,
    "torch.prim.min.int": torch.sym_min,
}  # fmt: skip
"""Arithmetic on Python numbers and sizes, which torch does by Python itself."""
