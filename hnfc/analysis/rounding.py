"""Rounding errors of single operations: absolute bounds from the ranges of the exact result and the operands.

A correctly rounded result is off by half the distance of the numbers around it, which is known from the binade; another one by
`FACTS.ulps` units roundoff relative to it; what combines n numbers by `FACTS.accumulation`, with γ(n) = n·u/(1 - n·u) in place of n·u.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hnfc.analysis.batch_axis import lifted, places_of, total
from hnfc.analysis.nodes import TapeNode
from hnfc.analysis.summation import any_order, gamma, half_ulp, in_usual_orders, products
from hnfc.dialects.facts import Accumulation, Facts
from hnfc.dialects.interval_arrays import Array, IntervalArray
from hnfc.dialects.types import ElementFormat

NARROW_WORKING = "f32"
"""The format in which operations on narrower ones are carried out, and rounded afterwards."""


@dataclass(frozen=True)
class Arithmetic:
    """Rounding of results.

    correct: functions are rounded correctly, as FPCore defines them, whatever an implementation does. independent: the errors of the
    additions of a sum are independent of each other and of mean 0, and bounds are the roots of their squares.
    """

    correct: bool = False
    independent: bool = False

    def ulps(self, facts: Facts) -> float:
        """Units of roundoff that a function is off by: what is guaranteed, or two at most where errors are taken to be independent."""
        return min(facts.ulps, 1.0) if self.correct else min(facts.ulps, 2.0) if self.independent else facts.ulps


def working_format(storage: str) -> str:
    return storage if storage in ("f32", "f64") else NARROW_WORKING


def rounded_to(value: IntervalArray, form: ElementFormat) -> Array:
    """The error of one correct rounding. Infinite where it may overflow."""
    size = value.magnitude
    return np.where(size > form.largest, np.inf, half_ulp(size, form))


def within_ulps(value: IntervalArray, ulps: float, form: ElementFormat, early: float = 1.0) -> Array:
    if ulps == 0:
        return np.zeros(())
    if ulps == 1:
        return rounded_to(value, form)
    size = value.magnitude
    # among subnormal numbers as many units are multiples of the smallest number
    error = size * (ulps * form.unit_roundoff * (1 + 2.0**-50)) + form.underflow + form.tiny * ulps / 2
    return np.where(size + error > form.largest / early, np.inf, np.where(size == 0, 0.0, error))


def local_error(name: str, facts: Facts, result: TapeNode, operands: Sequence[TapeNode], attributes: dict[str, Any], form: ElementFormat,
                arithmetic: Arithmetic) -> Array:  # fmt: skip
    """Bound of an implementation's error on these very operands, before a rounding to storage."""
    value = result.value
    match facts.accumulation:
        case Accumulation.NONE:
            pass
        case Accumulation.CONTRACTION if name == "conv":
            return _convolved(value, operands[0], operands[1], form)
        case Accumulation.CONTRACTION:
            return contracted(value.shape[1:], operands[0].value, operands[1].value, None, form, arithmetic.independent)
        case kind:
            return _reduced(kind, value, operands[0], places_of(len(operands[0].shape), attributes["axes"]), form, arithmetic.independent)
    if any(_power_of_two(operands[i]) for i in facts.scales):
        return _unless_overflow(value.magnitude, np.where(_underflows(value, form), form.underflow, 0.0), form)
    if any(operands[i].exact and not np.any(operands[i].value.magnitude) for i in facts.addends):
        return np.zeros(())
    if facts.exact:
        return np.zeros(())
    if arithmetic.correct:
        return within_ulps(value, arithmetic.ulps(facts), form)
    error = within_ulps(value, arithmetic.ulps(facts), form, facts.early)
    return error if facts.stray is None else error + facts.stray(form, *(x.value for x in operands))


def other_algorithm(
    name: str, operands: Sequence[TapeNode], attributes: dict[str, Any], form: ElementFormat, independent: bool = False
) -> Array | None:
    """Extra error of an implementation that uses another algorithm than the definition; None where there is no usual one.

    Normalizations as x·α + β with α = w/σ and β = b - mean·α lose what x and its mean have in common; gelu as x·(1 + erf)/2 loses the
    digits of 1 + erf on the left.
    """
    u = (1 if independent else 4) * form.unit_roundoff
    match name:
        case "affine":
            shape = (*operands[0].shape[:-1], *operands[1].shape[-1:])
            return contracted(shape, operands[0].value, operands[1].value, operands[2].value, form, independent)
        case "gelu":
            return np.asarray(operands[0].value.magnitude * (2 * u))
        case "batch_norm":
            x, mean, var, *parameters = (lifted(n.value, len(operands[0].shape)) for n in operands)
            weight = parameters[0].magnitude if parameters else 1.0
            sigma = np.sqrt(np.maximum(var.lo + attributes["eps"], 0.0)) * (1 - 2.0**-50)
            bias = parameters[1].magnitude if len(parameters) > 1 else 0.0
            return np.asarray(((x.magnitude + mean.magnitude) * weight / sigma + bias) * u)
        case "layer_norm":
            x = operands[0].value
            places = places_of(len(operands[0].shape), attributes["axes"])
            weight = np.max(operands[1].value.magnitude, initial=0.0) if len(operands) > 1 else 1.0
            n = math.prod(x.shape[place] for place in places)
            mean = total(x, places) / IntervalArray.of(float(n))
            apart = (x - mean).smallest
            half = np.maximum(np.max(x.lo, axis=places, keepdims=True) - np.min(x.hi, axis=places, keepdims=True), 0.0) / 2
            # the squares of the deviations are at least those of the two elements that lie furthest apart
            squares = np.maximum(np.sum(apart * apart, axis=places, keepdims=True), 2 * half * half)
            sigma = np.sqrt(squares / n + attributes["eps"]) * (1 - 2.0**-40)
            bias = np.max(operands[2].value.magnitude, initial=0.0) if len(operands) > 2 else 0.0
            return np.asarray((x.magnitude + mean.magnitude) * (weight * u) / sigma + bias * u)
    return None


