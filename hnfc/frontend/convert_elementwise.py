"""Elementwise operations, conditions and casts of torch."""

from __future__ import annotations

import math
from typing import Any

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, SSAValue

from hnfc.dialects.num import OPERATIONS
from hnfc.dialects.num.activation import GeluOp
from hnfc.dialects.num.arithmetic import AddOp, DivOp, MaximumOp, MinimumOp, MulOp, SubOp
from hnfc.dialects.num.base import BinaryOp, UnaryOp
from hnfc.dialects.num.binary_functions import PowOp
from hnfc.dialects.num.comparison import CompareOp, LogicalAndOp, LogicalNotOp, LogicalOrOp, LogicalXorOp, WhereOp
from hnfc.dialects.num.constant import ConstantOp, WeightOp
from hnfc.dialects.num.elementary import DetachOp, ReciprocalOp, RsqrtOp, SqrtOp, SquareOp
from hnfc.dialects.num.rounding import FloorOp, TruncOp
from hnfc.dialects.types import BOOL
from hnfc.frontend.builder import Entry, ImportBuilder
from hnfc.frontend.registry import converts, element, is_float, is_number, is_tensor, promoted, shape

Tensor = TensorType[Attribute]


def register_unary(torch_name: str, cls: type[UnaryOp]) -> None:
    @converts(torch_name)
    def unary(b: ImportBuilder, args: list[Entry], result: Attribute) -> SSAValue | None:
        x = args[0]
        if x.type is result:
            return b.emit(cls, (x,), result)
        if not is_tensor(x) or not isinstance(result, TensorType):
            return None
        return b.emit(cls, (b.cast(x, result.element_type),), result)


def register_binary(torch_name: str, cls: type[BinaryOp]) -> None:
    @converts(torch_name)
    def binary(b: ImportBuilder, args: list[Entry], result: Attribute) -> SSAValue | None:
        return elementwise(b, cls, args[0], args[1], result)


def elementwise(b: ImportBuilder, cls: Any, x: Entry, y: Entry, result: Attribute) -> SSAValue | None:
    """cls(x, y), both cast to the element type of the result."""
    if not isinstance(result, TensorType):
        return None
    left, right = b.operand(x, result.element_type), b.operand(y, result.element_type)
    if left is None or right is None:
        return None
    return b.emit(cls, (left, right), result)


def _times(b: ImportBuilder, x: Entry, factor: Entry, kind: Attribute) -> Entry:
    """x·factor, or x where factor is 1."""
    if factor is None or factor == 1:
        return x
    left, right = b.operand(x, kind), b.operand(factor, kind)
    return None if left is None or right is None else b.make(MulOp, left, right)


@converts("aten.add.Tensor", "aten.add.Scalar")
def add(b: ImportBuilder, args: list[Entry], result: Attribute) -> SSAValue | None:
    if not isinstance(result, TensorType):
        return None
    x, y, alpha = args
    if result.element_type == BOOL:
        return elementwise(b, LogicalOrOp, x, y, result) if alpha == 1 else None
    return elementwise(b, AddOp, x, _times(b, y, alpha, result.element_type), result)


@converts("aten.sub.Tensor", "aten.sub.Scalar")
def sub(b: ImportBuilder, args: list[Entry], result: Attribute) -> SSAValue | None:
    if not isinstance(result, TensorType):
        return None
    x, y, alpha = args
    return elementwise(b, SubOp, x, _times(b, y, alpha, result.element_type), result)


@converts("aten.rsub.Scalar", "aten.rsub.Tensor")
def rsub(b: ImportBuilder, args: list[Entry], result: Attribute) -> SSAValue | None:
    if not isinstance(result, TensorType):
        return None
    x, y, alpha = args
    return elementwise(b, SubOp, y, _times(b, x, alpha, result.element_type), result)


@converts("aten.mul.Tensor", "aten.mul.Scalar")
def mul(b: ImportBuilder, args: list[Entry], result: Attribute) -> SSAValue | None:
    x, y = args
    if not isinstance(result, TensorType):
        return None
    if result.element_type == BOOL:
        return elementwise(b, LogicalAndOp, x, y, result)
    if y == 1 and is_number(y) and x.type is result:
        return x  # type: ignore[no-any-return]
    return elementwise(b, MulOp, x, y, result)


