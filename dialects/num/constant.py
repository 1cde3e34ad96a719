"""Values that are there before the program runs: numbers, weights, and counting."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from xdsl.dialects.builtin import FloatAttr, SymbolRefAttr, TensorType
from xdsl.irdl import irdl_op_definition, prop_def, result_def, traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import ConstantLike
from xdsl.utils.exceptions import VerifyException

from hnfc.dialects.facts import Access, Exactness, Facts
from hnfc.dialects.interval import ANYTHING, Interval
from hnfc.dialects.num.base import NumOp, Tensor, as_tensor
from hnfc.dialects.num.rounding import NUMPY_TYPES
from hnfc.dialects.types import ANY, tensor


class SourceOp(NumOp):
    """A value without operands, of the element type and shape of its result."""

    FROM_TYPE: ClassVar = frozenset({"element", "shape"})
    result = result_def(TensorType)

    @classmethod
    def infer(cls, operands: Sequence[Tensor], attributes: dict[str, Any]) -> Tensor:
        return tensor(attributes["element"], attributes["shape"])

    def verify_(self) -> None:
        as_tensor(self.results[0].type)


def constant_text(value: float) -> str:
    """The number so that MLIR's lexer reads it back exactly; a number that is not finite is a string."""
    if not math.isfinite(value):
        return f'"{value}"'
    text = repr(value)
    mantissa, e, exponent = text.partition("e")
    return text if "." in mantissa else f"{mantissa}.0{e}{exponent}"


@irdl_op_definition
class ConstantOp(SourceOp):
    """`value` everywhere. The value is a double even where the element type is narrower: a Python scalar keeps its digits.

    Written `num.constant 0.25 : tensor<2x3xf32>`, and `num.constant "inf" : tensor<f32>` where it is not finite.
    """

    name = "num.constant"
    value = prop_def(FloatAttr)
    traits = traits_def(ConstantLike())
    FACTS: ClassVar = Facts(
        access=Access.SOURCE,
        exactness=Exactness.CORRECT,
        accepts=ANY,
        real=lambda m, value, element, shape: m.const(value),
        evaluate=lambda value, element, shape: np.full(shape, value, NUMPY_TYPES[element]),
        range=lambda value, element, shape: Interval.point(value),
        torch=("vtensor.literal",),
    )

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {constant_text(self.value.value.data)}")
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.result.type)

    @classmethod
    def parse(cls, parser: Parser) -> ConstantOp:
        text = parser.parse_optional_str_literal()
        value = float(text) if text is not None else float(parser.parse_number())
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        result = parser.parse_type()
        return cls.create(result_types=[result], properties={"value": FloatAttr(value, 64)}, attributes=attributes)


@irdl_op_definition
class WeightOp(SourceOp):
    """The tensor called `symbol`; its elements stay where they are and are read on demand."""

    name = "num.weight"
    symbol = prop_def(SymbolRefAttr)
    assembly_format = "$symbol attr-dict `:` type($result)"
    FACTS: ClassVar = Facts(
        access=Access.SOURCE,
        exactness=Exactness.CORRECT,
        accepts=ANY,
        real=None,
        evaluate=None,
        range=lambda symbol, element, shape: ANYTHING,
        torch=("vtensor.literal",),
    )

    @property
    def weight_name(self) -> str:
        return str(self.symbol.string_value())  # type: ignore[no-untyped-call]


@irdl_op_definition
class IotaOp(SourceOp):
    """start, start + step, start + 2·step …: a vector."""

    name = "num.iota"
    start = prop_def(FloatAttr)
    step = prop_def(FloatAttr)
    assembly_format = "`from` $start `by` $step attr-dict `:` type($result)"
    FACTS: ClassVar = Facts(
        access=Access.SOURCE,
        exactness=Exactness.CORRECT,
        accepts=ANY,
        real=None,
        evaluate=lambda start, step, element, shape: (start + step * np.arange(shape[0])).astype(NUMPY_TYPES[element]),
        range=lambda start, step, element, shape: (
            Interval.point(start).hull(Interval.point(start + step * (shape[0] - 1))) if shape[0] > 0 else ANYTHING
        ),
        torch=("aten.arange", "aten.arange.start", "aten.arange.start_step"),
    )

    def verify_(self) -> None:
        if len(as_tensor(self.result.type).get_shape()) != 1:
            raise VerifyException(f"num.iota: expected a vector, but got {self.result.type}")
