"""Softmax and normalization as functions of their own: intervals of their parts forget that what is divided is in the divisor too.

A softmax lies between 0 and 1 and moves by at most 2·p·(1 - p)·max |δ|, whatever the sum in its denominator; a normalized vector has
elements up to √n, and moves by |δ|/σ, with what goes into the mean and the deviation taken off.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hnfc.analysis.batch_axis import places_of, total
from hnfc.analysis.nodes import PointDerivative, TapeNode
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


@dataclass(frozen=True)
class Softmax:
    """e^x / Σ e^x, exactly; its own rounding is the caller's."""

    places: tuple[int, ...]
    slack: float

    def values(self, x: IntervalArray) -> IntervalArray:
        lo, hi = np.broadcast_to(x.lo, x.shape), np.broadcast_to(x.hi, x.shape)
        top = np.max(hi, axis=self.places, keepdims=True)
        low, high = np.exp(lo - top), np.exp(hi - top)
        others_high = np.sum(high, axis=self.places, keepdims=True) * (1 + self.slack) - high
        others_low = np.maximum(np.sum(low, axis=self.places, keepdims=True) * (1 - self.slack) - low, 0.0)
        least, greatest = low / (low + others_high) * (1 - self.slack), high / (high + others_low) * (1 + self.slack) + 1e-300
        least, greatest = np.where(np.isnan(least), 0.0, np.maximum(least, 0.0)), np.where(np.isnan(greatest), 1.0, greatest)
        return IntervalArray(least, np.minimum(greatest, 1.0))

    def _sum(self, x: Array) -> Array:
        return np.asarray(np.sum(x, axis=self.places, keepdims=True) * (1 + self.slack))

    def growth(self, e: Array, x: IntervalArray, y: IntervalArray) -> Array:
        steep = np.minimum(y.hi * (1 - y.lo), 0.25)
        apart = steep * e + y.hi * np.maximum(self._sum(y.hi * e) - y.hi * e, 0.0)
        # the other elements move this one by p·(1 - p) times a mean of their errors
        return np.asarray(np.minimum(2 * steep * np.max(e, axis=self.places, keepdims=True), apart) * (1 + self.slack))

    def pull(self, g: IntervalArray, x: IntervalArray, y: IntervalArray) -> IntervalArray:
        return y * (g - total(y * g, self.places))

    def at(self, centre: Array, value: Array, x: IntervalArray, y: IntervalArray) -> PointDerivative:
        p, off = value, np.maximum(y.hi - value, value - y.lo) * (1 + self.slack)
        return PointDerivative(
            lambda g: p * (g - np.sum(p * g, axis=self.places, keepdims=True)),
            lambda e: p * (e + self._sum(p * e)) * (1 + self.slack),
            lambda e: (off * (e + self._sum(y.hi * e)) + p * self._sum(off * e)) * (1 + self.slack),
        )


@dataclass(frozen=True)
class Standardized:
    """d/√(mean d² + eps) with d = x - mean x, or d = x; exactly."""

    places: tuple[int, ...]
    slack: float
    count: int
    eps: float
    centred: bool

    def _deviation(self, x: IntervalArray) -> tuple[IntervalArray, IntervalArray]:
        d = x - self._mean(x) if self.centred else x
        return d, interval_arrays.sqrt(self._mean(d.square()) + IntervalArray.of(self.eps))

    def _mean(self, x: IntervalArray) -> IntervalArray:
        return total(x, self.places) / IntervalArray.of(float(self.count))

    def values(self, x: IntervalArray) -> IntervalArray:
        d, sigma = self._deviation(x)
        limit = math.sqrt(self.count) * (1 + self.slack)
        return (d / sigma).meet(-limit, limit)

    def growth(self, e: Array, x: IntervalArray, y: IntervalArray) -> Array:
        """|δ| + mean |δ| + |z|·mean(|z|·|δ|), over σ; the mean of |z| is at most 1."""
        _, sigma = self._deviation(x)
        size = y.magnitude
        along = np.minimum(np.mean(size * e, axis=self.places, keepdims=True), np.max(e, axis=self.places, keepdims=True))
        return np.asarray((self._own(e) + size * along) / sigma.lo * (1 + self.slack))

    def _own(self, e: Array) -> Array:
        return np.asarray(e + (np.mean(e, axis=self.places, keepdims=True) if self.centred else 0.0))

    def pull(self, g: IntervalArray, x: IntervalArray, y: IntervalArray) -> IntervalArray:
        _, sigma = self._deviation(x)
        taken = g - self._mean(g) if self.centred else g
        return (taken - y * self._mean(g * y)) / sigma

    def at(self, centre: Array, value: Array, x: IntervalArray, y: IntervalArray) -> PointDerivative:
        """(1 - mean - z·mean z)/σ with z and σ at the centre, whatever they are rounded to."""
        _, sigma = self._deviation(x)
        _, near = self._deviation(IntervalArray.of(centre))
        inverse, z, above = 1 / near.middle, value, 1 + self.slack
        ends = sigma.reciprocal()
        uneven = np.maximum(ends.hi - inverse, inverse - ends.lo) * above
        off, size = np.maximum(y.hi - z, z - y.lo) * above, y.magnitude

        def mean(v: Array) -> Array:
            return np.asarray(np.mean(v, axis=self.places, keepdims=True))

        def pull(g: Array) -> Array:
            return np.asarray(((g - mean(g) if self.centred else g) - z * mean(z * g)) * inverse)

        def change(e: Array) -> Array:
            along = mean(size * e)
            return np.asarray(uneven * (self._own(e) + size * along) + inverse * (off * along + np.abs(z) * mean(off * e))) * above

        return PointDerivative(pull, lambda e: (self._own(e) + np.abs(z) * mean(np.abs(z) * e)) * inverse * above, change)


def softmax(tape: Tape, x: TapeNode, axes: Sequence[int]) -> TapeNode:
    """Softmax along the axes."""
    places, slack, _ = _along(x, axes)
    return tape.whole(x, Softmax(places, slack))


def standardized(tape: Tape, x: TapeNode, axes: Sequence[int], eps: float, centred: bool) -> TapeNode:
    """Normalization along the axes."""
    places, slack, n = _along(x, axes)
    return tape.whole(x, Standardized(places, slack, n, eps, centred))


def _along(x: TapeNode, axes: Sequence[int]) -> tuple[tuple[int, ...], float, int]:
    if 0 in x.shape:
        raise NoFormula("a tensor without elements")
    places = places_of(len(x.shape), axes)
    n = math.prod(x.value.shape[place] for place in places)
    return places, _SLACK * max(1.0, n / 4096), n
