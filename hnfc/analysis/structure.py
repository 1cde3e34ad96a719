"""Softmax and normalization as functions of their own: intervals of their parts forget that what is divided is in the divisor too.

A softmax lies between 0 and 1 and moves by at most 2·p·(1 - p)·max |δ|, whatever the sum in its denominator; a normalized vector has
elements up to √n, and moves by |δ|/σ, with what goes into the mean and the deviation taken off.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from hnfc.analysis.batch_axis import anywhere, filled, places_of, total
from hnfc.analysis.nodes import TapeNode
from hnfc.analysis.tape import Tape
from hnfc.dialects import interval_arrays
from hnfc.dialects.facts import NoFormula
from hnfc.dialects.interval_arrays import Array, IntervalArray
from hnfc.dsl.core import Apply, Axes, Expr, Literal, Size

_SLACK = 2.0**-40
"""Relative room for the rounding of what is computed here, sums of up to 2¹² elements included; longer ones get more."""


def softmax_of(node: Apply) -> tuple[Expr, Axes] | None:
    """x and the axes, where the node is e/Σe with e = exp(x - max x)."""
    if node.name != "div" or not isinstance(divisor := node.operands[1], Apply) or divisor.name != "sum":
        return None
    (e,) = divisor.operands
    if e != node.operands[0] or not isinstance(e, Apply) or e.name != "exp" or not isinstance(d := e.operands[0], Apply) or d.name != "sub":
        return None
    x, top = d.operands
    axes = dict(divisor.attributes)["axes"]
    if isinstance(top, Apply) and top.name == "max" and top.operands[0] == x and dict(top.attributes)["axes"] == axes:
        return x, axes
    return None


def standardized_of(node: Apply) -> tuple[Expr, Axes, float, bool] | None:
    """x, the axes, what is added to the mean square, and whether the mean is taken off: of d/√(mean d² + eps)."""
    if node.name != "div" or not isinstance(root := node.operands[1], Apply) or root.name != "sqrt":
        return None
    inside = root.operands[0]
    if not isinstance(inside, Apply) or inside.name != "add" or not isinstance(eps := inside.operands[1], Literal):
        return None
    d = node.operands[0]
    axes = _mean_square(inside.operands[0], d)
    if axes is None:
        return None
    if isinstance(d, Apply) and d.name == "sub" and _mean(d.operands[1], d.operands[0]) == axes:
        return d.operands[0], axes, float(eps.value), True
    return d, axes, float(eps.value), False


def _mean(node: Expr, x: Expr) -> Axes | None:
    """The axes, where the node is Σx/n."""
    if not isinstance(node, Apply) or node.name != "div" or not isinstance(node.operands[1], Size):
        return None
    summed = node.operands[0]
    if not isinstance(summed, Apply) or summed.name != "sum" or summed.operands[0] != x or node.operands[1].operand != x:
        return None
    axes: Axes = dict(summed.attributes)["axes"]
    return axes if axes == node.operands[1].axes else None


def _mean_square(node: Expr, d: Expr) -> Axes | None:
    if isinstance(node, Apply) and node.name == "div" and isinstance(summed := node.operands[0], Apply) and summed.operands:
        square = summed.operands[0]
        if isinstance(square, Apply) and square.name == "square" and square.operands[0] == d:
            return _mean(node, square)
    return None


def softmax(tape: Tape, x: TapeNode, axes: Sequence[int]) -> TapeNode:
    """e^x / Σ e^x, exactly; its own rounding is the caller's."""
    places = places_of(len(x.shape), axes)
    n = math.prod(x.value.shape[place] for place in places)
    if 0 in x.shape:
        raise NoFormula("a tensor without elements")
    slack = _SLACK * max(1.0, n / 4096)
    lo, hi = np.broadcast_to(x.value.lo, x.value.shape), np.broadcast_to(x.value.hi, x.value.shape)
    top = np.max(hi, axis=places, keepdims=True)
    low, high = np.exp(lo - top), np.exp(hi - top)
    others_high = np.sum(high, axis=places, keepdims=True) * (1 + slack) - high
    others_low = np.maximum(np.sum(low, axis=places, keepdims=True) * (1 - slack) - low, 0.0)
    least, greatest = low / (low + others_high) * (1 - slack), high / (high + others_low) * (1 + slack) + 1e-300
    p = IntervalArray(np.where(np.isnan(least), 0.0, np.maximum(least, 0.0)), np.where(np.isnan(greatest), 1.0, np.minimum(greatest, 1.0)))

    def pull(g: IntervalArray) -> IntervalArray:
        return p * (g - total(p * g, places))

    error = None
    if x.error is not None:
        e = filled(x.error, x.value.shape)
        steep = np.minimum(p.hi * (1 - p.lo), 0.25)
        apart = steep * e + p.hi * np.maximum(np.sum(p.hi * e, axis=places, keepdims=True) * (1 + slack) - p.hi * e, 0.0)
        # the other elements move this one by p·(1 - p) times a mean of their errors
        error = np.minimum(2 * steep * np.max(e, axis=places, keepdims=True), apart) * (1 + slack)
    lost = anywhere(x.lost, x.shape, places)
    return TapeNode(tape, p, [(x, pull)], lost=None if lost is None else np.broadcast_to(lost, p.shape), error=error)


def standardized(tape: Tape, x: TapeNode, axes: Sequence[int], eps: float, centred: bool) -> TapeNode:
    """d/√(mean d² + eps) with d = x - mean x, or d = x; exactly."""
    places = places_of(len(x.shape), axes)
    n = math.prod(x.value.shape[place] for place in places)
    if 0 in x.shape:
        raise NoFormula("a tensor without elements")
    slack = _SLACK * max(1.0, n / 4096)
    size = IntervalArray.of(float(n))

    def mean(box: IntervalArray) -> IntervalArray:
        return total(box, places) / size

    d = x.value - mean(x.value) if centred else x.value
    sigma = interval_arrays.sqrt(mean(d.square()) + IntervalArray.of(eps))
    limit = math.sqrt(n) * (1 + slack)
    z = (d / sigma).meet(-limit, limit)

    def moved(e: Array, z_size: Array) -> Array:
        """Perturbation of z by a change e of x: |δ| + mean |δ| + |z|·mean(|z|·|δ|), over σ; the mean of |z| is at most 1."""
        along = np.minimum(np.mean(z_size * e, axis=places, keepdims=True), np.max(e, axis=places, keepdims=True))
        own = e + (np.mean(e, axis=places, keepdims=True) if centred else 0.0)
        return np.asarray((own + z_size * along) / sigma.lo * (1 + slack))

    def pull(g: IntervalArray) -> IntervalArray:
        taken = g - mean(g) if centred else g
        return (taken - z * mean(g * z)) / sigma

    error = None if x.error is None else moved(filled(x.error, x.value.shape), z.magnitude)
    lost = anywhere(x.lost, x.shape, places)
    return TapeNode(tape, z, [(x, pull)], lost=None if lost is None else np.broadcast_to(lost, z.shape), error=error)
