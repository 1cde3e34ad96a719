"""Modules of the torch dialect that hold one operation each, written as torch names it: nothing is expanded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch_mlir import ir
from xdsl.ir import Block, Operation

from hnfc.backend.writers import WRITERS, by_name
from hnfc.core.errors import ModelError
from hnfc.core.torch_emitter import Emitter
from hnfc.dialects.facts import Access, Result
from hnfc.dialects.num import OPERATIONS
from hnfc.dialects.num.base import BinaryOp, NumOp, UnaryOp
from hnfc.dialects.num.elementary import DetachOp
from hnfc.dialects.types import tensor
from hnfc.frontend.reading import new_context

FUNCTION = "main"


def measured() -> dict[str, tuple[type[NumOp], dict[str, Any]]]:
    """The operations to measure with their attributes, by the names that the table gives them."""
    found: dict[str, tuple[type[NumOp], dict[str, Any]]] = {}
    for name, kind in OPERATIONS.items():
        facts = kind.FACTS
        computes = facts.access is Access.ELEMENTWISE and facts.result is Result.SAME and kind is not DetachOp
        if not (issubclass(kind, UnaryOp | BinaryOp) and computes and facts.real is not None and facts.torch):
            continue
        if name == "gelu":
            found["gelu"] = kind, {"approximate": "none"}
            found["gelu (tanh)"] = kind, {"approximate": "tanh"}
        else:
            found[name] = kind, {}
    return found


def example(kind: type[NumOp], attributes: dict[str, Any], element: str, size: int) -> Operation:
    """The operation on arguments of a block."""
    count = 2 if issubclass(kind, BinaryOp) else 1
    block = Block(arg_types=[tensor(element, (size,))] * count)
    operation = kind.make(*block.args, **attributes)
    block.add_op(operation)
    return operation


def program(operation: Operation) -> ir.Module:
    """A module whose `main` is the operation. Raises ModelError where torch has none of its name."""
    return programs({FUNCTION: operation})


def programs(operations: Mapping[str, Operation]) -> ir.Module:
    """A module with a function for each operation. Raises ModelError where torch has none of its name."""
    context = new_context()
    with context, ir.Location.unknown():
        module = ir.Module.create()
    for name, operation in operations.items():
        _add(module, name, operation)
    return module


def _add(module: ir.Module, name: str, operation: Operation) -> None:
    context = module.context
    values: dict[Any, ir.Value] = {}
    emitter = Emitter(context, values.__getitem__, {})
    inputs = [emitter.type(operand.type) for operand in operation.operands]
    output = emitter.type(operation.results[0].type)
    location = ir.Location.unknown(context)
    with context, location:
        signature = {"sym_name": ir.StringAttr.get(name), "function_type": ir.TypeAttr.get(ir.FunctionType.get(inputs, [output]))}
        made = ir.Operation.create("func.func", attributes=signature, regions=1, ip=ir.InsertionPoint(module.body))
        body = made.regions[0].blocks.append(*inputs, arg_locs=[location] * len(inputs))
    values.update(zip(operation.operands, body.arguments, strict=True))
    emitter.move(ir.InsertionPoint(body), location)
    emitter.create("func.return", [_written(emitter, operation)])


def _written(emitter: Emitter, operation: Any) -> ir.Value:
    if not operation.FACTS.torch:
        raise ModelError(f"torch has no operation like {operation.name}")
    result = WRITERS.get(operation.name, by_name)(emitter, operation)
    assert isinstance(result, ir.Value)
    return result
