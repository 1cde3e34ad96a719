"""Elementwise operations of StableHLO and CHLO in the torch dialect."""

from __future__ import annotations

from typing import Any

from torch_mlir import ir
from torch_mlir._mlir_libs import _stablehlo

from hnfc.frontend.stablehlo_translation import HANDLERS, Handler, Made, Translation, element_of, integer, shape_of, translates

_SAME = {
    "abs": "abs", "ceil": "ceil", "cosine": "cos", "exponential": "exp", "exponential_minus_one": "expm1", "floor": "floor", "log": "log",
    "log_plus_one": "log1p", "logistic": "sigmoid", "negate": "neg", "round_nearest_even": "round", "rsqrt": "rsqrt", "sine": "sin",
    "sqrt": "sqrt", "tan": "tan", "tanh": "tanh", "chlo.acos": "acos", "chlo.acosh": "acosh", "chlo.asin": "asin", "chlo.asinh": "asinh",
    "chlo.atan": "atan", "chlo.atanh": "atanh", "chlo.cosh": "cosh", "chlo.erf": "erf", "chlo.sinh": "sinh", "chlo.square": "square",
    "chlo.tan": "tan",
}  # fmt: skip
"""Functions that torch has under another name."""
_LACKING = {"chlo.erfc": "special_erfc", "chlo.lgamma": "lgamma", "chlo.digamma": "digamma", "chlo.erf_inv": "special_erfinv"}
"""Functions of torch that the torch dialect has no operation of its own for."""


def _function(name: str) -> Handler:
    def handler(t: Translation, op: ir.Operation, operands: list[ir.Value]) -> Made:
        return t.like(name, operands[0])

    return handler


def _operator(name: str) -> Handler:
    def handler(t: Translation, op: ir.Operation, operands: list[ir.Value]) -> Made:
        (x,) = operands
        kind = x.type
        return t.note(t.emitter.operator(name, [x], str(kind)), *t.kinds[x])

    return handler


for _name, _torch in _SAME.items():
    HANDLERS[_name if "." in _name else f"stablehlo.{_name}"] = _function(_torch)
for _name, _torch in _LACKING.items():
    HANDLERS[_name] = _operator(_torch)


@translates("sign")
def sign(t: Translation, op: ir.Operation, operands: list[ir.Value]) -> Made:
    """NaN stays NaN and -0 stays -0, of which torch's sign makes 0."""
    (x,) = operands
    if not t.is_float(x):
        return t.like("sign", x)
    zero = t.aten("eq.Tensor", [x, t.scalar(0.0, t.element(x))], "i1", t.shape(x))
    unordered = t.aten("ne.Tensor", [x, x], "i1", t.shape(x))
    return _where(t, t.aten("logical_or", [zero, unordered], "i1", t.shape(x)), x, t.like("sign", x))


def _where(t: Translation, condition: ir.Value, x: ir.Value, y: ir.Value) -> ir.Value:
    return t.aten("where.self", [condition, x, y], *t.kinds[x])


@translates("round_nearest_afz")
def round_away_from_zero(t: Translation, op: ir.Operation, operands: list[ir.Value]) -> Made:
    """trunc(x), one further from 0 where what was cut off is a half or more: x - trunc(x) is exact."""
    (x,) = operands
    whole = t.like("trunc", x)
    rest = t.like("sub.Tensor", x, whole, 1)
    far = t.aten("ge.Tensor", [t.like("abs", rest), t.scalar(0.5, t.element(x))], "i1", t.shape(x))
    return _where(t, far, t.like("add.Tensor", whole, t.like("sign", x), 1), whole)


@translates("is_finite", "chlo.is_inf")
def classified(t: Translation, op: ir.Operation, operands: list[ir.Value]) -> Made:
    name = "isfinite" if op.name == "stablehlo.is_finite" else "isinf"
    return t.aten(name, operands, "i1", t.shape(operands[0]))


@translates("not")
def complement(t: Translation, op: ir.Operation, operands: list[ir.Value]) -> Made:
    return t.like("logical_not" if t.element(operands[0]) == "i1" else "bitwise_not", operands[0])


# two operands

_TWO = {"maximum": "maximum", "minimum": "minimum", "remainder": "fmod.Tensor", "atan2": "atan2"}
_LOGICAL = {"add": "logical_or", "multiply": "logical_and", "and": "logical_and", "or": "logical_or", "xor": "logical_xor",
            "maximum": "logical_or", "minimum": "logical_and"}  # fmt: skip
