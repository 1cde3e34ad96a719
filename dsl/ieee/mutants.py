"""Samples near those that almost lose: of tensors in which one element decides, the special numbers alone are too few."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hnfc.dsl.ieee.differences import Differences, per_sample
from hnfc.dsl.ieee.evaluate import Batch
from hnfc.dsl.ieee.formats import BINARY, Array, rounded

PARENTS = 48
"""So many samples of each sort are changed."""
CHILDREN = 8
"""So many times each."""


def mutants(found: Differences, random: np.random.Generator) -> Batch | None:
    """Changed copies of the samples at which neither side is finite, or the right one is largest; None where there are none.

    A change puts 0, the opposite, a power of two times it, or another element of the input in the place of an element.
    """
    parents = _parents(found)
    if not len(parents):
        return None
    batch = found.batch.take(np.repeat(parents, CHILDREN))
    inputs = dict(batch.inputs)
    for name, values in batch.inputs.items():
        form = BINARY.get(batch.elements[name])
        if form is None or name in batch.fixed or values.size == 0:
            continue
        flat = values.reshape(len(values), -1).copy()
        rows = np.arange(len(flat))
        for _ in range(2):
            place, other = (random.integers(0, flat.shape[1], len(flat)) for _ in range(2))
            own = flat[rows, place]
            powers = np.ldexp(own, random.integers(-3, 4, len(flat)))
            change = random.integers(0, 6, len(flat))
            flat[rows, place] = np.choose(change, [np.zeros_like(own), -own, powers, flat[rows, other], -flat[rows, other], own])
        with np.errstate(all="ignore"):
            inputs[name] = rounded(flat, form).reshape(values.shape)
    return replace(batch, inputs=inputs)


def _parents(found: Differences) -> Array:
    """The places of the samples to change."""
    usable = found.met & found.finite
    blown = usable & per_sample(~np.isfinite(found.left) & ~np.isfinite(found.right))
    calm = usable & ~blown & ~per_sample(~np.isfinite(found.left))
    right = np.nan_to_num(np.abs(found.right.astype(np.float64)), nan=np.inf)
    size = np.where(calm, right.reshape(len(calm), -1).max(axis=1, initial=0.0), -1.0)
    largest = np.argsort(-size, kind="stable")[:PARENTS]
    return np.concatenate([np.flatnonzero(blown)[:PARENTS], largest[size[largest] > 0]])