@converts("aten.div.Tensor", "aten.div.Scalar", "aten.true_divide.Tensor")
def div(b: ImportBuilder, args: list[Entry], result: Attribute) -> SSAValue | None:
    return elementwise(b, DivOp, args[0], args[1], result)


@converts("aten.div.Tensor_mode", "aten.div.Scalar_mode")
def div_mode(b: ImportBuilder, args: list[Entry], result: Attribute) -> SSAValue | None:
    x, y, mode = args
    if not isinstance(result, TensorType) or not is_float(result.element_type):
        return None
    quotient = elementwise(b, DivOp, x, y, result)
    if mode is None or quotient is None:
        return quotient
    return b.emit({"floor": FloorOp, "trunc": TruncOp}[mode], (quotient,), result)


@converts("aten.floor_divide", "aten.floor_divide.Scalar")
def floor_divide(b: ImportBuilder, args: list[Entry], result: Attribute) -> SSAValue | None:
    return div_mode(b, [*args[:2], "floor"], result)  # type: ignore[no-any-return]


@converts("aten.addcmul")
def addcmul(b: ImportBuilder, args: list[Entry], result: Attribute, cls: Any = MulOp) -> SSAValue | None:
    x, y, z, value = args
    if not isinstance(result, TensorType):
        return None
    left, right = b.operand(y, result.element_type), b.operand(z, result.element_type)
    if left is None or right is None:
        return None
    scaled = _times(b, left, value, result.element_type)
    return elementwise(b, AddOp, x, b.make(cls, scaled, right), result)


@converts("aten.addcdiv")
def addcdiv(b: ImportBuilder, args: list[Entry], result: Attribute) -> SSAValue | None:
    return addcmul(b, args, result, DivOp)  # type: ignore[no-any-return]


@converts("aten.lerp.Scalar", "aten.lerp.Tensor")
def lerp(b: ImportBuilder, args: list[Entry], result: Attribute) -> SSAValue | None:
    """x + weight·(y - x); y - (y - x)·(1 - weight) for weights from ½ on, as torch computes it."""
    x, y, weight = args
    if not isinstance(result, TensorType) or not (is_tensor(x) and is_tensor(y) and element(x) == element(y) == result.element_type):
        return None
    w = b.operand(weight, result.element_type)
    if w is None:
        return None
    difference, varies = b.make(SubOp, y, x), isinstance(weight, SSAValue)
    starts, ends = None, None
    if varies or abs(weight) < 0.5:
        starts = elementwise(b, AddOp, x, b.make(MulOp, w, difference), result)
    if varies or not abs(weight) < 0.5:
        rest = b.make(SubOp, b.constant(1.0, result.element_type), w)
        ends = elementwise(b, SubOp, y, b.make(MulOp, difference, rest), result)
    if starts is None or ends is None:
        return starts or ends
    near = b.make(CompareOp, b.make(OPERATIONS["abs"], w), b.constant(0.5, result.element_type), predicate="lt")
    return b.emit(WhereOp, (near, starts, ends), result)


@converts("aten.pow.Tensor_Scalar")
def pow_scalar(b: ImportBuilder, args: list[Entry], result: Attribute) -> SSAValue | None:
    x, y = args
    if not isinstance(result, TensorType) or not is_number(y):
        return None
    special = {2: SquareOp, 0.5: SqrtOp, -1: ReciprocalOp, -0.5: RsqrtOp}.get(y)
    base = b.operand(x, result.element_type)
    if base is None:
        return None
    if y == 1:
        return base
    if special is not None and (y == 2 or is_float(result.element_type)):
        return b.emit(special, (base,), result)
    return elementwise(b, PowOp, base, y, result)


@converts("aten.clamp", "aten.clamp.Tensor", "aten.hardtanh")
def clamp(b: ImportBuilder, args: list[Entry], result: Attribute) -> SSAValue | None:
    """minimum(maximum(x, low), high)."""
    x, low, high = args
    if low is not None:
        x = elementwise(b, MaximumOp, x, low, result)
    if high is not None and x is not None:
        x = elementwise(b, MinimumOp, x, high, result)
    return x if x is not None and x.type == result else None


@converts("aten.clamp_min", "aten.clamp_min.Tensor")
def clamp_min(b: ImportBuilder, args: list[Entry], result: Attribute) -> SSAValue | None:
    return elementwise(b, MaximumOp, args[0], args[1], result)


