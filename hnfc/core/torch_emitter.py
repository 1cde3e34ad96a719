"""Writes operations of the torch dialect at one place of a module: constants, types, and the look of literals."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from torch_mlir import ir
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, SSAValue

from hnfc.dialects.num.base import Tensor
from hnfc.dialects.num.constant import ConstantOp, constant_text
from hnfc.dialects.num.rounding import NUMPY_TYPES
from hnfc.dialects.torch import to_torch
from hnfc.dialects.types import ELEMENT_NAMES, FORMATS, tensor

DTYPE_CODES = {
    "ui8": 0, "si8": 1, "si16": 2, "si32": 3, "si64": 4, "f16": 5, "f32": 6, "f64": 7, "complex<f32>": 9, "complex<f64>": 10,
    "i1": 11, "bf16": 15, "f8E5M2": 23, "f8E4M3FN": 24, "f8E5M2FNUZ": 25, "f8E4M3FNUZ": 26,
}  # fmt: skip
"""torch's numbers for element types."""

Scalar: TypeAlias = int | float | bool | str | None
Operand: TypeAlias = Any
"""A torch value, a Scalar, or a list of them."""


class Emitter:
    """`resolve` gives the torch value of a num value; `move` says where operations go and what they are blamed on."""

    def __init__(self, context: ir.Context, resolve: Callable[[SSAValue], ir.Value], weights: Mapping[str, ir.Attribute]) -> None:
        self.context = context
        self.resolve = resolve
        self._weights = weights
        self.location = ir.Location.unknown(context)
        self.made: list[ir.Operation] = []
        self._point: ir.InsertionPoint | None = None
        self._scalars: dict[tuple[type, str], ir.Value] = {}
        self._types: dict[str, ir.Type] = {}

    def move(self, point: ir.InsertionPoint, location: ir.Location) -> None:
        """Everything that follows is written at `point`."""
        self._point, self.location = point, location
        self._scalars.clear()

    # types and attributes

    def type(self, kind: Attribute | str) -> ir.Type:
        text = kind if isinstance(kind, str) else to_torch(kind)
        found = self._types.get(text)
        if found is None:
            found = self._types[text] = ir.Type.parse(text, self.context)
        return found

    def ranked(self, element: str | Attribute, shape: Sequence[int]) -> Tensor:
        return tensor(element, shape)

    def weight(self, name: str, kind: Tensor) -> ir.Attribute:
        """The literal of a weight; one whose elements this context lacks refers to them by its name."""
        if name in self._weights:
            return self._weights[name]
        shape, element = kind.get_shape(), ELEMENT_NAMES[kind.element_type]
        quoted = name if name.isidentifier() else f'"{name}"'
        return self.attribute(f"dense_resource<{quoted}> : tensor<{''.join(f'{size}x' for size in shape)}{element}>")

    def attribute(self, text: str) -> ir.Attribute:
        return ir.Attribute.parse(text, self.context)

    # operations

    def create(
        self, name: str, operands: Sequence[Operand], *results: Attribute | str, attributes: Mapping[str, ir.Attribute] | None = None
    ) -> list[ir.Value]:
        """The results of one operation; Python scalars and lists among its operands become constants."""
        values = [self.operand(operand) for operand in operands]
        operation = ir.Operation.create(
            name,
            results=[self.type(kind) for kind in results],
            operands=values,
            attributes=dict(attributes or {}),
            loc=self.location,
            ip=self._point,
        )
        self.made.append(operation)
        return list(operation.results)

    def aten(self, name: str, operands: Sequence[Operand], result: Attribute | str) -> ir.Value:
        return self.create(f"torch.aten.{name}", operands, result)[0]

    def operator(self, name: str, operands: Sequence[Operand], result: Attribute | str) -> ir.Value:
        """An operation of torch that the torch dialect has no operation of its own for."""
        return self.create("torch.operator", operands, result, attributes={"name": ir.StringAttr.get(f"torch.aten.{name}", self.context)})[
            0
        ]

    def operand(self, operand: Operand) -> ir.Value:
        if isinstance(operand, ir.Value):
            return operand
        if isinstance(operand, list | tuple):
            return self._list([self.operand(item) for item in operand], operand)
        key = (type(operand), repr(operand))
        if key not in self._scalars:
            self._scalars[key] = self._scalar(operand)
        return self._scalars[key]

    def _scalar(self, value: Scalar) -> ir.Value:
        if value is None:
            return self.create("torch.constant.none", [], "!torch.none")[0]
        if isinstance(value, str):
            return self.create("torch.constant.str", [], "!torch.str", attributes={"value": ir.StringAttr.get(value, self.context)})[0]
        if isinstance(value, bool):
            return self.create("torch.constant.bool", [], "!torch.bool", attributes={"value": ir.BoolAttr.get(value, self.context)})[0]
        if isinstance(value, int):
            number = ir.IntegerAttr.get(ir.IntegerType.get_signless(64, self.context), value)
            return self.create("torch.constant.int", [], "!torch.int", attributes={"value": number})[0]
        number = ir.FloatAttr.get(ir.F64Type.get(self.context), value, loc=self.location)
        return self.create("torch.constant.float", [], "!torch.float", attributes={"value": number})[0]

    def _list(self, values: list[ir.Value], source: Sequence[Any]) -> ir.Value:
        tensors = any(str(value.type).startswith("!torch.vtensor") for value in values)
        kind = "vtensor" if tensors else "float" if any(isinstance(item, float) for item in source) else "int"
        return self.create("torch.prim.ListConstruct", values, f"!torch.list<{kind}>")[0]

    def literal(self, value: float, kind: Tensor) -> ir.Value:
        """A tensor of `kind` that is `value`, rounded to its element type, everywhere."""
        name, shape = ELEMENT_NAMES[kind.element_type], kind.get_shape()
        text = _element_text(value, name)
        dense = self.attribute(f"dense<{text}> : tensor<{''.join(f'{size}x' for size in shape)}{name}>")
        return self.create("torch.vtensor.literal", [], kind, attributes={"value": dense})[0]


def _element_text(value: float, element: str) -> str:
    if element == "i1":
        return "true" if value else "false"
    if element not in FORMATS:
        return str(int(value))
    if math.isfinite(value):
        return constant_text(value)
    bits = np.array(value, NUMPY_TYPES[element])
    return f"0x{int(bits.view(f'u{bits.itemsize}')):0{2 * bits.itemsize}X}"


def scalar_operand(value: SSAValue) -> float | int | bool | None:
    """The Python number that a rank-0 `num.constant` is, of the kind that its element type has."""
    if not isinstance(value.owner, ConstantOp) or not isinstance(value.type, TensorType) or value.type.get_shape():
        return None
    number, element = value.owner.value.value.data, ELEMENT_NAMES[value.type.element_type]
    return number if element in FORMATS else bool(number) if element == "i1" else int(number)
