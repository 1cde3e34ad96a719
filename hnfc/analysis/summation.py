"""Rounding errors of sums whose order is the kernel's affair, from the terms themselves.

A sum in any order is a binary tree of additions, and its error at most half a unit in the last place of each node. Two bounds, the less
of which counts; both are several times less than γ(n)·Σ|x| where terms have both signs.

By size: a node above k leaves is at most the sum of the k greatest terms of one sign, G(k). The i-th smallest node of a tree has at most
i + 1 leaves, since a node of k leaves has k - 2 smaller ones below it; and G rises, so that the n - 1 nodes cost no more than G(2) … G(n).

By sign: Σ|node| ≤ F(positive terms) + F(negative terms) + c·|total|, F being the sum of G(2) … of one sign, and c the number of terms of
the sign that the total has not. By induction over the two trees L and R below a node: F(X ∪ Y) ≥ F(X) + F(Y) + |Y|·ΣX, by the order X, Y,
which pays for what c·|total| loses where the totals of L and R have different signs; where they have the same, c·|total| grows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from hnfc.dialects.interval_arrays import Array, IntervalArray
from hnfc.dialects.types import ElementFormat

MOST_SORTED = 2**22
"""Terms of all sums together that are sorted; beyond, the largest sum of any terms stands for each node."""
_LEAD_ROWS = 2**20
"""Terms that are laid out at a time."""


def gamma(n: float, form: ElementFormat) -> float:
    """n·u/(1 - n·u), or infinity where n·u ≥ 1."""
    nu = n * form.unit_roundoff
    return nu / (1 - nu) * (1 + 2.0**-50) if nu < 1 else math.inf


def half_ulp(magnitude: Array, form: ElementFormat) -> Array:
    """The largest error of rounding a number of at most this magnitude to nearest.

    Up to and with 2^k numbers lie at most 2^k·u apart; below the normal ones at most half of the smallest one away.
    """
    fraction, exponent = np.frexp(magnitude)
    # magnitude = fraction·2^exponent with ½ ≤ fraction < 1; a power of two belongs to the binade below it
    binade = np.where(fraction == 0.5, exponent - 2, exponent - 1)
    spaced = np.ldexp(form.unit_roundoff, np.maximum(binade, -1100).astype(np.int64))
    least = form.tiny / 2 if form.tiny > 5e-324 else form.tiny
    flushed = np.minimum(magnitude, form.flushed)
    return np.where(magnitude == 0, 0.0, np.where(np.isfinite(magnitude), np.maximum(np.maximum(spaced, least), flushed), np.inf))


def any_order(terms: IntervalArray, form: ElementFormat) -> Array:
    """Bound of the error of sums along the last axis, in any order; the terms themselves are exact."""
    n = terms.shape[-1]
    if n < 2:
        return np.zeros(terms.shape[:-1])
    low, high = np.broadcast_arrays(terms.lo, terms.hi)
    size = np.sum(np.maximum(np.abs(low), np.abs(high)), axis=-1, keepdims=True)
    greatest = np.cumsum(np.sort(np.maximum(high, 0.0), axis=-1)[..., ::-1], axis=-1)
    least = np.cumsum(np.sort(np.maximum(-low, 0.0), axis=-1)[..., ::-1], axis=-1)
    # what is rounded is a sum of computed parts; the second part is the rounding of these sums here
    slack = size * (gamma(n + 1, form) + n * 2.0**-50)
    by_size = np.sum(half_ulp(np.maximum(greatest, least)[..., 1:] + slack, form), axis=-1)
    rising, falling = (np.count_nonzero(end > 0, axis=-1) for end in (high, -low))
    total = np.maximum(np.sum(high, axis=-1) * falling, -np.sum(low, axis=-1) * rising)
    by_sign = _within(greatest, rising) + _within(least, falling) + np.maximum(total, 0.0) + slack[..., 0] * n
    by_sign = by_sign * form.unit_roundoff + np.where(size[..., 0] > 0, n * form.flushed, 0.0)
    return np.asarray(np.minimum(by_size, by_sign) * (1 + n * 2.0**-50))


def _within(sums: Array, count: Array) -> Array:
    """Σ of the sums of two and more terms, up to so many."""
    inside = np.arange(1, sums.shape[-1] + 1) <= count[..., None]
    return np.asarray(np.sum(np.where(inside, sums, 0.0)[..., 1:], axis=-1))


_LANES = (1, 16)
"""Numbers of accumulators of usual kernels: each adds up every n-th term, and in the end they are added up."""


def in_usual_orders(terms: IntervalArray, form: ElementFormat) -> Array:
    """Root of the sum of the squares of half units in the last place of the nodes: one term after another, in one or several lanes."""
    middle = np.asarray(terms.lo if terms.lo is terms.hi else terms.lo / 2 + terms.hi / 2)
    n = middle.shape[-1]
    found = np.zeros(middle.shape[:-1])
    for lanes in _LANES if n > 1 else ():
        rows = -(-n // lanes)
        padded = np.concatenate([middle, np.zeros((*middle.shape[:-1], rows * lanes - n))], axis=-1)
        sums = np.cumsum(padded.reshape(*middle.shape[:-1], rows, lanes), axis=-2)
        nodes = np.concatenate([sums[..., 1:, :].reshape(*middle.shape[:-1], -1), np.cumsum(sums[..., -1, :], axis=-1)[..., 1:]], axis=-1)
        # the power of two below is the number without the digits of its significand
        binades = (nodes.view(np.int64) & np.int64(0x7FF0_0000_0000_0000)).view(np.float64)
        found = np.maximum(found, np.einsum("...i,...i->...", binades, binades))
    return np.asarray(np.sqrt(found) * form.unit_roundoff + n * form.flushed)


def products(a: IntervalArray, b: IntervalArray, bias: IntervalArray | None, form: ElementFormat, independent: bool = False) -> Array:
    """Bound of the error of A·B, or of A·B + bias where the bias is a term of the sums too; matrices behind equal batch axes.

    Each product may be rounded, or fused with an addition. Overflow is the caller's. independent: the root of the squares of all
    roundings, in usual orders.
    """
    if independent:
        squares = np.square(a.magnitude) @ np.square(b.magnitude) * form.unit_roundoff**2 + a.shape[-1] * form.underflow**2
        orders = [in_usual_orders(terms, form) for terms in _laid_out(a, b, bias)]
        return np.asarray(np.sqrt(squares + np.square(np.concatenate(orders, axis=-2))))
    n = a.shape[-1] + (bias is not None)
    size = a.magnitude @ b.magnitude * (1 + 4 * n * 2.0**-52)
    added = 0.0 if bias is None else bias.magnitude
    rounded = size * (form.unit_roundoff * (1 + 2.0**-50)) + a.shape[-1] * form.underflow
    if size.size * n > MOST_SORTED:
        # no sum of some of the terms is larger than that of all positive or all negative ones
        middle = np.abs(_middle(a) @ _middle(b)) + _radius(a, b)
        largest = (size + np.minimum(middle, size)) / 2 * (1 + 8 * n * 2.0**-52) + added + (size + added) * gamma(n + 1, form)
        return np.asarray(rounded + max(n - 1, 0) * half_ulp(largest, form))
    parts = [any_order(terms, form) for terms in _laid_out(a, b, bias)]
    tree = np.concatenate(parts, axis=-2) if parts else np.zeros(size.shape)
    return np.asarray(rounded + tree)


def _middle(x: IntervalArray) -> Array:
    return np.asarray(x.lo if x.lo is x.hi else x.lo / 2 + x.hi / 2)


def _radius(a: IntervalArray, b: IntervalArray) -> Array:
    """Distance of A·B from the product of the middles."""
    ra, rb = (x.magnitude - np.abs(_middle(x)) if x.lo is not x.hi else np.zeros(x.shape) for x in (a, b))
    return np.asarray((ra @ b.magnitude + np.abs(_middle(a)) @ rb) * (1 + 2.0**-40))


def _laid_out(a: IntervalArray, b: IntervalArray, bias: IntervalArray | None) -> Iterator[IntervalArray]:
    """Terms of each sum along a last axis of their own, some rows of A at a time."""
    rows = a.shape[-2]
    turned = b.map(lambda v: np.swapaxes(v, -1, -2)[..., None, :, :])
    step = max(1, _LEAD_ROWS * rows // max(1, math.prod(np.matmul(np.empty(a.shape), np.empty(b.shape)).shape) * a.shape[-1]))
    for first in range(0, rows, step):
        part = a.map(lambda v, first=first: v[..., first : first + step, None, :])  # type: ignore[misc]
        terms = part * turned
        if bias is not None:
            rest = (*np.broadcast_shapes(terms.shape[:-1], bias.shape), 1)
            end = bias.map(lambda v, rest=rest: np.broadcast_to(v[..., None], rest))  # type: ignore[misc]
            low, high = (np.concatenate([np.broadcast_to(t, (*rest[:-1], t.shape[-1])), e], axis=-1)
                         for t, e in ((terms.lo, end.lo), (terms.hi, end.hi)))  # fmt: skip
            terms = IntervalArray(low, high)
        yield terms
