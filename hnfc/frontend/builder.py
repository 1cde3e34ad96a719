"""Makes `num` operations quickly: cached types and attributes, no verification, one list of operations."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Any, TypeAlias

from torch_mlir import ir
from xdsl.dialects.builtin import DictionaryAttr, StringAttr, SymbolRefAttr, TensorType
from xdsl.ir import Attribute, Operation, SSAValue

from hnfc.dialects.num.base import NumOp, encode
from hnfc.dialects.num.constant import ConstantOp, WeightOp
from hnfc.dialects.num.opaque import OpaqueOp
from hnfc.dialects.num.rounding import CastOp
from hnfc.dialects.torch import from_torch
from hnfc.dialects.types import ELEMENT_TYPES, tensor
from hnfc.frontend import weights
from hnfc.frontend.weights import element_type

Entry: TypeAlias = Any
"""Value of torch at import: an SSAValue, or a Python int, float, bool, str, None, or list of entries."""

_RESOURCE = re.compile(r"dense_resource<(.*)> : ", re.DOTALL)
_SCALARS = {
    "torch.constant.int": ir.IntegerAttr, "torch.constant.float": ir.FloatAttr, "torch.constant.bool": ir.BoolAttr,
    "torch.constant.str": ir.StringAttr, "torch.constant.device": ir.StringAttr,
}  # fmt: skip
_EXACT = 2**53


class ImportBuilder:
    """The state of one function's import."""

    def __init__(self, weight_attributes: dict[str, ir.Attribute]) -> None:
        self.operations: list[Operation] = []
        self.entries: dict[ir.Value, Entry] = {}
        self.definitions: dict[ir.Value, ir.Operation] = {}
        self.opaque_origins: dict[SSAValue, tuple[ir.Value, ir.Operation]] = {}
        self._opaque_values: dict[ir.Value, SSAValue] = {}
        self._weights = weight_attributes
        self._types: dict[ir.Type, Attribute] = {}
        self._constants: dict[tuple[float, float, Attribute], SSAValue] = {}
        self._ranked: dict[tuple[Attribute, tuple[int, ...]], TensorType[Attribute]] = {}
        self._attributes: dict[tuple[type, Any], Attribute] = {}

    # types and attributes

    def type_of(self, value: ir.Value) -> Attribute:
        kind = value.type
        known = self._types.get(kind)
        if known is None:
            known = from_torch(str(kind))
            if isinstance(known, TensorType):
                known = self.tensor(known.element_type, known.get_shape())
            self._types[kind] = known
        return known

    def tensor(self, element: Attribute, shape: Iterable[int]) -> TensorType[Attribute]:
        key = (element, tuple(shape))
        found = self._ranked.get(key)
        if found is None:
            found = self._ranked[key] = tensor(*key)
        return found

    def attribute(self, value: Any) -> Attribute:
        key = (type(value), value.hex() if isinstance(value, float) else value)
        found = self._attributes.get(key)
        if found is None:
            found = self._attributes[key] = encode(value)
        return found

    # operations

    def append(self, operation: Operation) -> None:
        self.operations.append(operation)

    def emit(self, cls: type[NumOp], operands: tuple[SSAValue, ...], result: Attribute, **attributes: Any) -> SSAValue:
        """One operation whose result type is known."""
        properties = {name: self.attribute(value) for name, value in attributes.items()}
        operation = cls.create(operands=operands, result_types=(result,), properties=properties)
        self.operations.append(operation)
        return operation.results[0]

    def make(self, cls: type[NumOp], *operands: SSAValue, **attributes: Any) -> SSAValue:
        """One operation whose result type follows from its operands. Raises TypeMismatch."""
        kinds = [operand.type for operand in operands]
        result = cls.result_type(kinds, attributes)  # type: ignore[arg-type]
        kept = {name: value for name, value in attributes.items() if name not in cls.FROM_TYPE}
        return self.emit(cls, operands, self.tensor(result.element_type, result.get_shape()), **kept)

    def constant(self, value: float, element: Attribute) -> SSAValue:
        """The rank-0 constant; one operation for all uses of a value in a function."""
        number = float(value)
        key = (number, math.copysign(1.0, number), element)
        found = self._constants.get(key)
        if found is None:
            found = self._constants[key] = self.emit(ConstantOp, (), self.tensor(element, ()), value=number)
        return found

    def rollback(self, count: int) -> None:
        """Forgets all operations after the first `count`, which use nothing any more."""
        undone = {result for operation in self.operations[count:] for result in operation.results}
        for operation in self.operations[count:]:
            operation.drop_all_references()
        del self.operations[count:]
        if undone:
            self._constants = {key: value for key, value in self._constants.items() if value not in undone}

    def splat(self, value: float, kind: TensorType[Attribute]) -> SSAValue:
        return self.emit(ConstantOp, (), kind, value=float(value))

    def cast(self, x: SSAValue, element: Attribute) -> SSAValue:
        kind: TensorType[Attribute] = x.type  # type: ignore[assignment]
        if kind.element_type == element:
            return x
        return self.emit(CastOp, (x,), self.tensor(element, kind.get_shape()))

    def operand(self, entry: Entry, element: Attribute) -> SSAValue | None:
        """An operand of an elementwise operation on `element`: a tensor, cast if need be, or a number as a constant."""
        if isinstance(entry, SSAValue):
            return self.cast(entry, element) if isinstance(entry.type, TensorType) else None
        if isinstance(entry, bool | float) or (isinstance(entry, int) and abs(entry) <= _EXACT):
            return self.constant(entry, element)
        return None

    # constants, weights, and what the dialect does not know

    def take_constant(self, name: str, operation: ir.Operation) -> bool:
        """Return whether `operation` is a constant or a literal, which then is an entry."""
        if name == "torch.vtensor.literal":
            result = operation.results[0]
            value = self._literal(operation.attributes["value"], self.type_of(result))
            self.entries[result] = value
            self.opaque_origins[value] = (result, operation)
            return True
        if name == "torch.constant.none":
            scalar = None
        elif name == "torch.aten.Int.bool" and isinstance(self.entries[operation.operands[0]], bool):
            scalar = int(self.entries[operation.operands[0]])
        elif name in _SCALARS:
            scalar = operation.attributes["value"].value
        else:
            return False
        result = operation.results[0]
        self.entries[result] = scalar
        self.definitions[result] = operation
        return True

    def _literal(self, attribute: ir.Attribute, kind: Attribute) -> SSAValue:
        """A splat becomes a constant and everything else a weight, of the type that the literal says."""
        shaped = ir.ShapedType(attribute.type)
        if isinstance(kind, TensorType):
            found_type: Attribute = ELEMENT_TYPES.get(element_type(shaped)) or kind.element_type
            kind = self.tensor(found_type, kind.get_shape())
            number = _splat_value(attribute)
            if number is not None and math.prod(shaped.shape):
                return self.splat(number, kind)
        found = _RESOURCE.match(str(attribute)) if not isinstance(attribute, ir.DenseElementsAttr) else None
        wanted = found[1].strip('"') if found else f"weight_{len(self._weights)}"
        name, count = wanted, 1
        while name in self._weights and self._weights[name] != attribute:
            name, count = f"{wanted}_{count}", count + 1
        self._weights[name] = attribute
        operation = WeightOp.create(result_types=(kind,), properties={"symbol": SymbolRefAttr(name)})
        self.operations.append(operation)
        return operation.results[0]

    def tensor_or_opaque(self, value: ir.Value) -> SSAValue:
        """The num value of a torch value, which may be a constant that so far no num operation stands for."""
        entry = self.entries[value]
        if isinstance(entry, SSAValue):
            return entry
        if value not in self._opaque_values:
            definition = self.definitions[value]
            inputs = [self.tensor_or_opaque(operand) for operand in definition.operands]
            (made,) = self._opaque(definition, inputs, [self.type_of(value)])
            self._opaque_values[value] = made
            self.opaque_origins[made] = (value, definition)
        return self._opaque_values[value]

    def opaque(self, operation: ir.Operation, operands: list[ir.Value], types: list[Attribute]) -> tuple[SSAValue, ...]:
        return self._opaque(operation, [self.tensor_or_opaque(operand) for operand in operands], types)

    def _opaque(self, operation: ir.Operation, inputs: list[SSAValue], types: list[Attribute]) -> tuple[SSAValue, ...]:
        carried = {named: StringAttr(weights.text_of(operation, named)) for named in operation.attributes}
        properties: dict[str, Attribute] = {"operation": StringAttr(operation.name), "carried": DictionaryAttr(carried)}
        made = OpaqueOp.create(operands=inputs, result_types=types, properties=properties)
        self.operations.append(made)
        return tuple(made.results)


def _splat_value(attribute: ir.Attribute) -> float | None:
    """The number that all elements are, if a double holds it."""
    if not isinstance(attribute, ir.DenseElementsAttr) or not attribute.is_splat or "complex" in str(attribute.type):
        return None
    value = attribute.get_splat_value().value
    return None if isinstance(value, int) and abs(value) > _EXACT else float(value)
