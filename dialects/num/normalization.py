"""The norms: functions along axes that are formulas of reductions, with a weight and a bias."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, TensorType
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def, var_operand_def

from hnfc.dialects.assembly import TYPES
from hnfc.dialects.facts import UNKNOWN_CONTEXT, Access, Context, Exactness, Facts, StepBuilder, Storage
from hnfc.dialects.interval import Interval, square
from hnfc.dialects.num.base import AlongAxesOp, NumOp, Tensor, as_tensor, element_name, elements
from hnfc.dialects.num.elementary import SqrtOp
from hnfc.dialects.num.reduction import EXACT, average, mean_steps, scaled
from hnfc.dialects.types import DYNAMIC, FLOATING, TypeMismatch, format_of, reduced_shape


def affine(y: Any, weight: Any = None, bias: Any = None) -> Any:
    """y·weight + bias, of which either may be absent."""
    y = y if weight is None else y * weight
    return y if bias is None else y + bias


def affine_range(y: Interval, parameters: Sequence[Interval]) -> Interval:
    for i, parameter in enumerate(parameters):
        y = y + parameter if i else y * parameter
    return y


def standardized(x: Interval, eps: float, context: Context) -> Interval:
    """(x - mean)/sqrt(var + eps): at most sqrt(n) in magnitude, but for the rounding of the mean where var is near 0.

    A square that overflows makes the quotient 0; an infinite element makes it NaN.
    """
    n, form = context.count, context.format or EXACT
    nan = x.nan or math.isinf(x.magnitude) or 4 * scaled(n, x.magnitude) > form.largest or eps == 0
    if (nan and eps == 0) or math.isinf(n) or math.isinf(x.magnitude):
        return Interval(-math.inf, math.inf, nan)
    stray = 8 * n * form.unit_roundoff
    bound = math.sqrt(n) * (1 + stray) + stray * x.magnitude / math.sqrt(eps)
    return Interval(-bound, bound, nan or 4 * x.magnitude * x.magnitude > form.largest)


def scaled_by_rms(x: Interval, eps: float, context: Context) -> Interval:
    """x/sqrt(mean x² + eps): at most sqrt(n) in magnitude, and not larger than |x|/sqrt(eps)."""
    n, form = context.count, context.format or EXACT
    nan = x.nan or math.isinf(x.magnitude) or (eps == 0 and 0.0 in x) or (eps == 0 and min(abs(x.lo), abs(x.hi)) ** 2 < form.tiny)
    if eps == 0 and square(x).lo < form.tiny:
        return Interval(-math.inf, math.inf, nan)
    bound = math.sqrt(n) * (1 + min(8 * n * form.unit_roundoff, 1.0))
    if eps > 0:
        bound = min(bound, x.magnitude / math.sqrt(eps) * (1 + 8 * form.unit_roundoff))
    return Interval(0.0 if x.lo >= 0 else -bound, 0.0 if x.hi <= 0 else bound, nan, x.minus_zero)


def normalize_range(x: Interval, axes: Sequence[int], eps: float, context: Context = UNKNOWN_CONTEXT) -> Interval:
    """Within [-1, 1] but for rounding; where the squares underflow the norm is too small, and x/eps bounds the result."""
    n, form = context.count, context.format or EXACT
    nan = x.nan or math.isinf(x.magnitude) or eps <= form.tiny / 2
    if eps <= form.tiny / 2:
        return Interval(-math.inf, math.inf, nan)  # the format takes eps for 0
    stray = 1 + min(4 * n * form.unit_roundoff, 1.0)
    lost = math.sqrt(form.tiny) * max(1.0, 1 / eps)
    bound = min(stray + lost, x.magnitude / eps * (1 + 8 * form.unit_roundoff))
    return Interval(0.0 if x.lo >= 0 else -bound, 0.0 if x.hi <= 0 else bound, nan, x.minus_zero)


def layer_norm_range(x: Interval, *parameters: Interval, axes: Sequence[int], eps: float, context: Context = UNKNOWN_CONTEXT) -> Interval:
    return affine_range(standardized(x, eps, context), parameters)


def rms_norm_range(x: Interval, *parameters: Interval, axes: Sequence[int], eps: float, context: Context = UNKNOWN_CONTEXT) -> Interval:
    return affine_range(scaled_by_rms(x, eps, context), parameters)


def group_norm_range(x: Interval, *parameters: Interval, groups: int, eps: float, context: Context = UNKNOWN_CONTEXT) -> Interval:
    return affine_range(standardized(x, eps, context), parameters)


def batch_norm_range(x: Interval, mean: Interval, var: Interval, *parameters: Interval, eps: float) -> Interval:
    quotient: Interval = (x - mean) / SqrtOp.FACTS.range(var + Interval.point(eps))
    return affine_range(quotient, parameters)


def layer_norm_formula(m: Any, x: Any, *parameters: Any, axes: Any, eps: float) -> Any:
    d = x - m.sum(x, axes) / m.size(x, axes)
    return affine(d / m.sqrt(m.sum(d * d, axes) / m.size(x, axes) + m.const(eps)), *parameters)


def rms_norm_formula(m: Any, x: Any, *parameters: Any, axes: Any, eps: float) -> Any:
    return affine(x / m.sqrt(m.sum(x * x, axes) / m.size(x, axes) + m.const(eps)), *parameters)


def layer_norm(x: Any, *parameters: Any, axes: Sequence[int], eps: float) -> Any:
    d = x - average(x, axes)
    y = d / np.sqrt(average(d * d, axes) + np.asarray(eps, d.dtype))
    return affine(y, *parameters).astype(np.asarray(x).dtype)


def rms_norm(x: Any, *parameters: Any, axes: Sequence[int], eps: float) -> Any:
    y = x / np.sqrt(average(x * x, axes) + np.asarray(eps, np.asarray(x).dtype))
    return affine(y, *parameters).astype(np.asarray(x).dtype)


def group_norm(x: Any, *parameters: Any, groups: int, eps: float) -> Any:
    """Layer norm over each group of channels (axis 1) and everything right of them; parameters are per channel."""
    batch, channels = np.shape(x)[:2]
    y = layer_norm(np.reshape(x, (batch, groups, -1)), axes=(2,), eps=eps).reshape(np.shape(x))
    per_channel = [np.reshape(p, (channels,) + (1,) * (np.ndim(x) - 2)) for p in parameters]
    return affine(y, *per_channel).astype(np.asarray(x).dtype)


def batch_norm(x: Any, mean: Any, var: Any, *parameters: Any, eps: float) -> Any:
    return affine((x - mean) / np.sqrt(var + np.asarray(eps, np.asarray(x).dtype)), *parameters).astype(np.asarray(x).dtype)


def normalize(x: Any, axes: Sequence[int], eps: float) -> Any:
    norm = np.sqrt(np.sum(x * x, axis=tuple(axes), keepdims=True))
    return x / np.maximum(norm, np.asarray(eps, np.asarray(x).dtype))


def affine_steps(s: StepBuilder, y: Any, parameters: Sequence[Any]) -> Any:
    for name, parameter in zip(("mul", "add"), parameters, strict=False):
        y = s(name, y, parameter)
    return y


def layer_norm_steps(s: StepBuilder, x: Any, *parameters: Any, axes: Any, eps: Any) -> Any:
    d = s("sub", x, mean_steps(s, x, axes))
    return affine_steps(s, s("div", d, s("sqrt", s("add", mean_steps(s, s("square", d), axes), eps))), parameters)


def rms_norm_steps(s: StepBuilder, x: Any, *parameters: Any, axes: Any, eps: Any) -> Any:
    return affine_steps(s, s("div", x, s("sqrt", s("add", mean_steps(s, s("square", x), axes), eps))), parameters)


def batch_norm_steps(s: StepBuilder, x: Any, mean: Any, var: Any, *parameters: Any, eps: Any) -> Any:
    return affine_steps(s, s("div", s("sub", x, mean), s("sqrt", s("add", var, eps))), parameters)


def normalize_steps(s: StepBuilder, x: Any, axes: Any, eps: Any) -> Any:
    return s("div", x, s("maximum", s("sqrt", s("sum", s("square", x), axes=axes)), eps))


class NormOp(AlongAxesOp):
    """A norm along `axes` with optional weight, or weight and bias, that broadcast against x."""

    x = operand_def(TensorType)
    parameters = var_operand_def(TensorType)
    eps = prop_def(FloatAttr)
    assembly_format = f"$x (`,` $parameters^)? $axes `eps` $eps {TYPES}"

    @classmethod
    def infer(cls, operands: Sequence[Tensor], attributes: dict[str, Any]) -> Tensor:
        x, *parameters = operands
        reduced_shape(x.get_shape(), attributes["axes"])
        return with_parameters(x, parameters)


def with_parameters(x: Tensor, parameters: Sequence[Tensor]) -> Tensor:
    """The type of x. Raises TypeMismatch where the parameters do not broadcast to it."""
    if len(parameters) > 2:
        raise TypeMismatch(f"expected at most a weight and a bias, but got {len(parameters)} parameters")
    for parameter in parameters:
        if parameter.element_type != x.element_type:
            raise TypeMismatch(f"expected parameters of {element_name(x)}, but got {element_name(parameter)}")
        if not broadcasts_to(parameter.get_shape(), x.get_shape()):
            raise TypeMismatch(f"expected parameters that broadcast to {x}, but got {parameter}")
    return x


def broadcasts_to(shape: Sequence[int], target: Sequence[int]) -> bool:
    """Return whether a tensor of this shape does not widen one of the target's; sizes that are not known are taken to fit."""
    pairs = zip(reversed(shape), reversed(target), strict=False)
    return len(shape) <= len(target) and all(a in (1, b, DYNAMIC) or b == DYNAMIC for a, b in pairs)


