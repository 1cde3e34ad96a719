"""Operations that torch-mlir folds or lowers to wrong values: folded here, or written in others."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
from torch_mlir import ir

from hnfc.core.regions import operations_within
from hnfc.dialects.types import FORMATS
from hnfc.frontend import weights

_INTEGER = re.compile(r"!torch\.vtensor<\[[\d,?]*\],(?:[su]i\d+|i1)>")
_FLOAT = re.compile(r"!torch\.vtensor<\[[\d,?]*\],(?:b?f\d+\w*)>")
_VECTOR = re.compile(r"!torch\.vtensor<\[[\d,?]*\],(\w+)>")
_BY_NUMBERS = ("torch.aten.remainder.Scalar", "torch.aten.fmod.Scalar")
_NUMBERS = ("torch.constant.int", "torch.constant.float")
_DIVISION = "torch.aten.div.Tensor_mode"
_SUM = "torch.aten.add.Tensor"
_COMPARISONS = tuple(f"torch.aten.{name}.Scalar" for name in ("eq", "ne", "lt", "le", "gt", "ge"))


def unfold(module: ir.Module) -> None:
    """Writes operations that torch-mlir folds, or lowers, to wrong values in others.

    It divides constants as if they had no sign, by way of float32, and ends the process where a divisor is 0; a sum of constant
    booleans it takes for an exclusive or; it compares constants with a number of another kind at random, or dies of that; that a
    float equals itself it takes for true, NaN or not; remainders by a number get the sign of the dividend in StableHLO, and fmod
    by a number is not known at all.
    """
    for operation in list(operations_within(module.operation)):
        if operation.name in (_DIVISION, _SUM):
            _unfold_constants(operation)
        elif operation.name in _COMPARISONS and _is_constant(operation):
            operation.operands[0] = _not_folded(operation, operation.operands[0])
        elif operation.name == "torch.aten.eq.Tensor" and _FLOAT.fullmatch(str(operation.operands[0].type)):
            _unfold_equality(operation)
        elif operation.name in _BY_NUMBERS:
            _unfold_number(operation)


def _unfold_constants(operation: ir.Operation) -> None:
    """Writes quotients of literal integers as literals; of other constants it takes max(b, b) for b, which nothing folds."""
    kind = str(operation.operands[1].type)
    if not _INTEGER.fullmatch(kind) or (operation.name == _SUM and not kind.endswith("i1>")) or not _is_constant(operation):
        return
    value = _quotient(operation) if operation.name == _DIVISION else None
    if value is not None:
        _replace(operation, value)
        return
    operation.operands[1] = _not_folded(operation, operation.operands[1])


def _not_folded(operation: ir.Operation, b: ir.Value) -> ir.Value:
    """A value as another that nothing folds."""
    name = "torch.aten.logical_or" if str(b.type).endswith("i1>") else "torch.aten.maximum"
    return _before(operation, name, [b, b], b.type)


def _unfold_equality(operation: ir.Operation) -> None:
    """Writes a = b as not a ≠ b, which is right of NaN when a is b, or becomes b."""
    kind = operation.results[0].type
    unequal = _before(operation, "torch.aten.ne.Tensor", list(operation.operands), kind)
    operation.results[0].replace_all_uses_with(_before(operation, "torch.aten.logical_not", [unequal], kind))
    operation.erase()


def _unfold_number(operation: ir.Operation) -> None:
    """Makes a tensor of the number that is divided by."""
    x, number = operation.operands
    owner = getattr(number.owner, "operation", number.owner)
    found = _VECTOR.fullmatch(str(x.type))
    if found is None or x.type != operation.results[0].type or getattr(owner, "name", "") not in _NUMBERS:
        return
    value, element = owner.attributes["value"], found[1]
    plain = value.value
    text = repr(float(plain)) if element in FORMATS else str(int(plain))
    if not math.isfinite(plain):
        return
    literal = ir.Attribute.parse(f"dense<{text}> : tensor<{element}>", operation.context)
    b = _before(
        operation, "torch.vtensor.literal", [], ir.Type.parse(f"!torch.vtensor<[],{element}>", operation.context), {"value": literal}
    )
    name = operation.name.replace(".Scalar", ".Tensor")
    operation.results[0].replace_all_uses_with(_before(operation, name, [x, b], operation.results[0].type))
    operation.erase()


def _before(
    operation: ir.Operation, name: str, operands: list[ir.Value], kind: ir.Type, attributes: dict[str, ir.Attribute] | None = None
) -> ir.Value:  # fmt: skip
    made = ir.Operation.create(
        name, results=[kind], operands=operands, attributes=attributes or {}, loc=operation.location, ip=ir.InsertionPoint(operation)
    )
    return made.results[0]


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
