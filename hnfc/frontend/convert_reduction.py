"""Reductions, softmax, norms and attention of torch."""

from __future__ import annotations

import math
from typing import Any

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, SSAValue

from hnfc.dialects.num import OPERATIONS
from hnfc.dialects.num.arithmetic import AddOp
from hnfc.dialects.num.attention import AttentionOp
from hnfc.dialects.num.elementary import AbsOp, RsqrtOp, SqrtOp, SquareOp
from hnfc.dialects.num.extremes import MaxOp, MinOp
from hnfc.dialects.num.movement import ReshapeOp
from hnfc.dialects.num.normalization import BatchNormOp, GroupNormOp, LayerNormOp, RmsNormOp
from hnfc.dialects.num.reduction import CumsumOp, MeanOp, SumOp, VarOp
from hnfc.dialects.types import BOOL, ELEMENT_TYPES, format_of, reduced_shape
from hnfc.frontend.builder import Entry, ImportBuilder
from hnfc.frontend.convert_movement import diagonal_of
from hnfc.frontend.registry import axes_of, converts, element, is_number, is_tensor, shape

HALVES = tuple(ELEMENT_TYPES[name] for name in ("f16", "bf16"))


def widened(b: ImportBuilder, x: SSAValue, result: Attribute) -> tuple[SSAValue, Attribute]:
    """The operand and the result type in float32 where the result is narrower: what torch computes as one operation it rounds once."""
    if not isinstance(result, TensorType) or result.element_type not in HALVES:
        return x, result
    return b.cast(x, ELEMENT_TYPES["f32"]), b.tensor(ELEMENT_TYPES["f32"], result.get_shape())


def reduced(b: ImportBuilder, cls: Any, x: SSAValue, axes: tuple[int, ...] | None, result: Attribute, **attributes: Any) -> SSAValue | None:
    """cls over `axes`, and a reshape where the result does not keep them."""
    if axes is None or not isinstance(result, TensorType):
        return None
    kept = reduced_shape(shape(x), axes)
    if kept == result.get_shape():
        return b.emit(cls, (x,), result, axes=axes, **attributes)
    value = b.emit(cls, (x,), b.tensor(result.element_type, kept), axes=axes, **attributes)
    return b.emit(ReshapeOp, (value,), result)


def _register(name: str, *torch_names: str, cast: bool = True) -> None:
    cls = OPERATIONS[name]

    @converts(*torch_names)
    def reduction(b: ImportBuilder, args: list[Entry], result: Attribute) -> SSAValue | None:
        x = args[0]
        if not is_tensor(x) or not isinstance(result, TensorType):
            return None
        axes = axes_of(args[1] if len(args) > 2 else None, len(shape(x)))
        return reduced(b, cls, b.cast(x, result.element_type) if cast else x, axes, result)


_register("sum", "aten.sum", "aten.sum.dim_IntList")
_register("mean", "aten.mean", "aten.mean.dim")
_register("prod", "aten.prod", "aten.prod.dim_int")
_register("max", "aten.amax", "aten.max")
_register("min", "aten.amin", "aten.min")
_register("logsumexp", "aten.logsumexp")
_register("argmax", "aten.argmax", cast=False)
_register("argmin", "aten.argmin", cast=False)
_register("any", "aten.any", "aten.any.dim", "aten.any.dims")
_register("all", "aten.all", "aten.all.dim", "aten.all.dims")


@converts("aten.trace")
def trace(b: ImportBuilder, args: list[Entry], result: Attribute) -> SSAValue | None:
    """Sum of a diagonal."""
    (x,) = args
    if not is_tensor(x) or not isinstance(result, TensorType) or element(x) != result.element_type:
        return None
    row = diagonal_of(b, x, 0, 0, 1)
    return None if row is None else reduced(b, SumOp, row, (0,), result)


@converts("aten.max.dim")
def max_dim(b: ImportBuilder, args: list[Entry], result: Attribute, indices: Attribute) -> Any:
    return _extreme(b, args, result, indices, MaxOp, "argmax")


@converts("aten.min.dim")
def min_dim(b: ImportBuilder, args: list[Entry], result: Attribute, indices: Attribute) -> Any:
    return _extreme(b, args, result, indices, MinOp, "argmin")


def _extreme(b: ImportBuilder, args: list[Entry], result: Attribute, indices: Attribute, cls: Any, index: str) -> Any:
    x = args[0]
    axes = axes_of(args[1], len(shape(x)))
    value, place = reduced(b, cls, x, axes, result), reduced(b, OPERATIONS[index], x, axes, indices)
    return None if value is None or place is None else (value, place)


@converts("aten.cumsum")
def cumsum(b: ImportBuilder, args: list[Entry], result: Attribute) -> SSAValue | None:
    x, axis, _ = args
    if not isinstance(result, TensorType) or not isinstance(axis, int) or not shape(x):
        return None
    return b.emit(CumsumOp, (b.cast(x, result.element_type),), result, axis=axis % len(shape(x)))


