"""What all operations of the `num` dialect share: pure, one tensor result unless they say otherwise, facts attached."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Self

from xdsl.dialects.builtin import FloatAttr, IntegerAttr, StringAttr, TensorType
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import IRDLOperation, base, operand_def, prop_def, result_def, traits_def
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from hnfc.dialects.facts import Facts
from hnfc.dialects.types import BOOL, DYNAMIC, ELEMENT_NAMES, IntsAttr, TypeMismatch, broadcast_shapes, reduced_shape, tensor

Tensor = TensorType[Attribute]


class NumOp(IRDLOperation, ABC):
    """A pure operation on tensors. `OPERATIONS` finds every concrete subclass by its name without the `num.` in front."""

    FACTS: ClassVar[Facts]
    traits = traits_def(Pure())

    @classmethod
    @abstractmethod
    def infer(cls, operands: Sequence[Tensor], attributes: dict[str, Any]) -> Tensor:
        """The type of the result. Raises TypeMismatch where the operands do not fit."""

    @classmethod
    def make(cls, *operands: SSAValue, **attributes: Any) -> Self:
        """Builds the operation with the result type that `infer` gives; attributes are plain Python values."""
        types = [as_tensor(operand.type) for operand in operands]
        properties = {name: encode(value) for name, value in attributes.items() if value is not None}
        return cls.create(operands=operands, result_types=[cls.infer(types, attributes)], properties=properties)

    def attributes_as_python(self) -> dict[str, Any]:
        """The properties as the plain values that `infer`, `real`, `evaluate` and `range` take."""
        return {name: decode(value) for name, value in self.properties.items()}

    def verify_(self) -> None:
        types = [as_tensor(operand.type) for operand in self.operands]
        expected = self.infer(types, self.attributes_as_python())
        got = as_tensor(self.results[0].type)
        if expected.element_type != got.element_type or not _shapes_agree(expected.get_shape(), got.get_shape()):
            raise VerifyException(f"{self.name}: expected result type {expected}, but got {got}")


def _shapes_agree(a: Sequence[int], b: Sequence[int]) -> bool:
    return len(a) == len(b) and all(x == y or DYNAMIC in (x, y) for x, y in zip(a, b, strict=True))


def as_tensor(attribute: Attribute) -> Tensor:
    if not isinstance(attribute, TensorType):
        raise TypeMismatch(f"expected a tensor, but got {attribute}")
    return attribute


def encode(value: Any) -> Attribute:
    """A plain Python value as the attribute that a property holds."""
    match value:
        case Attribute():
            return value
        case bool():
            return IntegerAttr(int(value), 1)
        case int():
            return IntegerAttr(value, 64)
        case float():
            return FloatAttr(value, 64)
        case str():
            return StringAttr(value)
        case tuple() | list():
            return IntsAttr(tuple(value))
    raise TypeError(f"no attribute for {value!r}")


def decode(attribute: Attribute) -> Any:
    match attribute:
        case IntsAttr():
            return attribute.data
        case FloatAttr():
            return attribute.value.data
        case IntegerAttr():
            return attribute.value.data
        case StringAttr():
            return attribute.data
    return attribute


class UnaryOp(NumOp):
    """f(x), element by element."""

    x = operand_def(TensorType)
    result = result_def(TensorType)
    assembly_format = "$x attr-dict `:` type($x) `->` type($result)"

    @classmethod
    def infer(cls, operands: Sequence[Tensor], attributes: dict[str, Any]) -> Tensor:
        (x,) = operands
        return x


class BinaryOp(NumOp):
    """f(x, y), element by element, with NumPy's broadcasting. Both operands have the element type of the result."""

    x = operand_def(TensorType)
    y = operand_def(TensorType)
    result = result_def(TensorType)
    assembly_format = "$x `,` $y attr-dict `:` type($x) `,` type($y) `->` type($result)"

    @classmethod
    def infer(cls, operands: Sequence[Tensor], attributes: dict[str, Any]) -> Tensor:
        x, y = operands
        if x.element_type != y.element_type:
            names = [ELEMENT_NAMES.get(t.element_type, str(t.element_type)) for t in operands]
            raise TypeMismatch(f"expected operands of one element type, but got {names[0]} and {names[1]}")
        return tensor(x.element_type, broadcast_shapes(x.get_shape(), y.get_shape()))


class ReductionOp(NumOp):
    """f over `axes` (counted from the left), which stay with size 1."""

    x = operand_def(TensorType)
    axes = prop_def(base(IntsAttr))
    result = result_def(TensorType)
    assembly_format = "$x $axes attr-dict `:` type($x) `->` type($result)"

    @classmethod
    def infer(cls, operands: Sequence[Tensor], attributes: dict[str, Any]) -> Tensor:
        (x,) = operands
        return tensor(x.element_type, reduced_shape(x.get_shape(), attributes["axes"]))


class AlongAxesOp(ReductionOp):
    """f along `axes`, in the shape of x (softmax and its kin)."""

    @classmethod
    def infer(cls, operands: Sequence[Tensor], attributes: dict[str, Any]) -> Tensor:
        (x,) = operands
        reduced_shape(x.get_shape(), attributes["axes"])
        return x


def to_bool(operand: Tensor) -> Tensor:
    return tensor(BOOL, operand.get_shape())
