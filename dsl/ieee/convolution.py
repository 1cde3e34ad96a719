"""Convolutions of batches, summed from left to right over input channels and the kernel's places."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hnfc.dialects.num.convolution import windows
from hnfc.dsl.ieee.formats import Array
from hnfc.dsl.ieee.moves import rank
from hnfc.dsl.soundness.array_moves import ShapeMismatch


def convolved(x: Array, weight: Array, stride: int, padding: int, dilation: int, groups: int) -> Array:
    """The cross-correlation of each sample of x (batch, channels, places…) with that of weight (outputs, channels/groups, kernel…).

    The settings are the same along all spatial axes. x and weight compute in their own type.
    """
    spatial = rank(weight) - 2
    if rank(x) != rank(weight) or spatial < 1:
        raise ShapeMismatch(f"a convolution of {list(x.shape[1:])} with {list(weight.shape[1:])}")
    outputs, channels = weight.shape[1:3]
    kernel = weight.shape[3:]
    if min(stride, dilation, groups) < 1 or padding < 0 or outputs % groups or x.shape[2] != channels * groups:
        raise ShapeMismatch(f"a convolution of {list(x.shape[1:])} with {list(weight.shape[1:])} in {groups} groups")
    if any(size + 2 * padding < dilation * (width - 1) + 1 for size, width in zip(x.shape[3:], kernel, strict=True)):
        raise ShapeMismatch("a kernel larger than its input")
    patches = _patches(x, kernel, stride, padding, dilation)
    places = patches.shape[3 : 3 + spatial]
    patches = patches.reshape(*x.shape[:2], groups, 1, channels, *places, -1)
    kernels = weight.reshape(weight.shape[0], 1, groups, outputs // groups, channels, *(1,) * spatial, -1)
    products = np.moveaxis(patches * kernels, 4, -2)
    total: Array = products.reshape(*products.shape[:-2], -1).sum(axis=-1)
    return total.reshape(total.shape[0], x.shape[1], outputs, *places)


def _patches(x: Array, kernel: Sequence[int], stride: int, padding: int, dilation: int) -> Array:
    """(sample, batch, channels, places…, kernel…)."""
    spatial = len(kernel)
    outside = np.pad(x, [(0, 0)] * 3 + [(padding, padding)] * spatial)
    merged = outside.reshape(-1, *outside.shape[2:])
    view = windows(merged, kernel, (stride,) * spatial, (dilation,) * spatial)
    patches: Array = view.reshape(*x.shape[:2], *view.shape[1:])
    return patches
