"""The torch dialect → an ONNX model, by torch's exporter: what onnxruntime and other runtimes read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from torch_mlir import ir

from hnfc.backend.declared import element_declared
from hnfc.backend.entries import Entry, entry
from hnfc.backend.fx import raise_function
from hnfc.core.errors import ModelError
from hnfc.core.onnx_exporter import first_cause, quiet, to_onnx
from hnfc.core.tensors import to_torch
from hnfc.dialects.types import DYNAMIC
from hnfc.frontend.onnx import RESULT_NAMES

Array: TypeAlias = "np.ndarray[Any, Any]"
OPSET = 20
_LARGEST = 2**31 - 2**20
"""Bytes of a model in one file: protobuf's limit, less what is not weights."""
_SIZES = (5, 7, 11, 13, 17, 19)
"""Sizes that stand for open ones: unequal, so that nothing takes two of them for one."""


def on_onnxruntime(module: ir.Module, function: str) -> Callable[[Sequence[Array]], list[Array]]:
    """The function as one of arrays, as onnxruntime computes it on a processor. Raises ModelError where it cannot."""
    return onnx_function(emit_onnx(module, function))


def onnx_function(data: bytes) -> Callable[[Sequence[Array]], list[Array]]:
    """An ONNX model as a function of arrays, as onnxruntime computes it. Raises ModelError where it cannot."""
    try:
        import onnxruntime
    except ImportError:
        raise ModelError("this takes onnxruntime, which is not here: `pip install onnxruntime`, or use --on torch") from None
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # its errors come as exceptions
    try:
        session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # its exceptions have no common class
        raise ModelError(f"onnxruntime cannot load the model: {first_cause(error)}") from error
    names = [one.name for one in session.get_inputs()]

    def run(inputs: Sequence[Array]) -> list[Array]:
        try:
            return [np.asarray(found) for found in session.run(None, dict(zip(names, inputs, strict=True)))]
        except Exception as error:
            raise ModelError(f"onnxruntime cannot run the model: {first_cause(error)}") from error

    return run


def emit_onnx(module: ir.Module, function: str | None = None) -> bytes:
    """The function of a torch-dialect module as an ONNX model. Raises ModelError, naming what the exporter has no form for."""
    _check_packages()
    target = entry(module, function)
    strange = next((one for one in target.inputs if one.element is None), None)
    if strange is not None:
        raise ModelError(f"ONNX has no type for {strange}")
    graph = raise_function(module, target.name)
    foreign = next((node for node in graph.graph.nodes if node.op == "call_module"), None)
    if foreign is not None:
        what = "torch's exporter cannot write this as ONNX: torch has no operation of its own for it"
        raise ModelError(f"{what}; --emit torch carries it", *foreign.meta["place"])
    size = sum(buffer.numel() * buffer.element_size() for buffer in graph.buffers())
    if size > _LARGEST:
        raise ModelError(f"the weights have {size:,} bytes, and an ONNX file of one part holds {_LARGEST:,}; --emit mlirbc has no limit")
    made = _exported(graph, target, _result_names(module, target.name))
    _check(made, target)
    return bytes(made.SerializeToString())


def _check_packages() -> None:
    try:
        import onnx  # noqa: F401
        import onnxscript  # noqa: F401
    except ImportError:
        raise ModelError("--emit onnx needs the packages onnx and onnxscript: pip install 'hnfc[onnx]'") from None


def _result_names(module: ir.Module, function: str) -> list[str] | None:
    """The names of results that the function came with; None where it has none."""
    for operation in module.body.operations:
        found = operation.operation
        if found.name == "func.func" and RESULT_NAMES in found.attributes and ir.StringAttr(found.attributes["sym_name"]).value == function:
            return [ir.StringAttr(name).value for name in ir.ArrayAttr(found.attributes[RESULT_NAMES])]
    return None


def _exported(graph: torch.fx.GraphModule, target: Entry, results: list[str] | None) -> Any:
    reason = ""
    for sizes in _SIZES, _SIZES[:1]:  # those that have to be equal after all
        samples, open_axes = _samples(target, sizes)
        names = [one.name or f"arg{one.index}" for one in target.inputs]
        try:
            with quiet(), torch.no_grad():
                program = torch.export.export(_Exact(graph), tuple(samples), dynamic_shapes=(open_axes,) if any(open_axes) else None)
            return to_onnx(program, (), OPSET, input_names=_distinct(names), output_names=results)
        except Exception as error:  # the exporter's own errors have no common class
            reason = reason or first_cause(error)
    raise ModelError(f"torch's exporter cannot write the model as ONNX: {reason}; --emit stablehlo and --emit torch carry it")


