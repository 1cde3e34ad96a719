"""Base classes of the `num` dialect's operations: pure, one tensor result unless they say otherwise, facts attached."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, StringAttr, TensorType
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import IRDLOperation, base, operand_def, prop_def, result_def, traits_def
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from hnfc.dialects.assembly import TYPES, Types
from hnfc.dialects.facts import Context, Exactness, Facts, Result
from hnfc.dialects.interval import Interval
from hnfc.dialects.types import (
    ANY,
    BOOL,
    DYNAMIC,
    ELEMENT_NAMES,
    IntsAttr,
    Kind,
    TypeMismatch,
    broadcast_shapes,
    format_of,
    kind_of,
    reduced_shape,
    tensor,
    working,
)

Tensor = TensorType[Attribute]
_ELEMENTS = {Result.TRUTH: "i1", Result.INDEX: "si64"}


class NumOp(IRDLOperation, ABC):
    """A pure operation on tensors. `OPERATIONS` finds every concrete subclass by its name without the `num.` in front."""

    FACTS: ClassVar[Facts]
    """Every concrete class has its own."""
    FROM_TYPE: ClassVar[frozenset[str]] = frozenset()
    """Attributes that `make` takes and the result type holds (the shape of a reshape, the element type of a cast)."""
    traits = traits_def(Pure())
    custom_directives = (Types,)

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "name" in vars(cls) and not hasattr(cls, "FACTS"):
            raise TypeError(f"{cls.__name__} needs FACTS: all that is known of the operation")

    @classmethod
    @abstractmethod
    def infer(cls, operands: Sequence[Tensor], attributes: dict[str, Any]) -> Tensor:
        """The type of the result, but for what `FACTS.result` says of its elements. Raises TypeMismatch where the operands do not fit."""

    @classmethod
    def make(cls, *operands: SSAValue, **attributes: Any) -> Self:
        """Builds the operation with the result type that `infer` gives; attributes are plain Python values."""
        types = [as_tensor(operand.type) for operand in operands]
        kept = {name: encode(value) for name, value in attributes.items() if value is not None and name not in cls.FROM_TYPE}
        return cls.create(operands=operands, result_types=[cls.result_type(types, attributes)], properties=kept)

    @classmethod
    def result_type(cls, operands: Sequence[Tensor], attributes: dict[str, Any]) -> Tensor:
        """The type that `infer` gives, with elements as `FACTS.result` says. Raises TypeMismatch too where the operation takes none like
        those of an operand."""
        facts = cls.FACTS
        for index, operand in enumerate(operands):
            accepted = facts.accepts if index in facts.alike else facts.others
            if accepted is not ANY and kind_of(operand.element_type) not in accepted:
                raise TypeMismatch(f"expected operand {index} to have elements of {kind_names(accepted)}, but got {element_name(operand)}")
        found = cls.infer(operands, attributes)
        kind = _ELEMENTS.get(facts.result)
        return tensor(kind, found.get_shape()) if kind is not None else found

    @classmethod
    def implied_results(cls, operands: Sequence[Attribute], properties: Mapping[str, Attribute]) -> list[Attribute] | None:
        """The types of the results; None where the result's type holds attributes. Raises TypeMismatch."""
        if cls.FROM_TYPE:
            return None
        result = cls.result_type(list(map(as_tensor, operands)), {name: decode(value) for name, value in properties.items()})
        return [result] * len(cls.get_irdl_definition().results)

    def attributes_as_python(self) -> dict[str, Any]:
        """The properties, and what `FROM_TYPE` names, as the plain values that `infer`, `real`, `evaluate` and `range` take."""
        attributes = {name: decode(value) for name, value in self.properties.items()}
        if self.FROM_TYPE:
            result = as_tensor(self.results[0].type)
            if "shape" in self.FROM_TYPE:
                attributes["shape"] = result.get_shape()
            if "source" in self.FROM_TYPE:
                attributes["source"] = as_tensor(self.operands[0].type).get_shape()
            for name in self.FROM_TYPE & {"element", "to"}:
                attributes[name] = element_name(result)
        return attributes

    def compute(self, *arrays: Any) -> Any:
        """Result of `evaluate` for this operation's attributes; floating-point exceptions stay silent."""
        if self.FACTS.evaluate is None:
            raise NotImplementedError(f"{self.name} cannot be evaluated")
        with np.errstate(all="ignore"):
            return self.FACTS.evaluate(*arrays, **self.attributes_as_python())

    def context(self) -> Context:
        """Inputs of a range besides intervals and attributes: the number of elements that meet, and the format."""
        return Context(1, format_of(self.results[0].type))

    def transfer(self, *intervals: Interval) -> Interval:
        """An interval that holds every value of the result, after rounding to its element type.

        A result that is not finite in that type because it overflowed is held too (as ±inf, or as the largest number).
        """
        attributes = self.attributes_as_python()
        if self.FACTS.contextual:
            attributes["context"] = self.context()
        result: Interval = self.FACTS.range(*intervals, **attributes)
        form = format_of(self.results[0].type)
        if form is None:
            return result
        least = form.underflow * self.FACTS.roundings
        if working(form) is not form:
            least += self.FACTS.stray_half
        if self.FACTS.stray is not None:
            stray = float(self.FACTS.stray(working(form), *intervals))
            if math.isinf(stray):
                return Interval(-math.inf, math.inf, True)
            least += stray
        early = working(form).largest / self.FACTS.early
        if self.FACTS.early > 1 and result.magnitude > early:
            result = Interval(
                -math.inf if result.lo < -early else result.lo, math.inf if result.hi > early else result.hi, result.nan, result.minus
            )
        rounded = result.widened(form.unit_roundoff * self.FACTS.ulps, least, form.largest)
        if self.FACTS.exactness not in (Exactness.SELECTION, Exactness.NEGATION):
            return rounded
        # an element stays what it is, but for one that is flushed to 0
        lo, hi = (x if least < abs(x) <= form.largest else y for x, y in ((result.lo, rounded.lo), (result.hi, rounded.hi)))
        return Interval(lo, hi, rounded.nan, rounded.minus)

    def verify_(self) -> None:
        types = [as_tensor(operand.type) for operand in self.operands]
        expected = self.result_type(types, self.attributes_as_python())
        got = as_tensor(self.results[0].type)
        if expected.element_type != got.element_type or not _shapes_agree(expected.get_shape(), got.get_shape()):
            raise VerifyException(f"{self.name}: expected result type {expected}, but got {got}")