def onto(other: Array, error: Array, n: float, form: ElementFormat) -> Array:
    """Additional error of a sum of n products that a kernel accumulates onto another term, from the error of the sum alone.

    Each of n + 1 sums holds that term; one more of the size of any, and one for a factor that both may have, cost no more than the
    products, which are rounded too.
    """
    return np.asarray(other * gamma(n + 2, form) + error * 2)


def contracted(
    shape: Sequence[int], a: IntervalArray, b: IntervalArray, bias: IntervalArray | None, form: ElementFormat, independent: bool = False
) -> Array:
    """Error of A·B, or of A·B + bias, in its shape, whose sums a kernel takes in any order; or independent errors, in usual ones."""
    a = a.map(lambda v: v[:, None, :]) if a.lo.ndim == 2 else a
    b = b.map(lambda v: v[..., None]) if b.lo.ndim == 2 else b
    rank = max(a.lo.ndim, b.lo.ndim) - 1
    a, b = lifted(a, rank), lifted(b, rank)
    added = None if bias is None else lifted(bias, rank)
    if not all(np.isfinite(x.magnitude).all() for x in (a, b, added) if x is not None):
        return np.full((1, *shape), np.inf)
    n = a.shape[-1]
    size = (a.magnitude @ b.magnitude + (0.0 if added is None else added.magnitude)) * (1 + 4 * n * 2.0**-52)
    found = _unless_overflow(size, np.broadcast_to(products(a, b, added, form, independent), size.shape), form)
    return np.asarray(found.reshape(found.shape[0], *shape))


def _reduced(kind: Accumulation, value: IntervalArray, x: TapeNode, places: tuple[int, ...], form: ElementFormat,
             independent: bool) -> Array:  # fmt: skip
    n = math.prod(x.value.shape[place] for place in places)
    if kind is Accumulation.PRODUCT:
        return _multiplied(value, x, places, n, form)
    size = np.sum(x.value.magnitude, axis=places, keepdims=True) * (1 + n * 2.0**-52) if places else x.value.magnitude
    size = np.broadcast_to(size, value.shape)
    if n <= 1:
        return np.zeros(())
    match kind:
        case Accumulation.COMPENSATED:
            # Neumaier's bound: 2u on the sum, and a second-order part on the magnitudes
            error = value.magnitude * (2 * form.unit_roundoff) + size * (4 * n * n * form.unit_roundoff**2)
        case Accumulation.PAIRWISE:
            error = size * gamma(math.ceil(math.log2(n)), form)
        case _:
            terms = _along(x.value, places)
            error = (in_usual_orders if independent else any_order)(terms, form).reshape(-1, *value.shape[1:])
    return _unless_overflow(size, error, form)


def _along(x: IntervalArray, places: tuple[int, ...]) -> IntervalArray:
    """Elements that are added up, along one axis behind the others."""
    last = tuple(range(-len(places), 0))

    def laid(v: Array) -> Array:
        moved = np.moveaxis(np.broadcast_to(v, (v.shape[0], *x.shape[1:])), places, last)
        return np.ascontiguousarray(moved).reshape(*moved.shape[: -len(places)], -1)

    return x.map(laid)


def _multiplied(value: IntervalArray, x: TapeNode, places: tuple[int, ...], n: int, form: ElementFormat) -> Array:
    """Of a product in any order: parts of it may overflow, or underflow and leave nothing."""
    if n <= 1:
        return np.zeros(())
    error = within_ulps(value, 1 + gamma(n - 1, form) / form.unit_roundoff, form)
    largest = np.prod(np.maximum(x.value.magnitude, 1.0), axis=places, keepdims=True)
    least = np.prod(np.minimum(x.value.smallest, 1.0), axis=places, keepdims=True)
    vanishing = least < max(form.tiny / form.unit_roundoff, form.flushed) * 2
    error = np.where(vanishing, value.magnitude + error * 2 + form.tiny, error)
    return np.where(largest * (1 + 4 * n * form.unit_roundoff) > form.largest, np.inf, error)


def _convolved(value: IntervalArray, x: TapeNode, weight: TapeNode, form: ElementFormat) -> Array:
    """As for a matrix product with the largest input: in any order, and also by other algorithms than the definition (FFT not)."""
    n = math.prod(weight.shape[1:])
    size = np.max(x.value.magnitude, initial=0.0) * np.sum(weight.value.magnitude, axis=tuple(range(2, len(weight.shape) + 1)))
    size = np.broadcast_to(size.reshape(size.shape[0], 1, -1, *(1,) * (len(weight.shape) - 2)) * (1 + 4 * n * 2.0**-52), value.shape)
    return _accumulated(size, n, form)


def _accumulated(size: Array, n: int, form: ElementFormat) -> Array:
    """Error of a sum of n products of this size, each of which may underflow."""
    return _unless_overflow(size, size * gamma(n, form) + n * form.underflow, form)


def _unless_overflow(size: Array, error: Array, form: ElementFormat) -> Array:
    return np.where(size + error > form.largest, np.inf, error)


def _underflows(value: IntervalArray, form: ElementFormat) -> Array:
    return value.smallest < max(form.tiny / form.unit_roundoff, form.flushed)


def _power_of_two(x: TapeNode) -> bool:
    v = x.value
    if not x.exact or v.lo is not v.hi:
        return False
    fraction, _ = np.frexp(np.abs(v.lo))
    return bool(np.all((fraction == 0.5) | (v.lo == 0)))