class _Exact(torch.nn.Module):
    """A graph with the numbers beside float64 tensors as tensors: the exporter writes Python's numbers in float32."""

    def __init__(self, graph: torch.fx.GraphModule) -> None:
        super().__init__()
        self.body = graph

    def forward(self, *inputs: Any) -> Any:
        return _ExactNumbers(self.body).run(*inputs)


class _ExactNumbers(torch.fx.Interpreter):
    """The graph with exact numbers, and results in the types that the model declares, as `hnfc run` gives them."""

    def run_node(self, node: torch.fx.Node) -> Any:
        result, kind = super().run_node(node), element_declared(node)
        return result.to(kind) if kind is not None and isinstance(result, torch.Tensor) and result.dtype != kind else result

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        if target is torch.ops.aten.full.default and kwargs.get("dtype") is torch.float64:
            return _number(args[1]).expand(args[0]).clone()
        if not any(isinstance(given, torch.Tensor) and given.dtype is torch.float64 for given in args):
            return super().call_function(target, args, kwargs)
        exact = tuple(_number(given) if isinstance(given, float) else given for given in args)
        wide = _WITH_TENSORS.get(getattr(target, "_overloadname", ""))
        if wide is not None and any(isinstance(given, float) for given in args):
            target = getattr(target.overloadpacket, wide, target)
        takes_tensors = all(
            isinstance(formal.type, torch.TensorType)
            for formal, given in zip(getattr(getattr(target, "_schema", None), "arguments", ()), args, strict=False)
            if isinstance(given, float)
        )
        return super().call_function(target, exact if takes_tensors else args, kwargs)


_WITH_TENSORS = {
    "Scalar": "Tensor", "Tensor_Scalar": "Tensor_Tensor", "Scalar_Tensor": "Tensor_Tensor", "Scalar_mode": "Tensor_mode",
    "ScalarOther": "self", "ScalarSelf": "self",
}  # fmt: skip
"""By overload that takes numbers: the one that takes tensors."""


def _number(value: float) -> torch.Tensor:
    return torch.tensor(value, dtype=torch.float64)


def _samples(target: Entry, sizes: Sequence[int]) -> tuple[list[torch.Tensor], tuple[dict[int, Any], ...]]:
    """Zeros for each input, and which of its axes are open."""
    samples, axes, count = [], [], 0
    for one in target.inputs:
        shape = list(one.shape)
        found: dict[int, Any] = {}
        for axis, size in enumerate(shape):
            if size == DYNAMIC:
                shape[axis] = sizes[count % len(sizes)]
                found[axis] = torch.export.Dim.AUTO
                count += 1
        samples.append(torch.zeros(shape, dtype=_dtype(one.dtype)))
        axes.append(found)
    return samples, tuple(axes)


def _dtype(dtype: Any) -> torch.dtype:
    return to_torch(np.zeros(0, dtype)).dtype


def _distinct(names: Sequence[str]) -> list[str]:
    return [name if names.count(name) == 1 else f"{name}_{index}" for index, name in enumerate(names)]


def _check(made: Any, target: Entry) -> None:
    """Raises ModelError for a model that is not valid, or that is for fewer sizes than the module."""
    import onnx

    try:
        onnx.checker.check_model(made, full_check=True)
    except Exception as error:
        raise ModelError(f"what torch's exporter wrote is not a valid ONNX model: {first_cause(error)}") from error
    for one, value in zip(target.inputs, made.graph.input, strict=True):
        written = value.type.tensor_type.shape.dim
        for axis, size in enumerate(one.shape):
            fixed = str(written[axis].dim_value or written[axis].dim_param)
            if size == DYNAMIC and fixed.isdigit():
                what = f"axis {axis} of {one} is open, and torch's exporter fixes it at a number"
                raise ModelError(f"{what}; --emit stablehlo and --emit torch keep it open")
