"""Movement on batches: arrays whose first axis counts samples; places of axes are counted from the right."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hnfc.dsl.ieee.formats import Array


class ShapeMismatch(Exception):
    """Operands of these shapes do not fit; the expression has no type."""


def rank(x: Array) -> int:
    """The rank of each sample."""
    return x.ndim - 1


def aligned(arrays: Sequence[Array], least: int = 0) -> list[Array]:
    """The arrays with axes of size 1 put behind the first, so that samples of different rank broadcast."""
    most = max([least, *map(rank, arrays)])
    return [x if rank(x) == most else x.reshape(x.shape[0], *(1,) * (most - rank(x)), *x.shape[1:]) for x in arrays]


def place(x: Array, axis: int) -> int:
    """The axis of the array that holds the samples' axis `axis`. Raises ShapeMismatch where they lack it."""
    if not -rank(x) <= axis < 0:
        raise ShapeMismatch(f"there is no axis {axis} in {list(x.shape[1:])}")
    return x.ndim + axis


def places(x: Array, axes: Sequence[int]) -> tuple[int, ...]:
    """The array's axes for those of the samples' axes that there are; others have size 1."""
    return tuple(sorted({x.ndim + axis for axis in axes if -rank(x) <= axis < 0}))


def swapped(x: Array) -> Array:
    if rank(x) < 2:
        raise ShapeMismatch("the last two axes of a tensor with fewer")
    return np.swapaxes(x, -1, -2)


def resized(x: Array, how: str, axis: int) -> Array:
    """With an axis of size 1 more (`unsqueeze`), or less."""
    if how == "unsqueeze":
        if not -rank(x) - 1 <= axis < 0:
            raise ShapeMismatch(f"no place for axis {axis} in {list(x.shape[1:])}")
        return np.expand_dims(x, x.ndim + 1 + axis)
    at = place(x, axis)
    if x.shape[at] != 1:
        raise ShapeMismatch(f"axis {axis} of {list(x.shape[1:])} has not size 1")
    return np.squeeze(x, axis=at)


def sliced(x: Array, axis: int, start: int, stop: int, step: int) -> Array:
    at = place(x, axis)
    if not 0 <= start <= stop <= x.shape[at] or step < 1:
        raise ShapeMismatch(f"elements {start} to {stop} by {step} of {x.shape[at]}")
    return x[(slice(None),) * at + (slice(start, stop, step),)]


def concatenated(parts: Sequence[Array], axis: int) -> Array:
    if len({rank(part) for part in parts}) != 1:
        raise ShapeMismatch("a concatenation of tensors of different rank")
    at, most = place(parts[0], axis), max(part.shape[0] for part in parts)
    around = {part.shape[1:at] + part.shape[at + 1 :] for part in parts}
    if len(around) > 1:
        raise ShapeMismatch(f"a concatenation of {' and '.join(str(list(part.shape[1:])) for part in parts)}")
    return np.concatenate([np.broadcast_to(part, (most, *part.shape[1:])) for part in parts], axis=at)


def padded(x: Array, axis: int, low: int, high: int, value: Any) -> Array:
    """Negative numbers cut."""
    at = place(x, axis)
    size = x.shape[at]
    if min(size + low, size + high, size + low + high) < 0:
        raise ShapeMismatch(f"padding {low} and {high} of {size} elements")
    inside = x[(slice(None),) * at + (slice(max(-low, 0), size - max(-high, 0)),)]
    widths = [(0, 0)] * x.ndim
    widths[at] = (max(low, 0), max(high, 0))
    return np.pad(inside, widths, constant_values=value)


def reversed_along(x: Array, axes: Sequence[int]) -> Array:
    return np.flip(x, axis=tuple(place(x, axis) for axis in axes))


def repeated(x: Array, axis: int, size: int) -> Array:
    at = place(x, axis)
    if x.shape[at] != 1 or size < 1:
        raise ShapeMismatch(f"{x.shape[at]} elements {size} times")
    return np.repeat(x, size, axis=at)


def reshaped(x: Array, kept: Sequence[int], sizes: Sequence[int]) -> Array:
    """The axes `kept` stay at their places; the others get the sizes."""
    ends = [place(x, axis) for axis in kept]
    if any(-axis > len(sizes) + len(ends) for axis in kept):
        raise ShapeMismatch("a reshape that loses an axis that it keeps")
    behind = range(-len(ends), 0)
    front = np.moveaxis(x, ends, behind)
    cut = front.ndim - len(ends)
    if min(sizes, default=1) < 1 or np.prod(sizes, dtype=int) != np.prod(front.shape[1:cut], dtype=int):
        raise ShapeMismatch(f"{list(x.shape[1:])} as {list(sizes)}")
    return np.moveaxis(front.reshape(x.shape[0], *sizes, *front.shape[cut:]), behind, list(kept))


def permuted(x: Array, order: Sequence[int]) -> Array:
    if sorted(order) != list(range(rank(x))):
        raise ShapeMismatch(f"{list(order)} is no order of {rank(x)} axes")
    return np.transpose(x, [0, *(1 + axis for axis in order)])


def gathered(x: Array, index: Array, axis: int) -> Array:
    """x[…, index[…], …]; an index outside the tensor is none that the rule speaks of."""
    at = place(x, axis)
    if rank(x) != rank(index) or any(n != m for i, (n, m) in enumerate(zip(x.shape, index.shape, strict=True)) if i not in (0, at)):
        raise ShapeMismatch(f"indices of shape {list(index.shape[1:])} for {list(x.shape[1:])}")
    if index.size and not (index.min() >= 0 and index.max() < x.shape[at]):
        raise ShapeMismatch("an index outside the tensor")
    most = max(x.shape[0], index.shape[0])
    pair = [np.broadcast_to(a, (most, *a.shape[1:])) for a in (x, index)]
    return np.take_along_axis(pair[0], pair[1], axis=at)


def product_operands(a: Array, b: Array) -> tuple[Array, Array, bool, bool]:
    """Both as matrices of samples, and whether the row and the column are to be dropped: vectors are promoted as NumPy does."""
    if rank(a) == 0 or rank(b) == 0:
        raise ShapeMismatch("matmul of a scalar")
    row, column = rank(a) == 1, rank(b) == 1
    a, b = a[:, None, :] if row else a, b[:, :, None] if column else b
    if a.shape[-1] != b.shape[-2]:
        raise ShapeMismatch(f"contracted sizes differ: {a.shape[-1]} and {b.shape[-2]}")
    left, right = aligned([a, b])
    return left, right, row, column