@converts("aten.clamp_max", "aten.clamp_max.Tensor")
def clamp_max(b: ImportBuilder, args: list[Entry], result: Attribute) -> SSAValue | None:
    return elementwise(b, MinimumOp, args[0], args[1], result)


@converts("aten.relu6")
def relu6(b: ImportBuilder, args: list[Entry], result: Attribute) -> SSAValue | None:
    return clamp(b, [args[0], 0.0, 6.0], result)  # type: ignore[no-any-return]


@converts("aten.leaky_relu")
def leaky_relu(b: ImportBuilder, args: list[Entry], result: Attribute) -> SSAValue | None:
    """x where x > 0, else slope·x."""
    x, slope = args
    if not isinstance(result, TensorType) or x.type != result or not is_number(slope):
        return None
    low = elementwise(b, MulOp, x, slope, result)
    positive = b.make(CompareOp, x, b.constant(0.0, result.element_type), predicate="gt")
    return None if low is None else b.emit(WhereOp, (positive, x, low), result)


@converts("aten.elu")
def elu(b: ImportBuilder, args: list[Entry], result: Attribute) -> SSAValue | None:
    """x where x > 0, else alpha·(e^x - 1); torch's scales of both sides must be 1."""
    x, alpha, scale, input_scale = args
    if not isinstance(result, TensorType) or x.type != result or scale != 1 or input_scale != 1 or not is_number(alpha):
        return None
    low = _times(b, b.emit(OPERATIONS["expm1"], (x,), result), alpha, result.element_type)
    positive = b.make(CompareOp, x, b.constant(0.0, result.element_type), predicate="gt")
    return b.emit(WhereOp, (positive, x, low), result)


@converts("aten.gelu")
def gelu(b: ImportBuilder, args: list[Entry], result: Attribute) -> SSAValue | None:
    x, approximate = args
    return b.emit(GeluOp, (x,), result, approximate=approximate) if x.type == result else None


@converts("aten.softplus")
def softplus(b: ImportBuilder, args: list[Entry], result: Attribute) -> SSAValue | None:
    """softplus(beta·x)/beta; a threshold below 20 would cut off what is not 0."""
    x, beta, threshold = args
    if not isinstance(result, TensorType) or x.type != result or not is_number(beta) or not is_number(threshold) or threshold < 20:
        return None
    if beta == 1:
        return b.emit(OPERATIONS["softplus"], (x,), result)
    inner = b.emit(OPERATIONS["softplus"], (_times(b, x, beta, result.element_type),), result)
    return elementwise(b, DivOp, inner, beta, result)


@converts("aten.log_sigmoid_forward")
def log_sigmoid_forward(b: ImportBuilder, args: list[Entry], result: Attribute, buffer: Attribute) -> Any:
    x = args[0]
    return (b.emit(OPERATIONS["log_sigmoid"], (x,), result), None) if x.type == result else None


@converts("aten.logit")
def logit(b: ImportBuilder, args: list[Entry], result: Attribute) -> SSAValue | None:
    """log(x / (1 - x))."""
    x, eps = args
    if eps is not None or not isinstance(result, TensorType) or x.type != result:
        return None
    rest = b.emit(SubOp, (b.constant(1.0, result.element_type), x), result)
    return b.emit(OPERATIONS["log"], (b.emit(DivOp, (x, rest), result),), result)


@converts("aten.special_ndtr")
def ndtr(b: ImportBuilder, args: list[Entry], result: Attribute) -> SSAValue | None:
    """(1 + erf(x·√½)) / 2, as torch computes it."""
    x = args[0]
    if not isinstance(result, TensorType) or x.type != result:
        return None
    one, half, root = (b.constant(number, result.element_type) for number in (1.0, 0.5, math.sqrt(0.5)))
    error = b.emit(OPERATIONS["erf"], (b.emit(MulOp, (x, root), result),), result)
    return b.emit(MulOp, (b.emit(AddOp, (one, error), result), half), result)


# conditions


def _register_comparison(predicate: str) -> None:
    @converts(f"aten.{predicate}.Tensor", f"aten.{predicate}.Scalar")
    def compare(b: ImportBuilder, args: list[Entry], result: Attribute) -> SSAValue | None:
        x, y = args
        kind = promoted(x, y)
        left, right = (None, None) if kind is None else (b.operand(x, kind), b.operand(y, kind))
        if left is None or right is None:
            return None
        return b.emit(CompareOp, (left, right), result, predicate=predicate)