_BITWISE = {"and": "bitwise_and.Tensor", "or": "bitwise_or.Tensor", "xor": "bitwise_xor.Tensor",
            "shift_left": "bitwise_left_shift.Tensor", "shift_right_arithmetic": "bitwise_right_shift.Tensor"}  # fmt: skip


@translates("add", "subtract", "multiply", "divide", "maximum", "minimum", "remainder", "atan2", "power", "and", "or", "xor")
def binary(t: Translation, op: ir.Operation, operands: list[ir.Value]) -> Made:
    return combine(t, op.name, operands)


def combine(t: Translation, operation: str, operands: list[ir.Value]) -> ir.Value | None:
    """Function of an operation of two operands; reductions use it too."""
    name, element = operation.removeprefix("stablehlo."), t.element(operands[0])
    if element == "i1":
        return t.elementwise(_LOGICAL[name], operands, element) if name in _LOGICAL else None
    if name in _BITWISE:
        return t.elementwise(_BITWISE[name], operands, element)
    if name in ("add", "subtract"):
        return t.elementwise("add.Tensor" if name == "add" else "sub.Tensor", operands, element, 1)
    if name == "multiply":
        return t.elementwise("mul.Tensor", operands, element)
    if name == "divide":
        if t.is_float(operands[0]):
            return t.elementwise("div.Tensor", operands, element)
        return t.elementwise("div.Tensor_mode", operands, element, "trunc")
    if name == "power":
        return t.elementwise("pow.Tensor_Tensor", operands, element) if t.is_float(operands[0]) else None
    return t.elementwise(_TWO[name], operands, element)


@translates("shift_left", "shift_right_arithmetic")
def shift(t: Translation, op: ir.Operation, operands: list[ir.Value]) -> Made:
    """Shifts by a constant below the width: beyond it, StableHLO gives 0 or the sign, and C anything."""
    number = t.number(operands[1])
    element = t.element(operands[0])
    if number is None or not element.startswith("si") or not 0 <= number < int(element[2:]):
        return None
    return combine(t, op.name, operands)


@translates("compare", "chlo.broadcast_compare")
def compare(t: Translation, op: ir.Operation, operands: list[ir.Value]) -> Made:
    if "compare_type" in op.attributes and "TOTALORDER" in str(op.attributes["compare_type"]):
        return None
    direction = str(_stablehlo.ComparisonDirectionAttr(op.attributes["comparison_direction"]).value).lower()
    if t.element(operands[0]) == "i1":
        differ = t.elementwise("logical_xor", operands, "i1") if direction in ("eq", "ne") else None
        return t.like("logical_not", differ) if direction == "eq" and differ is not None else differ
    return t.elementwise(f"{direction}.Tensor", operands, "i1")


@translates("select")
def select(t: Translation, op: ir.Operation, operands: list[ir.Value]) -> Made:
    element, shape = t.kinds[operands[1]]
    return t.of_one_shape("where.self", operands, element, shape)


@translates("clamp")
def clamp(t: Translation, op: ir.Operation, operands: list[ir.Value]) -> Made:
    low, x, high = operands
    numbers = [t.number(low), t.number(high)]
    if None not in numbers:
        return t.like("clamp", x, *numbers)
    element, shape = t.kinds[x]
    low, high = t.thin.get(low, low), t.thin.get(high, high)
    return t.aten("minimum", [t.aten("maximum", [x, low], element, shape), high], element, shape)


@translates("convert")
def convert(t: Translation, op: ir.Operation, operands: list[ir.Value]) -> Made:
    (x,) = operands
    kind = op.results[0].type
    element = element_of(kind)
    if element is None:
        return None
    number = t.number(x)
    if number is not None and element.startswith(("f", "b")) and not t.is_float(x):
        return _spread(t, t.scalar(float(number), element), shape_of(kind))
    return t.cast(x, element)


def _spread(t: Translation, small: ir.Value, shape: tuple[int, ...]) -> ir.Value:
    return t.expand(small, shape) if shape else small


@translates("reduce_precision")
def reduce_precision(t: Translation, op: ir.Operation, operands: list[ir.Value]) -> Made:
    """A round trip through the format with these many bits, where torch has it."""
    bits = integer(op.attributes, "exponent_bits"), integer(op.attributes, "mantissa_bits")
    narrow = {(8, 23): "f32", (8, 7): "bf16", (5, 10): "f16"}.get(bits)
    (x,) = operands
    return None if narrow is None else t.cast(t.cast(x, narrow), t.element(x))


@translates("optimization_barrier")
def barrier(t: Translation, op: ir.Operation, operands: list[ir.Value]) -> Any:
    return tuple(operands)
