"""ONNX models whose weights are integers with DequantizeLinear, which runtimes fold into their own kernels."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from hnfc.core.errors import ModelError, first_line
from hnfc.core.onnx_exporter import to_onnx
from hnfc.deployment.optional import needed
from hnfc.deployment.weights import IntegerMatrix, State, integer_matrix, plain
from hnfc.formats.granular import Along

_OPSET = 21
"""The first with groups and with integers of 4 bits."""
_EXACT = (4, 8)


def write_onnx(path: str | Path, model: torch.nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any], state: State) -> dict[str, str]:
    """Writes the model with these weights; their types in the file, by name. Integers of 4 and 8 bits are stored as such, and all others
    as the float32 numbers that they hold; values are computed in float32. Raises ModelError where torch cannot export the model, and
    UsageError without the packages onnx and onnxscript."""
    onnx = needed("onnx", "onnx", "an ONNX model")
    needed("onnxscript", "onnxscript", "an ONNX model")
    graph = _exported(model, args, kwargs)
    types: dict[str, str] = {}
    for name, tensor in state.items():
        initializer = next((t for t in graph.graph.initializer if t.name == name), None)
        if initializer is None or not tensor.is_floating_point():
            continue
        found = integer_matrix(tensor)
        if found is None or found.form.bits not in _EXACT:
            types[name] = "FLOAT"
            initializer.CopyFrom(onnx.numpy_helper.from_array(plain(tensor).float().contiguous().numpy(), name))
            continue
        types[name] = ("UINT" if found.zeros is not None else "INT") + str(found.form.bits)
        graph.graph.initializer.remove(initializer)
        graph.graph.node.insert(0, _dequantized(onnx, graph.graph, name, found, types[name]))
    onnx.checker.check_model(graph)
    onnx.save(graph, str(path))
    return types


def _exported(model: torch.nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """The model as ONNX, with its weights under their own names."""
    try:
        return to_onnx(model.eval(), args, _OPSET, kwargs=dict(kwargs))
    except Exception as error:  # the exporter wraps whatever it meets
        raise ModelError(f"torch cannot export this model to ONNX: {first_line(error)}") from error


def _dequantized(onnx: Any, graph: Any, name: str, found: IntegerMatrix, kind: str) -> Any:
    """The node that makes a weight of its integers, which become initializers."""
    scales, zeros, settings = found.scales.float(), found.zeros, {}
    if found.form.along is Along.TENSOR:
        scales, zeros = scales.reshape(()), None if zeros is None else zeros.reshape(())
    elif found.form.along is Along.GROUP:
        settings = {"axis": 1, "block_size": found.form.size}
    else:
        scales, zeros, settings = scales.reshape(-1), None if zeros is None else zeros.reshape(-1), {"axis": 0}
    tensors = {"codes": (found.codes, kind), "scale": (scales, "FLOAT")} | ({"zero": (zeros, kind)} if zeros is not None else {})
    for part, (values, of) in tensors.items():
        dtype = getattr(onnx.TensorProto, of)
        graph.initializer.append(onnx.helper.make_tensor(f"{name}.{part}", dtype, values.shape, values.reshape(-1).tolist()))
    return onnx.helper.make_node("DequantizeLinear", [f"{name}.{part}" for part in tensors], [name], name=f"{name}.dequantized", **settings)