def _correction(entry: Entry) -> float | None:
    """torch's `correction` (a number, default 1) or `unbiased` (a bool)."""
    return 1.0 if entry is None else float(entry) if is_number(entry) else None


@converts("aten.var.correction", "aten.var.dim")
def var(b: ImportBuilder, args: list[Entry], result: Attribute) -> SSAValue | None:
    x, dim, correction, _ = args
    c = _correction(correction)
    return None if c is None else reduced(b, VarOp, x, axes_of(dim, len(shape(x))), result, correction=c)


@converts("aten.var")
def var_all(b: ImportBuilder, args: list[Entry], result: Attribute) -> SSAValue | None:
    return var(b, [args[0], None, args[1], False], result)  # type: ignore[no-any-return]


@converts("aten.std.correction", "aten.std.dim")
def std(b: ImportBuilder, args: list[Entry], result: Attribute) -> SSAValue | None:
    """The square root of var."""
    if not isinstance(result, TensorType):
        return None
    x, kind = widened(b, args[0], result)
    value = var(b, [x, *args[1:]], kind)
    return None if value is None else b.cast(b.emit(SqrtOp, (value,), kind), result.element_type)


@converts("aten.std")
def std_all(b: ImportBuilder, args: list[Entry], result: Attribute) -> SSAValue | None:
    return std(b, [args[0], None, args[1], False], result)  # type: ignore[no-any-return]


@converts("aten.var_mean.correction", "aten.var_mean.dim")
def var_mean(b: ImportBuilder, args: list[Entry], variance: Attribute, mean: Attribute) -> Any:
    x, dim = args[:2]
    first, second = var(b, args, variance), reduced(b, MeanOp, x, axes_of(dim, len(shape(x))), mean)
    return None if first is None or second is None else (first, second)


@converts("aten.linalg_vector_norm")
def vector_norm(b: ImportBuilder, args: list[Entry], result: Attribute) -> SSAValue | None:
    x, order, dim, _, dtype = args
    return norm(b, x, order, axes_of(dim, len(shape(x))), dtype, result)


@converts("aten.norm.ScalarOpt_dim")
def norm_dim(b: ImportBuilder, args: list[Entry], result: Attribute) -> SSAValue | None:
    x, order, dim, _ = args
    return norm(b, x, order, axes_of(dim, len(shape(x))), None, result)


@converts("aten.frobenius_norm.dim")
def frobenius_norm(b: ImportBuilder, args: list[Entry], result: Attribute) -> SSAValue | None:
    x, dim, _ = args
    return norm(b, x, 2, axes_of(dim, len(shape(x))), None, result)


def norm(b: ImportBuilder, x: SSAValue, order: Entry, axes: Any, dtype: Entry, result: Attribute) -> SSAValue | None:
    """√Σx², Σ|x| or max|x|."""
    if axes is None or dtype is not None or (not is_number(order) and order is not None) or not isinstance(result, TensorType):
        return None
    if order in (2, None):
        wide, kind = widened(b, x, result)
        total = reduced(b, SumOp, b.emit(SquareOp, (wide,), wide.type), axes, kind)
        return None if total is None else b.cast(b.emit(SqrtOp, (total,), kind), result.element_type)
    magnitude = b.emit(AbsOp, (x,), x.type)
    if order == 1:
        return reduced(b, SumOp, magnitude, axes, result)
    return reduced(b, MaxOp, magnitude, axes, result) if order == math.inf else None


# softmax and norms


def _register_softmax(name: str) -> None:
    cls = OPERATIONS[name]

    @converts(f"aten.{name}.int", f"aten._{name}")
    def softmax(b: ImportBuilder, args: list[Entry], result: Attribute) -> SSAValue | None:
        x, axis, _ = args
        axes = axes_of(axis, len(shape(x)))
        if axes is None or not isinstance(result, TensorType):
            return None
        return b.emit(cls, (b.cast(x, result.element_type),), result, axes=axes)


_register_softmax("softmax")
_register_softmax("log_softmax")


def _trailing(x: SSAValue, normalized: Entry) -> tuple[int, ...] | None:
    rank = len(shape(x))
    return tuple(range(rank - len(normalized), rank)) if isinstance(normalized, list) else None


def _parameters(weight: Entry, bias: Entry, x: SSAValue) -> tuple[SSAValue, ...] | None:
    """weight and bias as operands; a bias without a weight is not expressible."""
    if weight is None:
        return () if bias is None else None
    found = (weight,) if bias is None else (weight, bias)
    return found if all(is_tensor(p) and element(p) == element(x) for p in found) else None


