"""Batches: arrays whose first axis counts samples; places of axes are counted from the right."""

from __future__ import annotations

from collections.abc import Sequence

from hnfc.dsl.ieee.formats import Array
from hnfc.dsl.soundness.array_moves import ShapeMismatch


def rank(x: Array) -> int:
    """The rank of each sample."""
    return x.ndim - 1


def aligned(arrays: Sequence[Array], least: int = 0) -> list[Array]:
    """The arrays with axes of size 1 put behind the first, so that samples of different rank broadcast."""
    most = max([least, *map(rank, arrays)])
    return [x if rank(x) == most else x.reshape(x.shape[0], *(1,) * (most - rank(x)), *x.shape[1:]) for x in arrays]


def places(x: Array, axes: Sequence[int]) -> tuple[int, ...]:
    """The array's axes for those of the samples' axes that there are; others have size 1."""
    return tuple(sorted({x.ndim + axis for axis in axes if -rank(x) <= axis < 0}))


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
