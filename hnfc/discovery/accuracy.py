"""Digits lost by both sides of an equality: float32 at points of every size, beside float64. It is an estimate."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hnfc.discovery.enumeration import FREE, Array, evaluated
from hnfc.dsl import core
from hnfc.dsl.core import Rule

POINTS = 400
LOST_BITS = 8
_SIDE, _SEED = 3, 11
_WORSE = 0.02
"""The share of the points by which one side must be worse than the other."""


@dataclass(frozen=True)
class LostShares:
    """The shares of the points at which each side loses more than 8 bits, or its value."""

    left: float
    right: float

    @property
    def better(self) -> str:
        """`left`, `right`, or empty where there is no telling."""
        if self.left > self.right + _WORSE:
            return "right"
        return "left" if self.right > self.left + _WORSE else ""


def compared(rule: Rule) -> LostShares:
    """The accuracy of both sides where the rule's condition holds on single captures and the value is finite."""
    draw = np.random.default_rng(_SEED)
    inputs = {name: _points(name, draw) for name in sorted(core.captures(rule.pattern) | core.captures(rule.replacement))}
    sides = (rule.pattern, rule.replacement)
    right = evaluated(rule.replacement, inputs, "f64")
    left = evaluated(rule.pattern, inputs, "f64")
    if left is None or right is None:
        return LostShares(0, 0)
    reference = _reference(left, right)
    return LostShares(*(_lost(evaluated(side, inputs, "f32"), reference) for side in sides))


def _points(name: str, draw: np.random.Generator) -> Array:
    """Numbers that are exact in float32: of ordinary size, tiny, large, and near 1, each in a quarter of the samples."""
    shape = (POINTS, _SIDE, 1 if name == FREE else _SIDE)
    sizes = np.exp2(draw.uniform(-1, 1, shape) * np.repeat([2, 20, 7, 0], POINTS // 4).reshape(-1, 1, 1))
    signs = draw.choice([-1.0, 1.0], (POINTS, 1, 1))
    near = np.where(np.arange(POINTS).reshape(-1, 1, 1) >= 3 * POINTS // 4, draw.uniform(-1e-4, 1e-4, shape), 0)
    return np.asarray(signs * sizes + near, np.float32).astype(np.float64)


def _reference(left: Array, right: Array) -> Array:
    """Values of float64 where both sides have the same or one overflows, NaN elsewhere."""
    with np.errstate(all="ignore"):
        left, right = np.broadcast_arrays(left, right)
        same = np.isfinite(left) & np.isfinite(right) & (np.abs(left - right) <= 1e-9 * np.abs(right))
    # where one overflowed the other is right
    found = np.where(np.isinf(left), right, np.where(np.isinf(right), left, np.where(same, right, np.nan)))
    return np.where(np.isfinite(found), found, np.nan)


def _lost(found: Array | None, reference: Array) -> float:
    counted = np.isfinite(reference) & (np.abs(reference) < np.finfo(np.float32).max) & (np.abs(reference) > np.finfo(np.float32).tiny)
    if found is None or not counted.any():
        return 0.0
    with np.errstate(all="ignore"):
        error = np.abs(np.broadcast_to(found, reference.shape) - reference) / np.abs(reference)
    lost = ~(error <= np.finfo(np.float32).eps * 2**LOST_BITS)
    return float(lost[counted].mean())