for _predicate in ("eq", "ne", "lt", "le", "gt", "ge"):
    _register_comparison(_predicate)


def _register_logical(cls: Any, *names: str, only_bool: bool) -> None:
    @converts(*names)
    def logical(b: ImportBuilder, args: list[Entry], result: Attribute) -> SSAValue | None:
        x, y = args
        if only_bool and not (isinstance(result, TensorType) and result.element_type == BOOL):
            return None
        return elementwise(b, cls, x, y, result)


for _cls, _verb in ((LogicalAndOp, "and"), (LogicalOrOp, "or"), (LogicalXorOp, "xor")):
    _register_logical(_cls, f"aten.logical_{_verb}", only_bool=False)
    _names = [f"aten.bitwise_{_verb}.Tensor", f"aten.__{_verb}__.Tensor", f"aten.bitwise_{_verb}.Scalar"]
    _register_logical(_cls, *_names, only_bool=True)


@converts("aten.logical_not", "aten.bitwise_not")
def logical_not(b: ImportBuilder, args: list[Entry], result: Attribute) -> SSAValue | None:
    if not isinstance(result, TensorType) or result.element_type != BOOL:
        return None
    return b.emit(LogicalNotOp, (b.cast(args[0], BOOL),), result)


def _register_test(name: str) -> None:
    @converts(f"aten.{name}")
    def test(b: ImportBuilder, args: list[Entry], result: Attribute) -> SSAValue | None:
        return b.emit(OPERATIONS[name], (args[0],), result) if is_tensor(args[0]) else None


for _name in ("isnan", "isinf", "isfinite"):
    _register_test(_name)


@converts("aten.where.self", "aten.where.Scalar", "aten.where.ScalarSelf", "aten.where.ScalarOther")
def where(b: ImportBuilder, args: list[Entry], result: Attribute) -> SSAValue | None:
    p, x, y = args
    if not isinstance(result, TensorType) or not is_tensor(p):
        return None
    left, right = b.operand(x, result.element_type), b.operand(y, result.element_type)
    return None if left is None or right is None else b.emit(WhereOp, (b.cast(p, BOOL), left, right), result)


@converts("aten.masked_fill.Scalar", "aten.masked_fill.Tensor")
def masked_fill(b: ImportBuilder, args: list[Entry], result: Attribute) -> SSAValue | None:
    x, mask, value = args
    return where(b, [mask, value, x], result)  # type: ignore[no-any-return]


# casts, and operations that do nothing


@converts(
    "aten.to.dtype", "aten.to.dtype_layout", "aten.to.device", "aten.to.other", "aten.to.prim_Device", "aten._to_copy",
    "prims.convert_element_type", "aten.type_as", "npu.dtype_cast", "aten.clone", "aten.alias", "aten.contiguous", "aten.lift_fresh_copy",
    "prims.view_of",
)  # fmt: skip
def cast(b: ImportBuilder, args: list[Entry], result: Attribute) -> SSAValue | None:
    """A cast where the element type changes, else the same value."""
    x = args[0]
    if not is_tensor(x) or not isinstance(result, TensorType):
        return None
    if x.type == result:
        return x  # type: ignore[no-any-return]
    return b.cast(x, result.element_type) if shape(x) == result.get_shape() and x.type.element_type != result.element_type else None


@converts("aten.detach", "aten.detach_copy")
def detach(b: ImportBuilder, args: list[Entry], result: Attribute) -> SSAValue | None:
    """Numbers and weights of a file have no gradient to stop."""
    x = args[0]
    if not is_tensor(x) or x.type != result:
        return None
    return x if isinstance(x.owner, ConstantOp | WeightOp) else b.emit(DetachOp, (x,), result)


@converts("aten.dropout", "aten.feature_dropout", "aten.alpha_dropout")
def dropout(b: ImportBuilder, args: list[Entry], result: Attribute) -> SSAValue | None:
    x, _, training = args
    return x if training is False and x.type == result else None


@converts("aten.native_dropout")
def native_dropout(b: ImportBuilder, args: list[Entry], result: Attribute, mask: Attribute) -> Any:
    x, _, training = args
    return (x, None) if training is False and x.type == result else None
