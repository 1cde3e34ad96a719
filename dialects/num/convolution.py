"""Convolutions and pooling: sums, means and extremes over windows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from xdsl.dialects.builtin import BoolAttr, IntegerAttr, TensorType
from xdsl.irdl import base, irdl_op_definition, operand_def, prop_def, result_def

from hnfc.dialects.assembly import TYPES
from hnfc.dialects.facts import UNKNOWN_CONTEXT, Access, Accumulation, Context, Exactness, Facts
from hnfc.dialects.interval import Interval
from hnfc.dialects.num.base import NumOp, Tensor, UnaryOp, as_tensor, elements
from hnfc.dialects.num.reduction import mean_range, summed
from hnfc.dialects.types import DYNAMIC, NUMBER, IntsAttr, TypeMismatch, format_of, tensor


def conv_range(x: Interval, weight: Interval, *, context: Context = UNKNOWN_CONTEXT, **_: Any) -> Interval:
    """A sum of products, some of which are with the zeros of the padding; an infinite factor may give NaN anywhere."""
    total = summed((x * weight).hull(Interval(0.0, 0.0)), context)
    infinite = math.isinf(x.magnitude) or math.isinf(weight.magnitude)
    return Interval(total.lo, total.hi, total.nan or infinite, total.minus)


def windows(x: Any, kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int]) -> Any:
    """All windows of x over its last axes: shape (batch, channels, places…, kernel…)."""
    rank = len(kernel)
    reach = [d * (k - 1) + 1 for k, d in zip(kernel, dilation, strict=True)]
    view = np.lib.stride_tricks.sliding_window_view(x, reach, axis=tuple(range(2, 2 + rank)))
    places = tuple(slice(None, None, s) for s in stride)
    inside = tuple(slice(None, None, d) for d in dilation)
    return view[(slice(None), slice(None), *places, *inside)]


def padded(x: Any, padding: Sequence[int], value: float) -> Any:
    return np.pad(x, [(0, 0), (0, 0), *((p, p) for p in padding)], constant_values=value)


def conv(x: Any, weight: Any, stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int], groups: int) -> Any:
    """Σ over input channels of a group and the kernel's places; a cross-correlation, as everywhere in machine learning."""
    rank = np.ndim(x) - 2
    patches = windows(padded(x, padding, 0), np.shape(weight)[2:], stride, dilation)
    batch, channels = patches.shape[:2]
    places = patches.shape[2 : 2 + rank]
    patches = patches.reshape(batch, groups, channels // groups, math.prod(places), -1)
    kernels = np.reshape(weight, (groups, np.shape(weight)[0] // groups, channels // groups, -1))
    result = np.einsum("bgcpk,gock->bgop", patches, kernels, optimize=True)
    return result.reshape(batch, -1, *places).astype(np.asarray(x).dtype)


def window_count(size: int, kernel: int, stride: int, padding: int, dilation: int = 1, ceil: bool = False) -> int:
    """Number of windows that fit along an axis, as torch counts them."""
    if size == DYNAMIC:
        return DYNAMIC
    free = size + 2 * padding - dilation * (kernel - 1) - 1
    count = (-(-free // stride) if ceil else free // stride) + 1
    return count - 1 if ceil and (count - 1) * stride >= size + padding else count


def pooled_shape(x: Tensor, attributes: dict[str, Any]) -> Tensor:
    kernel, stride, padding = attributes["kernel"], attributes["stride"], attributes["padding"]
    dilation, ceil = attributes.get("dilation", (1,) * len(kernel)), attributes["ceil"]
    shape = x.get_shape()
    if len(shape) != len(kernel) + 2:
        raise TypeMismatch(f"expected a batch of channels with {len(kernel)} axes, but got {x}")
    places = [window_count(size, k, s, p, d, ceil) for size, k, s, p, d in zip(shape[2:], kernel, stride, padding, dilation, strict=True)]
    return tensor(x.element_type, (*shape[:2], *places))


def pooled(x: Any, value: float, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil: bool) -> Any:
    """The windows of x, padded by `value`, also past the right end where `ceil` adds a window."""
    x = padded(x, padding, value)
    extra = []
    for size, k, s, p, d in zip(np.shape(x)[2:], kernel, stride, padding, dilation, strict=True):
        count = window_count(size - 2 * p, k, s, p, d, ceil)
        extra.append((0, max(0, (count - 1) * s + d * (k - 1) + 1 - size)))
    x = np.pad(x, [(0, 0), (0, 0), *extra], constant_values=value)
    rank = len(kernel)
    view = windows(x, kernel, stride, dilation)
    places = [window_count(size - 2 * p - e[1], k, s, p, d, ceil) for size, k, s, p, d, e in zip(
        np.shape(x)[2:], kernel, stride, padding, dilation, extra, strict=True)]  # fmt: skip
    view = view[(slice(None), slice(None), *(slice(0, n) for n in places))]
    return view.reshape(*view.shape[: 2 + rank], -1)


def max_pool(x: Any, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil: bool) -> Any:
    kind = np.asarray(x).dtype
    least = np.iinfo(kind).min if kind.kind in "iu" else -np.inf
    return np.max(pooled(x, least, kernel, stride, padding, dilation, ceil), axis=-1)


def avg_pool(x: Any, kernel: Any, stride: Any, padding: Any, ceil: bool, count_padding: bool) -> Any:
    """The mean of each window; `count_padding` says whether the zeros of the padding count as elements."""
    ones = (1,) * len(kernel)
    sums = pooled(x, 0, kernel, stride, padding, ones, ceil).sum(axis=-1)
    inside = np.ones_like(x)
    if count_padding:
        inside, padding = padded(inside, padding, 1), (0,) * len(kernel)
        counts = pooled(inside, 0, kernel, stride, padding, ones, ceil).sum(axis=-1)
        counts = counts[tuple(slice(0, n) for n in sums.shape)]
    else:
        counts = pooled(inside, 0, kernel, stride, padding, ones, ceil).sum(axis=-1)
    if np.asarray(x).dtype.kind in "iu":
        # the integer part, as in torch
        return sums // counts + ((sums < 0) & (sums % counts != 0))
    return (sums / counts).astype(np.asarray(x).dtype)


def avg_pool_range(x: Interval, context: Context = UNKNOWN_CONTEXT, **_: Any) -> Interval:
    return mean_range(x.hull(Interval(0.0, 0.0)), (), context)


@irdl_op_definition
class ConvOp(NumOp):
    """The cross-correlation of x (batch, channels, places…) with weight (outputs, channels/groups, kernel…)."""

    name = "num.conv"
    x = operand_def(TensorType)
    weight = operand_def(TensorType)
    stride = prop_def(base(IntsAttr))
    padding = prop_def(base(IntsAttr))
    dilation = prop_def(base(IntsAttr))
    groups = prop_def(IntegerAttr)
    result = result_def(TensorType)
    assembly_format = f"$x `,` $weight `stride` $stride `padding` $padding `dilation` $dilation `groups` $groups {TYPES}"
    FACTS: ClassVar = Facts(
        access=Access.CONTRACTION,
        exactness=Exactness.ALGORITHM,
        accumulation=Accumulation.CONTRACTION,
        accepts=NUMBER,
        real=lambda m, x, weight, stride, padding, dilation, groups: m.conv(x, weight, stride, padding, dilation, groups),
        evaluate=conv,
        range=conv_range,
        torch=("aten.convolution", "aten.conv2d", "aten.conv1d", "aten.conv3d"),
        contextual=True,
    )

    @classmethod
    def infer(cls, operands: Sequence[Tensor], attributes: dict[str, Any]) -> Tensor:
        x, weight = operands
        shape, kernel = x.get_shape(), weight.get_shape()
        if len(shape) < 3 or len(shape) != len(kernel) or x.element_type != weight.element_type:
            raise TypeMismatch(f"expected a batch of channels and a kernel of the same rank and type, but got {x} and {weight}")
        if DYNAMIC not in (shape[1], kernel[1]) and shape[1] != kernel[1] * attributes["groups"]:
            raise TypeMismatch(f"expected {shape[1]} channels over {attributes['groups']} groups, but got a kernel of {kernel[1]}")
        places = [
            window_count(size, k, s, p, d)
            for size, k, s, p, d in zip(
                shape[2:], kernel[2:], attributes["stride"], attributes["padding"], attributes["dilation"], strict=True
            )
        ]
        return tensor(x.element_type, (shape[0], kernel[0], *places))

    def context(self) -> Context:
        weight = as_tensor(self.weight.type)
        return Context(elements(weight, range(1, len(weight.get_shape()))), format_of(weight))


@irdl_op_definition
class MaxPoolOp(UnaryOp):
    """The greatest x in each window."""

    name = "num.max_pool"
    kernel = prop_def(base(IntsAttr))
    stride = prop_def(base(IntsAttr))
    padding = prop_def(base(IntsAttr))
    dilation = prop_def(base(IntsAttr))
    ceil = prop_def(BoolAttr)
    assembly_format = f"$x `kernel` $kernel `stride` $stride `padding` $padding `dilation` $dilation `ceil` $ceil {TYPES}"
    FACTS: ClassVar = Facts(
        access=Access.CONTRACTION,
        exactness=Exactness.SELECTION,
        accepts=NUMBER,
        real=None,
        evaluate=max_pool,
        range=lambda x, **_: x,
        torch=("aten.max_pool2d", "aten.max_pool1d", "aten.max_pool3d"),
    )

    @classmethod
    def infer(cls, operands: Sequence[Tensor], attributes: dict[str, Any]) -> Tensor:
        return pooled_shape(operands[0], attributes)


@irdl_op_definition
class AvgPoolOp(UnaryOp):
    """The mean of x in each window; zeros of the padding count if `count_padding` says so."""

    name = "num.avg_pool"
    kernel = prop_def(base(IntsAttr))
    stride = prop_def(base(IntsAttr))
    padding = prop_def(base(IntsAttr))
    ceil = prop_def(BoolAttr)
    count_padding = prop_def(BoolAttr)
    assembly_format = f"$x `kernel` $kernel `stride` $stride `padding` $padding `ceil` $ceil `count_padding` $count_padding {TYPES}"
    FACTS: ClassVar = Facts(
        access=Access.CONTRACTION,
        exactness=Exactness.ALGORITHM,
        accepts=NUMBER,
        real=None,
        evaluate=avg_pool,
        range=avg_pool_range,
        torch=("aten.avg_pool2d", "aten.avg_pool1d", "aten.avg_pool3d"),
        contextual=True,
    )

    @classmethod
    def infer(cls, operands: Sequence[Tensor], attributes: dict[str, Any]) -> Tensor:
        return pooled_shape(operands[0], attributes)

    def context(self) -> Context:
        return Context(float(math.prod(self.kernel.data)), format_of(self.x.type))
