"""Does the right side give a number where the left side has no value over the reals? There NaN is right."""

from __future__ import annotations

from functools import reduce

import numpy as np

from hnfc.dialects.facts import NoFormula
from hnfc.dsl.core import Rule
from hnfc.dsl.ieee.differences import GAINS, Differences, per_sample
from hnfc.dsl.ieee.evaluate import Batch
from hnfc.dsl.ieee.formats import BINARY, Array
from hnfc.dsl.soundness.array_moves import ShapeMismatch
from hnfc.dsl.soundness.balls import Unsupported, evaluate
from hnfc.dsl.soundness.elements import UNDEFINED

BITS = 80
NEIGHBOURS = 6
"""Points around one at which a value is looked for too."""
_NEAR = 2.0**-8
"""Relative distance of a neighbour."""


def candidates(found: Differences, count: int) -> list[Batch]:
    """Single samples of finite inputs at which a NaN becomes a number: half of them of the least numbers, half drawn."""
    places = np.flatnonzero(per_sample(_gained(found)) & found.finite) if count else np.zeros(0, np.intp)
    if not places.size:
        return []
    sizes = reduce(np.maximum, map(_largest, found.batch.inputs.values()))
    sizes = np.broadcast_to(sizes, (found.batch.size,))[places]
    least = places[np.argsort(sizes, kind="stable")[: count // 2]]
    drawn = np.random.default_rng(0).permutation(places)[: count - len(least)]
    return [found.batch.take(np.array([place])) for place in dict.fromkeys((*least.tolist(), *drawn.tolist()))]


def filled(rule: Rule, sample: Batch, found: Differences) -> Array:
    """The elements of one sample at which the left side has no value, and has none all around, and the right side is a number.

    At a single point, as x/x at 0, a number may be the limit.
    """
    none = np.zeros(found.left.shape, np.bool_)
    mask = _gained(found)
    random = np.random.default_rng(0)
    inputs = {name: values[0] for name, values in sample.inputs.items()}
    moving = {name for name in inputs if sample.elements[name] in BINARY and name not in sample.fixed}
    for draw in range(NEIGHBOURS + 1):
        given = {name: nearby(x, random) if draw and name in moving else x for name, x in inputs.items()}
        try:
            exact = np.broadcast_to(evaluate(rule.pattern, given, sample.axes, BITS).values, found.left.shape[1:])
        except (Unsupported, NoFormula, ShapeMismatch, ValueError, IndexError, KeyError, TypeError):
            return none
        mask &= np.asarray(np.frompyfunc(lambda x: x is UNDEFINED, 1, 1)(exact), np.bool_)
        if not mask.any():
            return none
    return mask


def _largest(values: Array) -> Array:
    flat = np.abs(values.reshape(len(values), -1).astype(np.float64))
    return np.asarray(flat.max(axis=1, initial=0.0))


def _gained(found: Differences) -> Array:
    return np.asarray(found.kinds[GAINS] & np.isnan(found.left))


def nearby(x: Array, random: np.random.Generator) -> Array:
    """Numbers in float64 near those of an array, and either side of 0."""
    wide = np.asarray(x, np.float64)
    with np.errstate(all="ignore"):
        return np.asarray(wide + random.uniform(-1, 1, wide.shape) * _NEAR * np.maximum(np.abs(wide), _NEAR))
