"""Where the two sides of a rule differ on a batch, and of which kind each difference is."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from hnfc.dsl.core import Rule
from hnfc.dsl.ieee.conditions import meets
from hnfc.dsl.ieee.evaluate import Batch, sides
from hnfc.dsl.ieee.formats import BINARY, Array, distance

LOSES, GAINS, VALUE, SIGNED_ZERO, NAN, INF = "loses", "gains", "value", "signed zero", "nan", "inf"
KINDS = (LOSES, GAINS, VALUE, SIGNED_ZERO, NAN, INF)
"""loses: left finite, right not. gains: the converse. value: both finite. signed zero: both 0. nan: a result that is not finite, at an
input that is NaN. inf: the same at an input that is infinite; or results that are both not finite, and differ."""

SIGNED_ZEROS, NANS, INFINITIES = "signed zeros", "NaNs", "infinities"


@dataclass
class Differences:
    """Both sides on a batch. `kinds`: for each kind the elements that differ so; `met`: the samples that meet every condition.

    finite: the samples whose inputs are all finite.
    edge: for each element that is lost, how near to the largest number the finite side is (1: at it).
    explained: for each exception the differing samples that it covers; plain: those that none does.
    """

    batch: Batch
    left: Array
    right: Array
    met: Array
    kinds: dict[str, Array]
    ulps: Array
    edge: Array
    finite: Array
    explained: dict[str, Array] = field(default_factory=dict)

    @property
    def differing(self) -> Array:
        """The samples with a difference of any kind."""
        return np.asarray(np.logical_or.reduce([per_sample(mask) for mask in self.kinds.values()]))


def per_sample(mask: Array) -> Array:
    return np.asarray(mask.reshape(mask.shape[0], -1).any(axis=1))


def compared(rule: Rule, batch: Batch, element: str, assume: frozenset[str]) -> Differences:
    """The differences on the samples that meet `where` and the assumptions. Raises ShapeMismatch, Unsupported or Mismatch.

    element: the element type of the sides.
    """
    left, right = sides(rule.pattern, rule.replacement, batch)
    nan, infinite, negative_zero = (_some_input(batch, test) for test in (np.isnan, np.isinf, _is_negative_zero))
    met = meets(rule, batch).copy()
    if "no-nans" in assume:
        met &= ~nan
    if "no-infs" in assume:
        met &= ~infinite
    if "no-signed-zeros" in assume:
        met &= ~negative_zero
    inside = met.reshape(-1, *(1,) * (left.ndim - 1))
    kinds = dict.fromkeys(KINDS, np.zeros(left.shape, np.bool_))
    ulps, edge = np.zeros(left.shape), np.ones(left.shape)
    if element not in BINARY:
        kinds[VALUE] = (left != right) & inside
        return _explained(Differences(batch, left, right, met, kinds, ulps, edge, ~(nan | infinite)), nan, infinite, negative_zero)
    differ = ~_same(left, right) & inside
    if differ.any():
        finite_left, finite_right = np.isfinite(left), np.isfinite(right)
        zeros = differ & (left == 0) & (right == 0)
        rest = differ & ~zeros
        has_nan, has_inf = (flag.reshape(inside.shape) for flag in (nan, infinite))
        both, neither = finite_left & finite_right, ~finite_left & ~finite_right
        kinds = {
            LOSES: rest & finite_left & ~finite_right,
            GAINS: rest & ~finite_left & finite_right,
            VALUE: rest & both,
            SIGNED_ZERO: zeros if "no-signed-zeros" not in assume else np.zeros_like(zeros),
            NAN: rest & has_nan & ~both,
            INF: rest & ~has_nan & ~both & (has_inf | neither),
        }
        for kind, finite in ((LOSES, left), (GAINS, right)):
            edge[kinds[kind]] = np.abs(finite[kinds[kind]]) / BINARY[element].largest
        if kinds[VALUE].any():
            ulps[kinds[VALUE]] = distance(left[kinds[VALUE]], right[kinds[VALUE]], BINARY[element])
    return _explained(Differences(batch, left, right, met, kinds, ulps, edge, ~(nan | infinite)), nan, infinite, negative_zero)


def _same(left: Array, right: Array) -> Array:
    """Bit for bit, with NaNs identified."""
    return np.asarray(((left == right) & (np.signbit(left) == np.signbit(right))) | (np.isnan(left) & np.isnan(right)))


def _is_negative_zero(x: Array) -> Array:
    return np.asarray((x == 0) & np.signbit(x))


def _some_input(batch: Batch, test: object) -> Array:
    found = np.zeros(batch.size, np.bool_)
    for name, values in batch.inputs.items():
        if batch.elements[name] in BINARY:
            found |= per_sample(test(values))  # type: ignore[operator]
    return found


def _explained(found: Differences, nan: Array, infinite: Array, negative_zero: Array) -> Differences:
    """Sorts the differing samples by the exceptions that cover them: a sample may be covered by several."""
    differing = found.differing
    if differing.any():
        other = np.logical_or.reduce([per_sample(mask) for kind, mask in found.kinds.items() if kind != SIGNED_ZERO])
        found.explained = {
            SIGNED_ZEROS: differing & (negative_zero | ~other),
            NANS: differing & nan,
            INFINITIES: differing & infinite,
        }
    return found
