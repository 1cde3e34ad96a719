"""Operations that hnfc does not know, run by torch on arrays: one operation with the numbers and lists that it takes, as a function."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

import numpy as np
import torch
from xdsl.dialects.builtin import FunctionType, ModuleOp, TensorType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, Region, SSAValue

from hnfc.backend.fx import raise_function, torch_operation
from hnfc.backend.on_torch import widened
from hnfc.backend.torch_mlir import build
from hnfc.core.errors import ModelError
from hnfc.core.interpreter import FOREIGN
from hnfc.core.tensors import shared_with_torch, to_numpy
from hnfc.dialects.num.opaque import OpaqueOp

Array: TypeAlias = "np.ndarray[Any, Any]"
Function: TypeAlias = "Callable[[Sequence[Array]], list[Array]]"


class OpaqueOnTorch:
    """Evaluation of such operations; what was made for one is kept as long as it lives."""

    def __init__(self) -> None:
        self._made: WeakKeyDictionary[Operation, dict[bool, tuple[list[SSAValue], Function] | None]] = WeakKeyDictionary()

    def __call__(self, operation: OpaqueOp, known: Mapping[SSAValue, Any], wide: bool) -> list[Array] | None:
        """The results, in float64 if wide; None where an operand is missing or torch cannot compute them."""
        made = self._made.setdefault(operation, {})
        if wide not in made:
            made[wide] = _function(operation, wide)
        found = made[wide]
        if found is None or any(value not in known for value in found[0]):
            return None
        try:
            return found[1]([np.asarray(known[value]) for value in found[0]])
        except (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError):
            return None


def _function(operation: OpaqueOp, wide: bool) -> tuple[list[SSAValue], Function] | None:
    """The tensors that the operation takes, and what computes its results from them; None for what is no function of them."""
    if not _is_function(operation):
        return None
    cone, leaves = _numbers_and_lists(operation)
    block = Block(arg_types=[leaf.type for leaf in leaves])
    values: dict[SSAValue, SSAValue] = dict(zip(leaves, block.args, strict=True))
    for op in cone:
        block.add_op(copy := op.clone(values))
        values.update(zip(op.results, copy.results, strict=True))
    results = [values[result] for result in operation.results]
    block.add_op(ReturnOp(*results))
    types = FunctionType.from_lists([leaf.type for leaf in leaves], [result.type for result in results])
    try:
        graph = raise_function(build(ModuleOp([FuncOp("main", types, Region(block))])))
    except (ModelError, ValueError, KeyError, TypeError, AttributeError, RuntimeError):
        return None
    graph = widened(graph) if wide else graph

    def run(arrays: Sequence[Array]) -> list[Array]:
        tensors = [shared_with_torch(array) for array in arrays]
        with torch.no_grad():
            return [to_numpy(result) for result in graph(*(t.double() if wide and t.is_floating_point() else t for t in tensors))]

    return leaves, run


def _is_function(operation: OpaqueOp) -> bool:
    """Return whether it gives tensors, the same each time, and changes nothing."""
    if not operation.results or not all(isinstance(result.type, TensorType) for result in operation.results):
        return False
    name = operation.operation.data
    if name == "torch.operator":
        name = str(operation.attributes_as_python()["carried"].get("name", "")).strip('"')
    target = None
    with contextlib.suppress(ValueError, AttributeError, RuntimeError):
        target = torch_operation(name)
    if not isinstance(target, torch._ops.OpOverload) or target.namespace not in ("aten", "prims", "torchvision"):
        return False
    return not target._schema.is_mutable and torch.Tag.nondeterministic_seeded not in target.tags


def _numbers_and_lists(operation: OpaqueOp) -> tuple[list[Operation], list[SSAValue]]:
    """The operation after all that makes its numbers and lists, in order, and the tensors at which this begins."""
    cone: dict[Operation, None] = {}
    leaves: dict[SSAValue, None] = {}

    def visit(op: Operation) -> None:
        for operand in op.operands:
            if isinstance(operand.type, TensorType) or not isinstance(operand.owner, Operation):
                leaves[operand] = None
            elif operand.owner not in cone:
                visit(operand.owner)
        cone[op] = None

    visit(operation)
    return list(cone), list(leaves)


FOREIGN.append(OpaqueOnTorch())
