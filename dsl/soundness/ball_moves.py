"""Movement and convolution of tensors in ball arithmetic: elements are moved, and only a convolution computes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from flint import fmpq

from hnfc.dialects.num.contraction import windows
from hnfc.dialects.num.movement import pad as padded

Array = Any
"""A NumPy array of elements (see elements.py)."""


class ShapeMismatch(Exception):
    """Operands of these shapes do not fit; the expression has no type."""


class OutOfBounds(ShapeMismatch):
    """A movement reaches beyond its operand: the value is undefined."""


def integer(value: Any) -> int:
    """The bound as an integer. Raises ShapeMismatch where it is none."""
    if isinstance(value, int | float):
        if value == int(value):
            return int(value)
        raise ShapeMismatch(f"{value} is no integer")
    element: Any = getattr(value, "values", value)
    element = element.reshape(-1)[0] if isinstance(element, np.ndarray) and element.size == 1 else element
    if isinstance(element, fmpq) and element.q == 1:
        whole: int = int(element.p)
        return whole
    raise ShapeMismatch(f"{element} is no integer")


def place(values: Array, axis: int) -> int:
    """The axis counted from the left. Raises ShapeMismatch where the tensor lacks it."""
    if not -values.ndim <= axis < values.ndim:
        raise ShapeMismatch(f"there is no axis {axis} in {list(values.shape)}")
    rank: int = values.ndim
    return axis % rank


def slice_of(values: Array, axis: int, start: Any, stop: Any, step: Any) -> Array:
    axis, low, high, by = place(values, axis), integer(start), integer(stop), integer(step)
    if not 0 <= low <= high <= values.shape[axis] or by < 1:
        raise OutOfBounds(f"elements {low} to {high} by {by} of {values.shape[axis]}")
    return values[(slice(None),) * axis + (slice(low, high, by),)]


def concat_of(parts: Sequence[Array], axis: int) -> Array:
    if len({part.ndim for part in parts}) != 1:
        raise ShapeMismatch("a concatenation of tensors of different rank")
    return np.concatenate(parts, axis=place(parts[0], axis))


def pad_of(values: Array, axis: int, low: Any, high: Any, value: Any) -> Array:
    axis, before, after = place(values, axis), integer(low), integer(high)
    size = values.shape[axis]
    if min(size + before, size + after, size + before + after) < 0:
        raise OutOfBounds(f"padding {before} and {after} of {size} elements")
    widths = [[0] * values.ndim, [0] * values.ndim]
    widths[0][axis], widths[1][axis] = before, after
    return padded(values, widths[0], widths[1], value)


def reverse_of(values: Array, axes: Sequence[int]) -> Array:
    return np.flip(values, axis=tuple(place(values, axis) for axis in axes))


def repeat_of(values: Array, axis: int, size: Any) -> Array:
    axis, count = place(values, axis), integer(size)
    if values.shape[axis] != 1 or count < 1:
        raise OutOfBounds(f"{values.shape[axis]} elements {count} times")
    return np.repeat(values, count, axis=axis)


def gather_of(values: Array, index: Array, axis: int) -> Array:
    axis = place(values, axis)
    if values.ndim != index.ndim or any(n != m for i, (n, m) in enumerate(zip(values.shape, index.shape, strict=True)) if i != axis):
        raise ShapeMismatch(f"indices of shape {list(index.shape)} for {list(values.shape)}")
    whole = np.array([integer(i) for i in index.reshape(-1)], dtype=np.int64).reshape(index.shape)
    if whole.size and not (whole.min() >= 0 and whole.max() < values.shape[axis]):
        raise OutOfBounds("an index outside the tensor")
    return np.take_along_axis(values, whole, axis=axis)


def conv_of(
    x: Array, weight: Array, settings: Sequence[Any], multiply: Callable[[Array, Array], Array], add: Callable[[Array], Array]
) -> Array:
    """`settings`: stride, padding, dilation, each an integer or one for every spatial axis, and groups. `add` sums over the last axis."""
    rank = weight.ndim - 2
    if x.ndim != weight.ndim or rank < 1:
        raise ShapeMismatch(f"a convolution of {list(x.shape)} with {list(weight.shape)}")
    stride, padding, dilation = (_each(setting, rank) for setting in settings[:3])
    groups = integer(settings[3])
    outputs, channels, *kernel = weight.shape
    if groups < 1 or outputs % groups or x.shape[1] != channels * groups or min(stride) < 1 or min(dilation) < 1 or min(padding) < 0:
        raise OutOfBounds(f"a convolution of {list(x.shape)} with {list(weight.shape)} in {groups} groups")
    reach = [d * (k - 1) + 1 for k, d in zip(kernel, dilation, strict=True)]
    if any(n + 2 * p < r for n, p, r in zip(x.shape[2:], padding, reach, strict=True)):
        raise OutOfBounds("a kernel larger than its input")
    outside = [0, 0, *padding]
    patches = windows(padded(x, outside, outside, fmpq(0)), kernel, stride, dilation)
    batch, places = patches.shape[0], patches.shape[2 : 2 + rank]
    patches = patches.reshape(batch, groups, channels, *places, *kernel)
    patches = np.moveaxis(patches, 2, 2 + rank).reshape(batch, groups, 1, *places, -1)
    kernels = weight.reshape(1, groups, outputs // groups, *(1,) * rank, -1)
    return add(multiply(patches, kernels)).reshape(batch, outputs, *places)


def _each(setting: Any, rank: int) -> tuple[int, ...]:
    if isinstance(setting, tuple | list):
        if len(setting) != rank:
            raise ShapeMismatch(f"{len(setting)} numbers for {rank} axes")
        return tuple(integer(s) for s in setting)
    values = getattr(setting, "values", None)
    if isinstance(values, np.ndarray) and values.size == rank != 1:
        return tuple(integer(s) for s in values.reshape(-1))
    return (integer(setting),) * rank


def reshape_of(values: Array, kept: Sequence[int], sizes: Any) -> Array:
    """The axes `kept`, counted from the right, stay at their places; the others get the sizes."""
    wanted = [integer(size) for size in getattr(sizes, "values", sizes).reshape(-1)]
    ends = [place(values, axis) for axis in kept]
    rank = len(wanted) + len(ends)
    if any(-axis > rank for axis in kept):
        raise ShapeMismatch("a reshape that loses an axis that it keeps")
    front = np.moveaxis(values, ends, range(-len(ends), 0)) if ends else values
    own = front.shape[front.ndim - len(ends) :]
    if min(wanted, default=1) < 1 or np.prod(wanted, dtype=int) != np.prod(front.shape[: front.ndim - len(ends)], dtype=int):
        raise OutOfBounds(f"{list(front.shape)} as {wanted}")
    result = front.reshape(*wanted, *own)
    return np.moveaxis(result, range(-len(ends), 0), list(kept)) if ends else result


def permute_of(values: Array, order: Sequence[int]) -> Array:
    if sorted(order) != list(range(values.ndim)):
        raise ShapeMismatch(f"{list(order)} is no order of {values.ndim} axes")
    return np.transpose(values, order)