@irdl_op_definition
class NormalizeOp(AlongAxesOp):
    """x / max(√Σx², eps) along `axes`."""

    name = "num.normalize"
    eps = prop_def(FloatAttr)
    assembly_format = f"$x $axes `eps` $eps {TYPES}"
    FACTS: ClassVar = Facts(
        access=Access.SCAN,
        exactness=Exactness.ALGORITHM,
        accepts=FLOATING,
        storage=Storage.STEPS,
        real=lambda m, x, axes, eps: x / m.maximum(m.sqrt(m.sum(x * x, axes)), m.const(eps)),
        steps=normalize_steps,
        evaluate=normalize,
        range=normalize_range,
        torch=(),
        contextual=True,
    )


@irdl_op_definition
class LayerNormOp(NormOp):
    """(x - mean x) / √(var x + eps) along `axes`, then ·weight + bias."""

    name = "num.layer_norm"
    FACTS: ClassVar = Facts(
        access=Access.SCAN,
        exactness=Exactness.ALGORITHM,
        accepts=FLOATING,
        real=layer_norm_formula,
        steps=layer_norm_steps,
        evaluate=layer_norm,
        range=layer_norm_range,
        torch=("aten.layer_norm", "aten.native_layer_norm"),
        contextual=True,
    )


@irdl_op_definition
class RmsNormOp(NormOp):
    """x / √(mean x² + eps) along `axes`, then ·weight."""

    name = "num.rms_norm"
    FACTS: ClassVar = Facts(
        access=Access.SCAN,
        exactness=Exactness.ALGORITHM,
        accepts=FLOATING,
        real=rms_norm_formula,
        steps=rms_norm_steps,
        evaluate=rms_norm,
        range=rms_norm_range,
        torch=("aten.rms_norm",),
        contextual=True,
    )