@converts("aten.layer_norm")
def layer_norm(b: ImportBuilder, args: list[Entry], result: Attribute) -> SSAValue | None:
    x, normalized, weight, bias, eps, _ = args
    axes, parameters = _trailing(x, normalized), _parameters(weight, bias, x)
    if axes is None or parameters is None or not is_number(eps):
        return None
    return b.emit(LayerNormOp, (x, *parameters), result, axes=axes, eps=float(eps))


@converts("aten.native_layer_norm")
def native_layer_norm(b: ImportBuilder, args: list[Entry], result: Attribute, mean: Attribute, rstd: Attribute) -> Any:
    """The norm, and the mean and 1/√(var + eps) that it used."""
    x, normalized, *_, eps = args
    value = layer_norm(b, [*args, False], result)
    axes = _trailing(x, normalized)
    if value is None or axes is None or not isinstance(rstd, TensorType) or reduced_shape(shape(x), axes) != rstd.get_shape():
        return None
    middle = b.emit(MeanOp, (b.cast(x, rstd.element_type),), mean, axes=axes)
    spread = b.emit(VarOp, (b.cast(x, rstd.element_type),), rstd, axes=axes, correction=0.0)
    shifted = b.emit(AddOp, (spread, b.constant(eps, rstd.element_type)), rstd)
    return value, middle, b.emit(RsqrtOp, (shifted,), rstd)


@converts("aten.rms_norm")
def rms_norm(b: ImportBuilder, args: list[Entry], result: Attribute) -> SSAValue | None:
    x, normalized, weight, eps = args
    axes, parameters = _trailing(x, normalized), _parameters(weight, None, x)
    if eps is None and (form := format_of(x.type)) is not None:
        eps = 2 * form.unit_roundoff
    if axes is None or parameters is None or not is_number(eps):
        return None
    return b.emit(RmsNormOp, (x, *parameters), result, axes=axes, eps=float(eps))


def _per_channel(b: ImportBuilder, parameter: SSAValue, rank: int) -> SSAValue:
    """A vector over channels in a shape that broadcasts to a tensor with channels on axis 1."""
    kind = b.tensor(element(parameter), (1, *shape(parameter), *(1,) * (rank - 2)))
    return b.emit(ReshapeOp, (parameter,), kind)


@converts("aten.batch_norm")
def batch_norm(b: ImportBuilder, args: list[Entry], result: Attribute) -> SSAValue | None:
    x, weight, bias, mean, variance, training, _, eps, _ = args
    given = [p for p in (mean, variance, weight, bias) if p is not None]
    if (
        training is not False
        or not is_tensor(mean)
        or not is_tensor(variance)
        or not is_number(eps)
        or (weight is None and bias is not None)
    ):
        return None
    if not all(element(p) == element(x) for p in given) or len(shape(x)) < 2:
        return None
    operands = tuple(_per_channel(b, p, len(shape(x))) for p in given)
    return b.emit(BatchNormOp, (x, *operands), result, eps=float(eps))


@converts("aten._native_batch_norm_legit_no_training", "aten.native_batch_norm")
def native_batch_norm(b: ImportBuilder, args: list[Entry], result: Attribute, mean: Attribute, rstd: Attribute) -> Any:
    """Without training its second and third results are empty."""
    x, weight, bias, middle, variance, *rest = args
    if len(rest) == 3 and rest[0] is not False:
        return None
    value = batch_norm(b, [x, weight, bias, middle, variance, False, rest[-2], rest[-1], False], result)
    empty = isinstance(mean, TensorType) and mean.get_shape() == (0,)
    return (value, b.splat(0.0, mean), b.splat(0.0, rstd)) if value is not None and empty else None  # type: ignore[arg-type]


@converts("aten.group_norm")
def group_norm(b: ImportBuilder, args: list[Entry], result: Attribute) -> SSAValue | None:
    x, groups, weight, bias, eps, *_ = args
    parameters = _parameters(weight, bias, x)
    if parameters is None or not isinstance(groups, int) or not is_number(eps) or len(shape(x)) < 2:
        return None
    return b.emit(GroupNormOp, (x, *parameters), result, groups=groups, eps=float(eps))


@converts("aten.scaled_dot_product_attention")
def attention(b: ImportBuilder, args: list[Entry], result: Attribute) -> SSAValue | None:
    q, k, v, mask, dropout, causal, scale, *_ = args
    if dropout != 0 or not isinstance(causal, bool) or len(shape(q)) < 2 or shape(q)[:-2] != shape(k)[:-2]:
        return None
    if scale is None:
        scale = 1 / math.sqrt(shape(q)[-1]) if shape(q)[-1] > 0 else None
    if not is_number(scale) or not (mask is None or (is_tensor(mask) and element(mask) in (element(q), BOOL))):
        return None
    operands = (q, k, v) if mask is None else (q, k, v, mask)
    return b.emit(AttentionOp, operands, result, scale=float(scale), causal=causal)
