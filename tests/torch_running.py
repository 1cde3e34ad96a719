"""Runs a module of the torch dialect by torch itself, one operation after another: what the operations mean to torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch_mlir import ir


def run_on_torch(module: ir.Module, inputs: Sequence[torch.Tensor], function: str = "main") -> list[torch.Tensor]:
    """The results of `function`."""
    for op in module.body.operations:
        if op.operation.name == "func.func" and ir.StringAttr(op.attributes["sym_name"]).value == function:
            return _run(op.regions[0].blocks[0], inputs)
    raise KeyError(function)


def _run(block: Any, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    values: dict[Any, Any] = dict(zip(block.arguments, inputs, strict=True))
    for view in block.operations:
        op = view.operation
        operands = [values[operand] for operand in op.operands]
        if op.name == "func.return":
            return operands
        results = _operation(op, operands)
        values.update(zip(op.results, results if len(op.results) > 1 else (results,), strict=True))
    raise AssertionError("a function ends with a return")


def _operation(op: Any, operands: list[Any]) -> Any:
    name = op.name
    if name == "torch.constant.none":
        return None
    if name == "torch.constant.int":
        return ir.IntegerAttr(op.attributes["value"]).value
    if name == "torch.constant.float":
        return ir.FloatAttr(op.attributes["value"]).value
    if name == "torch.constant.bool":
        return bool(ir.IntegerAttr(op.attributes["value"]).value)
    if name == "torch.constant.device":
        return torch.device(ir.StringAttr(op.attributes["value"]).value)
    if name == "torch.constant.str":
        return ir.StringAttr(op.attributes["value"]).value
    if name == "torch.prim.ListConstruct":
        return operands
    if name == "torch.vtensor.literal":
        from hnfc.frontend.weights import read

        array = np.ascontiguousarray(read(op.attributes["value"]))
        if array.dtype.name == "bfloat16":
            return torch.from_numpy(array.astype(np.float32)).to(torch.bfloat16)
        return torch.from_numpy(array.copy())
    if name == "torch.operator":
        name = "torch." + ir.StringAttr(op.attributes["name"]).value.removeprefix("torch.")
    _, namespace, base, *overload = name.split(".")
    packet = getattr(getattr(torch.ops, namespace), base)
    target = getattr(packet, overload[0] if overload else "default")
    schema = target._schema.arguments
    positional, keywords = [], {}
    for argument, value in zip(schema, operands, strict=False):
        if argument.name in ("dtype",) and isinstance(value, int) and not isinstance(value, bool):
            value = _DTYPES[value]
        if argument.kwarg_only:
            keywords[argument.name] = value
        else:
            positional.append(value)
    return target(*positional, **keywords)


_DTYPES = {
    0: torch.uint8, 1: torch.int8, 2: torch.int16, 3: torch.int32, 4: torch.int64, 5: torch.float16, 6: torch.float32, 7: torch.float64,
    11: torch.bool, 15: torch.bfloat16,
}  # fmt: skip