def kind_names(kinds: Kind) -> str:
    """The kinds of element types in words."""
    return " or ".join(f"{name} type" for kind, name in _KIND_NAMES.items() if kind in kinds)


_KIND_NAMES = {Kind.FLOAT: "floating-point", Kind.INTEGER: "integer", Kind.TRUTH: "truth", Kind.COMPLEX: "complex"}


def _shapes_agree(a: Sequence[int], b: Sequence[int]) -> bool:
    return len(a) == len(b) and all(x == y or DYNAMIC in (x, y) for x, y in zip(a, b, strict=True))


def element_name(operand: Tensor) -> str:
    name = ELEMENT_NAMES.get(operand.element_type)
    return str(operand.element_type) if name is None else name


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
            return bool(attribute.value.data) if attribute.type == BOOL else attribute.value.data
        case StringAttr():
            return attribute.data
    return attribute


class UnaryOp(NumOp):
    """f(x), element by element."""

    x = operand_def(TensorType)
    result = result_def(TensorType)
    assembly_format = f"$x {TYPES}"

    @classmethod
    def infer(cls, operands: Sequence[Tensor], attributes: dict[str, Any]) -> Tensor:
        (x,) = operands
        return x


class BinaryOp(NumOp):
    """f(x, y), element by element, with NumPy's broadcasting. Both operands have the element type of the result."""

    x = operand_def(TensorType)
    y = operand_def(TensorType)
    result = result_def(TensorType)
    assembly_format = f"$x `,` $y {TYPES}"

    @classmethod
    def infer(cls, operands: Sequence[Tensor], attributes: dict[str, Any]) -> Tensor:
        x, y = operands
        if x.element_type != y.element_type:
            raise TypeMismatch(f"expected operands of one element type, but got {element_name(x)} and {element_name(y)}")
        return tensor(x.element_type, broadcast_shapes(x.get_shape(), y.get_shape()))


def is_plain_function(operation: type[NumOp]) -> bool:
    """Return whether it is f(x) or f(x, y) and nothing else: torch's operation of its name takes the same operands."""
    return issubclass(operation, UnaryOp | BinaryOp) and not operation.FROM_TYPE and not operation.get_irdl_definition().properties


class ReductionOp(NumOp):
    """f over `axes` (counted from the left), which stay with size 1."""

    x = operand_def(TensorType)
    axes = prop_def(base(IntsAttr))
    result = result_def(TensorType)
    assembly_format = f"$x $axes {TYPES}"

    @classmethod
    def infer(cls, operands: Sequence[Tensor], attributes: dict[str, Any]) -> Tensor:
        (x,) = operands
        return tensor(x.element_type, reduced_shape(x.get_shape(), attributes["axes"]))

    def context(self) -> Context:
        return Context(elements(as_tensor(self.x.type), self.axes.data), format_of(self.x.type))


class PredicateOp(UnaryOp):
    """A condition on x, element by element."""


class LogicalOp(BinaryOp):
    """A connective of x and y, element by element."""


class AlongAxesOp(ReductionOp):
    """f along `axes`, in the shape of x (softmax and its kin)."""

    @classmethod
    def infer(cls, operands: Sequence[Tensor], attributes: dict[str, Any]) -> Tensor:
        (x,) = operands
        reduced_shape(x.get_shape(), attributes["axes"])
        return x


def elements(operand: Tensor, axes: Sequence[int]) -> float:
    """The number of elements along `axes`; inf where it is not known."""
    sizes = [operand.get_shape()[axis] for axis in axes]
    return math.inf if DYNAMIC in sizes else float(math.prod(sizes))
