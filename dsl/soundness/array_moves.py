"""Movement and convolution of arrays of any elements: elements are moved, and only a convolution computes.

`lead`: so many first axes count samples, and are broadcast where arrays meet; the axes of an operation are those of a sample.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from flint import fmpq

from hnfc.dialects.num.convolution import windows
from hnfc.dialects.num.movement import pad as padded

Array = Any
"""A NumPy array of elements (see elements.py)."""


class ShapeMismatch(Exception):
    """Operands of these shapes do not fit; the expression has no type."""


class OutOfBounds(ShapeMismatch):
    """A movement reaches beyond its operand: the value is undefined."""


def integer(value: Any) -> int:
    """The bound as an integer. Raises ShapeMismatch where it is none."""
    element: Any = getattr(value, "values", value)
    element = element.reshape(-1)[0] if isinstance(element, np.ndarray) and element.size == 1 else element
    if isinstance(element, fmpq) and element.q == 1:
        return int(element.p)
    if isinstance(element, int | float | np.number) and float(element).is_integer():
        return int(element)
    raise ShapeMismatch(f"{element} is no integer")


def integers(values: Any) -> list[int]:
    """All elements as integers. Raises ShapeMismatch where one is none."""
    return [integer(value) for value in getattr(values, "values", values).reshape(-1)]


def rank_of(values: Array, lead: int = 0) -> int:
    rank: int = values.ndim - lead
    return rank


def place(values: Array, axis: int, lead: int = 0) -> int:
    """The axis counted from the left. Raises ShapeMismatch where the tensor lacks it."""
    rank = rank_of(values, lead)
    if not -rank <= axis < rank:
        raise ShapeMismatch(f"there is no axis {axis} in {list(values.shape[lead:])}")
    return axis % rank + lead


def together(arrays: Sequence[Array], lead: int) -> list[Array]:
    """The arrays with the same number of samples."""
    if not lead:
        return list(arrays)
    samples = np.broadcast_shapes(*(a.shape[:lead] for a in arrays))
    return [np.broadcast_to(a, (*samples, *a.shape[lead:])) for a in arrays]


def slice_of(values: Array, axis: int, start: int, stop: int, step: int, lead: int = 0) -> Array:
    axis = place(values, axis, lead)
    if not 0 <= start <= stop <= values.shape[axis] or step < 1:
        raise OutOfBounds(f"elements {start} to {stop} by {step} of {values.shape[axis]}")
    return values[(slice(None),) * axis + (slice(start, stop, step),)]


def concat_of(parts: Sequence[Array], axis: int, lead: int = 0) -> Array:
    if len({part.ndim for part in parts}) != 1:
        raise ShapeMismatch("a concatenation of tensors of different rank")
    at = place(parts[0], axis, lead)
    if len({part.shape[lead:at] + part.shape[at + 1 :] for part in parts}) > 1:
        raise ShapeMismatch(f"a concatenation of {' and '.join(str(list(part.shape[lead:])) for part in parts)}")
    return np.concatenate(together(parts, lead), axis=at)


def pad_of(values: Array, axis: int, low: int, high: int, value: Any, lead: int = 0) -> Array:
    """Negative numbers cut."""
    axis = place(values, axis, lead)
    size = values.shape[axis]
    if min(size + low, size + high, size + low + high) < 0:
        raise OutOfBounds(f"padding {low} and {high} of {size} elements")
    widths = [[0] * values.ndim, [0] * values.ndim]
    widths[0][axis], widths[1][axis] = low, high
    return padded(values, widths[0], widths[1], value)


def reverse_of(values: Array, axes: Sequence[int], lead: int = 0) -> Array:
    return np.flip(values, axis=tuple(place(values, axis, lead) for axis in axes))


def repeat_of(values: Array, axis: int, count: int, lead: int = 0) -> Array:
    axis = place(values, axis, lead)
    if values.shape[axis] != 1 or count < 1:
        raise OutOfBounds(f"{values.shape[axis]} elements {count} times")
    return np.repeat(values, count, axis=axis)


def gather_of(values: Array, index: Array, axis: int, lead: int = 0) -> Array:
    """values[…, index[…], …]"""
    axis = place(values, axis, lead)
    shapes = enumerate(zip(values.shape, index.shape, strict=False))
    if values.ndim != index.ndim or any(n != m for i, (n, m) in shapes if i >= lead and i != axis):
        raise ShapeMismatch(f"indices of shape {list(index.shape[lead:])} for {list(values.shape[lead:])}")
    if index.size and not (index.min() >= 0 and index.max() < values.shape[axis]):
        raise OutOfBounds("an index outside the tensor")
    values, index = together((values, index), lead)
    return np.take_along_axis(values, index, axis=axis)


def reshape_of(values: Array, kept: Sequence[int], sizes: Sequence[int], lead: int = 0) -> Array:
    """The axes `kept`, counted from the right, stay at their places; the others get the sizes."""
    ends = [place(values, axis, lead) for axis in kept]
    if any(-axis > len(sizes) + len(ends) for axis in kept):
        raise ShapeMismatch("a reshape that loses an axis that it keeps")
    behind = range(-len(ends), 0)
    front = np.moveaxis(values, ends, behind)
    cut = front.ndim - len(ends)
    if min(sizes, default=1) < 1 or np.prod(sizes, dtype=int) != np.prod(front.shape[lead:cut], dtype=int):
        raise OutOfBounds(f"{list(values.shape[lead:])} as {list(sizes)}")
    return np.moveaxis(front.reshape(*front.shape[:lead], *sizes, *front.shape[cut:]), behind, list(kept))


def resize_of(values: Array, how: str, axis: int, lead: int = 0) -> Array:
    """With an axis of size 1 more (`unsqueeze`), or less (`squeeze`)."""
    if how == "unsqueeze":
        rank = rank_of(values, lead) + 1
        if not -rank <= axis < rank:
            raise ShapeMismatch(f"no place for axis {axis} in {list(values.shape[lead:])}")
        return np.expand_dims(values, axis % rank + lead)
    at = place(values, axis, lead)
    if values.shape[at] != 1:
        raise ShapeMismatch(f"axis {axis} of {list(values.shape[lead:])} has not size 1")
    return np.squeeze(values, axis=at)


def permute_of(values: Array, order: Sequence[int], lead: int = 0) -> Array:
    rank = rank_of(values, lead)
    if sorted(order) != list(range(rank)):
        raise ShapeMismatch(f"{list(order)} is no order of {rank} axes")
    return np.transpose(values, [*range(lead), *(lead + axis for axis in order)])


def swap_of(values: Array, lead: int = 0) -> Array:
    if rank_of(values, lead) < 2:
        raise ShapeMismatch("the last two axes of a tensor with fewer")
    return np.swapaxes(values, -1, -2)


def running_of(values: Array, axis: int, add: Callable[[Array, Array], Array]) -> Array:
    """The sums up to and with each place along the axis."""
    at = place(values, axis)
    parts = [np.take(values, [i], axis=at) for i in range(values.shape[at])]
    for i in range(1, len(parts)):
        parts[i] = add(parts[i - 1], parts[i])
    return np.concatenate(parts, axis=at) if parts else values


def triangle_of(values: Array) -> Array:
    """True where the last index is at most the one before."""
    if values.ndim < 2:
        raise ShapeMismatch("a triangle of a tensor with fewer than two axes")
    return np.tri(*values.shape[-2:], dtype=np.bool_)


def rows_to_one(values: Array, places: Sequence[int], function: Callable[[list[Any]], Any]) -> Array:
    """The function of all elements along the places, flattened, which keep size 1."""
    behind = range(-len(places), 0)
    rows = np.moveaxis(values, places, behind)
    kept = rows.shape[: rows.ndim - len(places)]
    result = np.empty(kept, dtype=object)
    for index in np.ndindex(kept):
        result[index] = function(rows[index].reshape(-1).tolist() if places else [rows[index]])
    return np.expand_dims(result, tuple(places))


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
