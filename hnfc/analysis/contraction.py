"""Contractions on a tape that are movement and a matrix product: convolutions, products with vectors, elements by their indices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from hnfc.analysis.nodes import Recording, TapeNode
from hnfc.dialects.facts import NoFormula
from hnfc.dialects.num.convolution import padded, windows


def reshaped(tape: Recording, x: TapeNode, shape: Sequence[int]) -> TapeNode:
    return tape.moved([x], lambda parts: parts[0].reshape(tuple(shape)))


def vector_product(tape: Recording, a: TapeNode, b: TapeNode) -> TapeNode:
    """As in NumPy: a vector is a row on the left and a column on the right."""
    row, column = len(a.shape) == 1, len(b.shape) == 1
    left = reshaped(tape, a, (1, *a.shape)) if row else a
    right = reshaped(tape, b, (*b.shape, 1)) if column else b
    result = tape.matmul(left, right)
    shape = list(result.shape)
    if row:
        del shape[-2]
    if column:
        del shape[-1]
    return reshaped(tape, result, shape)


def convolution(
    tape: Recording, x: TapeNode, weight: TapeNode, stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int], groups: int
) -> TapeNode:
    """Every window as a row, times the kernels of its group."""
    rank = len(x.shape) - 2
    outputs, channels, *kernel = weight.shape
    if outputs % groups or x.shape[1] != channels * groups:
        raise NoFormula("a convolution whose channels do not fit")

    def rows(parts: list[Any]) -> Any:
        patches = windows(padded(parts[0], padding, -1), kernel, stride, dilation)
        places = patches.shape[2 : 2 + rank]
        patches = patches.reshape(patches.shape[0], groups, channels, math.prod(places), math.prod(kernel))
        return np.moveaxis(patches, 2, 3).reshape(patches.shape[0], groups, math.prod(places), channels * math.prod(kernel))

    sizes = (n + 2 * p for n, p in zip(x.shape[2:], padding, strict=True))
    places = windows(np.zeros((1, 1, *sizes)), kernel, stride, dilation).shape[2 : 2 + rank]
    kernels = tape.moved([weight], lambda parts: np.swapaxes(parts[0].reshape(groups, outputs // groups, -1), -1, -2))
    product = tape.matmul(tape.moved([x], rows), kernels)
    return tape.moved([product], lambda parts: np.swapaxes(parts[0], -1, -2).reshape(x.shape[0], outputs, *places))


def gathered_along(tape: Recording, x: TapeNode, index: TapeNode, axis: int) -> TapeNode:
    """Elements of x at known places along an axis."""
    places = index.value.lo
    if not np.array_equal(places, index.value.hi) or places.shape[0] != 1 or not np.isfinite(places).all():
        raise NoFormula("indices that are not known")
    whole = places[0].astype(np.int64)
    return tape.moved([x], lambda parts: np.take_along_axis(parts[0], whole, axis))
