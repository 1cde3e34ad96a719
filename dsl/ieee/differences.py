"""Differences of the two sides of a rule on a batch, and the kind of each."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from hnfc.dsl.core import Rule
from hnfc.dsl.ieee.conditions import meets
from hnfc.dsl.ieee.evaluate import Batch, sides
from hnfc.dsl.ieee.formats import BINARY, Array, distance

LOSES, GAINS, VALUE, SIGNED_ZERO, NAN, INF = "loses", "gains", "value", "signed zero", "nan", "inf"
SWALLOWS, TO_NAN, DIGITS, FILLS = "swallows NaN", "inf to NaN", "loses digits", "NaN to number"
KINDS = (LOSES, SWALLOWS, TO_NAN, DIGITS, FILLS, GAINS, VALUE, SIGNED_ZERO, NAN, INF)
"""loses: left finite, right not. swallows NaN: left NaN because an input is, right a number. inf to NaN: left infinite, right NaN, no input
NaN. loses digits: left right in half of its digits, right not (`digits.lost`, of single samples). NaN to number: left NaN since it has no
value over the reals, right a number (`undefined.filled`, of single samples). gains: left not finite for another
reason, right finite. value: both finite. signed zero: both 0. nan: a result that is not finite, at
an input that is NaN. inf: the same at an input that is infinite; or results that are both not finite, and differ."""
WRONG = (LOSES, SWALLOWS, TO_NAN, DIGITS, FILLS)
"""Results that are right on the left and wrong on the right."""

SIGNED_ZEROS, NANS, INFINITIES = "signed zeros", "NaNs", "infinities"


@dataclass(frozen=True)
class Unusual:
    """The samples with an input that is NaN, infinite, -0."""

    nan: Array
    infinite: Array
    negative_zero: Array


@dataclass
class Differences:
    """Both sides on a batch. `kinds`: for each kind the elements that differ so; `met`: the samples that meet every condition.

    ulps: for each element of kind `value`, how many numbers lie between the sides. edge: for each element that is lost or gained,
    how near to the largest number the finite side is (1: at it).
    """

    rule: Rule
    batch: Batch
    left: Array
    right: Array
    met: Array
    unusual: Unusual
    kinds: dict[str, Array]
    ulps: Array
    edge: Array

    @property
    def both_ways(self) -> bool:
        return self.rule.both_ways

    @property
    def differing(self) -> Array:
        """The samples with a difference of any kind."""
        return np.asarray(np.logical_or.reduce([per_sample(mask) for mask in self.kinds.values()]))

    @property
    def finite(self) -> Array:
        """The samples whose inputs are all finite."""
        return ~(self.unusual.nan | self.unusual.infinite)

    def explained(self) -> dict[str, Array]:
        """For each exception, the differing samples that it covers: one may be covered by several."""
        differing = self.differing
        other = np.logical_or.reduce([per_sample(mask) for kind, mask in self.kinds.items() if kind != SIGNED_ZERO])
        return {
            SIGNED_ZEROS: differing & (self.unusual.negative_zero | ~other),
            NANS: differing & self.unusual.nan,
            INFINITIES: differing & self.unusual.infinite,
        }


def per_sample(mask: Array) -> Array:
    return np.asarray(mask.reshape(mask.shape[0], -1).any(axis=1))


def compared(rule: Rule, batch: Batch, element: str, assume: frozenset[str]) -> Differences:
    """The differences on the samples that meet `where` and the assumptions. Raises ShapeMismatch, Unsupported or Mismatch.

    element: the element type of the sides.
    """
    left, right = sides(rule.pattern, rule.replacement, batch)
    unusual = _unusual(batch)
    met = meets(rule, batch)
    for name, dropped in (("no-nans", unusual.nan), ("no-infs", unusual.infinite), ("no-signed-zeros", unusual.negative_zero)):
        met = met & ~dropped if name in assume else met
    kinds = dict.fromkeys(KINDS, np.zeros(left.shape, np.bool_))
    found = Differences(rule, batch, left, right, met, unusual, kinds, np.zeros(left.shape), np.ones(left.shape))
    inside = met.reshape(-1, *(1,) * (left.ndim - 1))
    if element not in BINARY:
        kinds[VALUE] = (left != right) & inside
        return found
    differ = ~_same(left, right) & inside
    if differ.any():
        kinds.update(_sorted(found, differ))
        if "no-signed-zeros" in assume:
            kinds[SIGNED_ZERO] = np.zeros_like(differ)
        for kind, side in ((LOSES, left), (GAINS, right)):
            found.edge[kinds[kind]] = np.abs(side[kinds[kind]]) / BINARY[element].largest
        if kinds[VALUE].any():
            found.ulps[kinds[VALUE]] = distance(left[kinds[VALUE]], right[kinds[VALUE]], BINARY[element])
    return found


def _sorted(found: Differences, differ: Array) -> dict[str, Array]:
    """The differing elements by kind."""
    left, right = found.left, found.right
    finite_left, finite_right = np.isfinite(left), np.isfinite(right)
    both, neither = finite_left & finite_right, ~finite_left & ~finite_right
    zeros = differ & (left == 0) & (right == 0)
    rest = differ & ~zeros
    has_nan, has_inf = (flag.reshape(-1, *(1,) * (left.ndim - 1)) for flag in (found.unusual.nan, found.unusual.infinite))
    swallowed = rest & has_nan & np.isnan(left) & ~np.isnan(right)
    if swallowed.any():
        swallowed &= _by_nan(found)
    to_nan = np.isinf(left) & np.isnan(right)
    if found.both_ways:
        to_nan |= np.isnan(left) & np.isinf(right)
    return {
        LOSES: rest & finite_left & ~finite_right,
        SWALLOWS: swallowed,
        TO_NAN: rest & to_nan & ~has_nan,
        # an infinity that comes of one is no fault of the left side
        GAINS: rest & ~finite_left & finite_right & ~swallowed & ~(np.isinf(left) & has_inf),
        VALUE: rest & both,
        SIGNED_ZERO: zeros,
        NAN: rest & has_nan & ~both,
        INF: rest & ~has_nan & ~both & (has_inf | neither),
    }


def _by_nan(found: Differences) -> Array:
    """The elements whose left side is a number once the inputs that are NaN are 1."""
    batch = found.batch
    inputs = {
        name: np.where(np.isnan(values), 1.0, values) if batch.elements[name] in BINARY else values for name, values in batch.inputs.items()
    }
    left, _ = sides(found.rule.pattern, found.rule.replacement, replace(batch, inputs=inputs))
    return ~np.isnan(left)


def _same(left: Array, right: Array) -> Array:
    """Bit for bit, with NaNs identified."""
    return np.asarray(((left == right) & (np.signbit(left) == np.signbit(right))) | (np.isnan(left) & np.isnan(right)))


def _unusual(batch: Batch) -> Unusual:
    flags = [np.zeros(batch.size, np.bool_) for _ in range(3)]
    for name, values in batch.inputs.items():
        if batch.elements[name] in BINARY:
            flat = values.reshape(values.shape[0], -1)
            for flag, test in zip(flags, (np.isnan(flat), np.isinf(flat), (flat == 0) & np.signbit(flat)), strict=True):
                flag |= test.any(axis=1)
    return Unusual(*flags)
