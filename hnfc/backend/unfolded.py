"""Operations that torch-mlir folds to wrong constants: folded here, or written so that it sees no constants."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
from torch_mlir import ir

from hnfc.frontend import weights

_INTEGER = re.compile(r"!torch\.vtensor<\[[\d,?]*\],(?:[su]i\d+|i1)>")
_DIVISION = "torch.aten.div.Tensor_mode"
_SUM = "torch.aten.add.Tensor"


def fold_divisions(module: ir.Module) -> None:
    """Writes quotients of literal integers as literals; of other constants it takes max(b, b) for b, which nothing folds.

    torch-mlir divides constants as if they had no sign, by way of float32, and ends the process where a divisor is 0. A sum of
    constant booleans it takes for an exclusive or.
    """
    for operation in list(_operations(module.operation)):
        kind = str(operation.operands[1].type) if operation.name in (_DIVISION, _SUM) else ""
        if not _INTEGER.fullmatch(kind) or (operation.name == _SUM and not kind.endswith("i1>")) or not _is_constant(operation):
            continue
        value = _quotient(operation) if operation.name == _DIVISION else None
        if value is not None:
            _replace(operation, value)
            continue
        b = operation.operands[1]
        made = ir.Operation.create(
            "torch.aten.logical_or" if kind.endswith("i1>") else "torch.aten.maximum", results=[b.type], operands=[b, b],
            loc=operation.location, ip=ir.InsertionPoint(operation),
        )  # fmt: skip
        operation.operands[1] = made.results[0]


def _is_constant(operation: ir.Operation) -> bool:
    """Return whether no argument of a function or block reaches the operation."""
    pending, seen = [operation], {operation}
    while pending:
        for operand in pending.pop().operands:
            owner = getattr(operand.owner, "operation", operand.owner)
            if not isinstance(owner, ir.Operation):
                return False
            if owner not in seen:
                seen.add(owner)
                pending.append(owner)
    return True


def _quotient(division: ir.Operation) -> Any:
    """The quotients as a NumPy array, exact; None where an operand is no literal, or a divisor is 0."""
    literals = [getattr(operand.owner, "operation", operand.owner) for operand in list(division.operands)[:2]]
    mode = getattr(division.operands[2].owner, "operation", division.operands[2].owner)
    if not all(isinstance(one, ir.Operation) for one in (*literals, mode)) or mode.name != "torch.constant.str":
        return None
    if any(one.name != "torch.vtensor.literal" for one in literals):
        return None
    a, b = (weights.read(one.attributes["value"]) for one in literals)
    if a.dtype != b.dtype or np.any(b == 0):
        return None
    with np.errstate(over="ignore"):
        floor = np.asarray(np.floor_divide(a, b))
        uneven = (floor * b != a) & ((a < 0) != (b < 0))
    return floor + uneven.astype(a.dtype) if ir.StringAttr(mode.attributes["value"]).value == "trunc" else floor


def _replace(operation: ir.Operation, array: Any) -> None:
    context, result = operation.context, operation.results[0]
    value = ir.DenseElementsAttr.get(np.ascontiguousarray(array).reshape(array.shape), signless=False, context=context)
    made = ir.Operation.create(
        "torch.vtensor.literal", results=[result.type], attributes={"value": value},
        loc=operation.location, ip=ir.InsertionPoint(operation),
    )  # fmt: skip
    result.replace_all_uses_with(made.results[0])
    operation.erase()


def _operations(root: ir.Operation) -> Iterator[ir.Operation]:
    for region in root.regions:
        for block in region.blocks:
            for view in block.operations:
                yield view.operation
                yield from _operations(view.operation)
