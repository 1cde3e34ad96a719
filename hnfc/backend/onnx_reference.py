"""Operations of ONNX that torch-mlir cannot convert, run by ONNX's own reference implementation on the CPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch_mlir import ir

from hnfc.core.errors import ModelError
from hnfc.core.tensors import shared_with_torch, to_numpy
from hnfc.frontend import weights

_ATTRIBUTE = "torch.onnx."


class OnnxReference(torch.nn.Module):
    """One operation as a module of torch. given: of each operand, whether it is there. Raises ModelError where there is no reference."""

    def __init__(self, operation: ir.Operation, operator: str, given: Sequence[bool]) -> None:
        super().__init__()
        self.operator = operator
        try:
            import onnx
            from onnx.reference import ReferenceEvaluator
        except ImportError:
            raise ModelError(f"`{operator}` runs in the package `onnx`; `pip install onnx` gets it") from None
        self.names = [f"x{index}" if there else "" for index, there in enumerate(given)]
        made = [f"y{index}" for index in range(len(operation.results))]
        attributes = onnx_attributes(operation)
        arrays = {key: onnx.numpy_helper.from_array(value) for key, value in attributes.items() if isinstance(value, np.ndarray)}
        domain, _, own = operator.rpartition(".")
        node = onnx.helper.make_node(own, self.names, made, domain=domain, **{**attributes, **arrays})
        opsets = [onnx.helper.make_opsetid(name, version) for name, version in opsets_of(operation).items()]
        function = onnx.helper.make_function("hnfc", "f", [name for name in self.names if name], made, [node], opsets)
        try:
            self.evaluator = ReferenceEvaluator(function)
        except Exception as error:  # the evaluator's own errors have no common class
            raise ModelError(f"ONNX has no reference for this {operator}: {_first_line(error)}") from None

    def forward(self, *operands: Any) -> Any:
        arrays = {name: to_numpy(operand) for name, operand in zip(self.names, operands, strict=True) if name}
        try:
            with np.errstate(all="ignore"):
                results = self.evaluator.run(None, arrays, attributes={})
        except Exception as error:  # as above
            raise RuntimeError(f"the reference of {self.operator} fails: {_first_line(error)}") from None
        tensors = tuple(shared_with_torch(np.asarray(result)) for result in results)
        return tensors[0] if len(tensors) == 1 else tensors


def ordered_topk(x: torch.Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> tuple[torch.Tensor, torch.Tensor]:
    """The k largest elements; of equal ones the first, as ONNX wants it and torch does not."""
    values, indices = torch.sort(x, dim=dim, descending=largest, stable=True)
    return values.narrow(dim, 0, k), indices.narrow(dim, 0, k)


def interpolated(x: torch.Tensor, size: Any = None, scale_factor: Any = None, *rest: Any) -> torch.Tensor:
    """Interpolation with coordinates from the scale, also where it does not divide the size."""
    if scale_factor is not None:
        kept = [int(length * scale) == length and scale != 1 for length, scale in zip(x.shape[2:], scale_factor, strict=True)]
        if any(kept):
            raise ValueError("torch interpolates along no axis whose size stays, and the scale is not 1")
    result: torch.Tensor = torch.nn.functional.interpolate(x, size, scale_factor, *rest)
    return result


def opsets_of(operation: ir.Operation) -> dict[str, int]:
    """The version of ONNX, and those of other domains, that the function of an operation is of. Raises ModelError."""
    function = operation.parent
    while function is not None and function.name != "func.func":
        function = function.parent
    key = "torch.onnx_meta.opset_version"
    if function is None or key not in function.attributes:
        raise ModelError(f"the function of {operation.name} does not say which version of ONNX it is of")
    found = {"": int(ir.IntegerAttr(function.attributes[key]).value)}
    if f"{key}s" in function.attributes:
        found.update({named.name: int(ir.IntegerAttr(named.attr).value) for named in ir.DictAttr(function.attributes[f"{key}s"])})
    return found


def onnx_attributes(operation: ir.Operation) -> dict[str, Any]:
    """The attributes that a node of ONNX had: numbers, texts, lists of them, arrays."""
    names = [name for name in operation.attributes if name.startswith(_ATTRIBUTE)]
    return {name.removeprefix(_ATTRIBUTE): _python(operation.attributes[name]) for name in names}


def _python(attribute: Any) -> Any:
    if isinstance(attribute, ir.ArrayAttr):
        return [_python(part) for part in attribute]
    if isinstance(attribute, ir.IntegerAttr | ir.FloatAttr | ir.StringAttr):
        return attribute.value
    return np.array(weights.read(attribute))


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)
