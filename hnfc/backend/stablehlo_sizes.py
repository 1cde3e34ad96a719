"""Sizes known at run time, in arithmetic of StableHLO where StableHLO's own pass for MLIR's shape dialect gives up."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence

import numpy as np
from torch_mlir import ir

from hnfc.core.regions import operations_within

_ARITHMETIC = {
    "arith.addi": "add", "arith.subi": "subtract", "arith.muli": "multiply", "arith.divui": "divide", "arith.divsi": "divide",
    "arith.maxsi": "maximum", "arith.minsi": "minimum", "arith.maxui": "maximum", "arith.minui": "minimum",
}  # fmt: skip
"""Of sizes, which are never negative."""
_CASTS = ("arith.index_cast", "arith.index_castui", "arith.extsi", "arith.trunci")


def pair_broadcasts(module: ir.Module) -> None:
    """Makes broadcasts of more than two shapes one of two after another."""
    for operation in list(operations_within(module.operation)):
        if operation.name != "shape.broadcast" or len(operation.operands) <= 2:
            continue
        first, *rest = operation.operands
        for operand in rest:
            first = ir.Operation.create(
                "shape.broadcast", results=[operation.results[0].type], operands=[first, operand],
                loc=operation.location, ip=ir.InsertionPoint(operation),
            ).results[0]  # fmt: skip
        operation.results[0].replace_all_uses_with(first)
        operation.erase()


def write_shapes(module: ir.Module) -> None:
    """Writes shapes made of int64 scalars, as those of a view with a size -1 are, as concatenations of tensors."""
    for operation in list(operations_within(module.operation)):
        if operation.name == "tensor.from_elements" and str(operation.results[0].type).endswith("xi64>"):
            with contextlib.suppress(_Unknown):  # the pass that follows names the operation
                operation.results[0].replace_all_uses_with(_Scalars(operation).shape())
                operation.erase()


class _Unknown(Exception):
    """A scalar is computed in a way that is not known here."""


class _Scalars:
    """Scalars of one shape as tensors of one int64, written in front of it."""

    def __init__(self, operation: ir.Operation) -> None:
        self.operation = operation
        self.context = operation.context
        self._written: dict[ir.Value, ir.Value] = {}

    def shape(self) -> ir.Value:
        """Raises _Unknown."""
        parts = [self._tensor(operand) for operand in self.operation.operands]
        attributes = {"dimension": ir.IntegerAttr.get(ir.IntegerType.get_signless(64, self.context), 0)}
        return self._create("concatenate", parts, f"tensor<{len(parts)}xi64>", attributes)

    def _tensor(self, scalar: ir.Value) -> ir.Value:
        if scalar not in self._written:
            self._written[scalar] = self._of(_owner(scalar))
        return self._written[scalar]

    def _of(self, owner: ir.Operation) -> ir.Value:
        if owner.name in _CASTS:
            return self._tensor(owner.operands[0])
        if owner.name == "arith.constant":
            return self._constant(_number(owner))
        if owner.name in _ARITHMETIC:
            return self._create(_ARITHMETIC[owner.name], [self._tensor(operand) for operand in owner.operands], "tensor<1xi64>")
        if owner.name == "tensor.dim":
            return self._size(owner.operands[0], _number(_owner(owner.operands[1])))
        if owner.name == "shape.num_elements":
            source = _owner(owner.operands[0])
            if source.name == "shape.shape_of" and isinstance(source.operands[0].type, ir.RankedTensorType):
                return self._count(source.operands[0])
        raise _Unknown

    def _count(self, tensor: ir.Value) -> ir.Value:
        found = self._constant(1)
        for axis in range(ir.ShapedType(tensor.type).rank):
            found = self._create("multiply", [found, self._size(tensor, axis)], "tensor<1xi64>")
        return found

    def _size(self, tensor: ir.Value, axis: int) -> ir.Value:
        kind = ir.ShapedType(tensor.type)
        if not kind.is_dynamic_dim(axis):
            return self._constant(kind.get_dim_size(axis))
        attributes = {"dimension": ir.IntegerAttr.get(ir.IntegerType.get_signless(64, self.context), axis)}
        size = self._create("get_dimension_size", [tensor], "tensor<i32>", attributes)
        return self._create("reshape", [self._create("convert", [size], "tensor<i64>")], "tensor<1xi64>")

    def _constant(self, number: int) -> ir.Value:
        value = ir.DenseElementsAttr.get(np.array([number], np.int64), context=self.context)
        return self._create("constant", [], "tensor<1xi64>", {"value": value})

    def _create(self, name: str, operands: Sequence[ir.Value], kind: str, attributes: Mapping[str, ir.Attribute] | None = None) -> ir.Value:
        made = ir.Operation.create(
            f"stablehlo.{name}", results=[ir.Type.parse(kind, self.context)], operands=operands, attributes=dict(attributes or {}),
            loc=self.operation.location, ip=ir.InsertionPoint(self.operation),
        )  # fmt: skip
        return made.results[0]


def _owner(value: ir.Value) -> ir.Operation:
    owner = getattr(value.owner, "operation", value.owner)
    if not isinstance(owner, ir.Operation):
        raise _Unknown
    return owner


def _number(constant: ir.Operation) -> int:
    if constant.name != "arith.constant":
        raise _Unknown
    return int(ir.IntegerAttr(constant.attributes["value"]).value)