@irdl_op_definition
class BatchNormOp(NumOp):
    """(x - mean) / √(var + eps)·weight + bias, with all statistics given, in shapes that broadcast to x."""

    name = "num.batch_norm"
    x = operand_def(TensorType)
    mean = operand_def(TensorType)
    variance = operand_def(TensorType)
    parameters = var_operand_def(TensorType)
    eps = prop_def(FloatAttr)
    result = result_def(TensorType)
    assembly_format = f"$x `,` $mean `,` $variance (`,` $parameters^)? `eps` $eps {TYPES}"
    FACTS: ClassVar = Facts(
        access=Access.CONTRACTION,
        exactness=Exactness.ALGORITHM,
        accepts=FLOATING,
        storage=Storage.STEPS,
        real=lambda m, x, mean, var, *parameters, eps: affine((x - mean) / m.sqrt(var + m.const(eps)), *parameters),
        steps=batch_norm_steps,
        evaluate=batch_norm,
        range=batch_norm_range,
        torch=("aten.batch_norm",),
    )

    @classmethod
    def infer(cls, operands: Sequence[Tensor], attributes: dict[str, Any]) -> Tensor:
        x, mean, variance, *parameters = operands
        with_parameters(x, [mean, variance])
        return with_parameters(x, parameters)


@irdl_op_definition
class GroupNormOp(NumOp):
    """Layer norm over each of `groups` groups of channels (axis 1) and all axes right of it, then ·weight + bias per channel."""

    name = "num.group_norm"
    x = operand_def(TensorType)
    parameters = var_operand_def(TensorType)
    groups = prop_def(IntegerAttr)
    eps = prop_def(FloatAttr)
    result = result_def(TensorType)
    assembly_format = f"$x (`,` $parameters^)? `groups` $groups `eps` $eps {TYPES}"
    FACTS: ClassVar = Facts(
        access=Access.SCAN,
        exactness=Exactness.ALGORITHM,
        accepts=FLOATING,
        real=None,
        evaluate=group_norm,
        range=group_norm_range,
        torch=("aten.group_norm",),
        contextual=True,
    )

    @classmethod
    def infer(cls, operands: Sequence[Tensor], attributes: dict[str, Any]) -> Tensor:
        x, *parameters = operands
        if len(x.get_shape()) < 2:
            raise TypeMismatch(f"expected a tensor with channels on axis 1, but got {x}")
        for parameter in parameters:
            if len(parameter.get_shape()) != 1 or parameter.element_type != x.element_type:
                raise TypeMismatch(f"expected one parameter of {element_name(x)} per channel, but got {parameter}")
        return x

    def context(self) -> Context:
        x = as_tensor(self.x.type)
        return Context(elements(x, range(1, len(x.get_shape()))) / self.groups.value.data, format_of(x))
