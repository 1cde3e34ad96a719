"""Inputs next to the place where a side stops being finite: there the sides overflow one after the other, or not both.

One capture at a time moves between two numbers, at one of which a side is finite and at the other not, until they are neighbours.
"""

from __future__ import annotations

import numpy as np

from hnfc.dsl.core import Rule
from hnfc.dsl.ieee.evaluate import Batch, sides
from hnfc.dsl.ieee.formats import BINARY, Array, Binary, ordinals, value_at
from hnfc.dsl.ieee.samples import TrialBatch, required_signs
from hnfc.dsl.ieee.values import ordinary, specials
from hnfc.dsl.soundness.typing import Typing

BASES = 16
"""So many values of the other captures are tried for each that moves."""
PARTS = 16
"""Into so many parts an interval is cut in each round."""
PLACES = 24
"""So many places are looked for, for each capture."""
AROUND = 4
"""So many numbers on both sides of the place are tried."""


def edge_trials(rule: Rule, typing: Typing) -> list[TrialBatch]:
    """For each floating-point capture of a pointwise rule, the inputs around the places that were found.

    Raises ShapeMismatch, Unsupported or Mismatch.
    """
    random = np.random.default_rng(1)
    floats = [name for name, element in typing.captures.items() if element in BINARY]
    found = [_edges_along(rule, typing, name, random) for name in floats]
    return [TrialBatch(batch) for batch in found if batch is not None]


def _edges_along(rule: Rule, typing: Typing, moving: str, random: np.random.Generator) -> Batch | None:
    form = BINARY[typing.captures[moving]]
    signs = required_signs(rule)
    base = {}
    for name, element in typing.captures.items():
        if element in BINARY:
            half = BASES // 2
            base[name] = np.concatenate([ordinary(BINARY[element], half, random), random.choice(_finite(BINARY[element], rule), half)])
        elif element == "i1":
            base[name] = random.integers(0, 2, BASES).astype(np.bool_)
        else:
            return None
        if name in signs:
            base[name] = np.copysign(base[name], signs[name])
    line = np.unique(np.abs(_finite(form, rule)) if moving in signs else _finite(form, rule))
    line = np.unique(line * signs.get(moving, 1.0))
    rows, low, high, side = _brackets(rule, typing, base, moving, line)
    if not len(rows):
        return None
    if len(rows) > PLACES:
        some = np.sort(random.choice(len(rows), PLACES, replace=False))
        rows, low, high, side = rows[some], low[some], high[some], side[some]
    others = {name: values[rows] for name, values in base.items() if name != moving}
    start, stop = signed_ordinals(line[low], form), signed_ordinals(line[high], form)
    while (stop - start > 1).any():
        steps = np.arange(PARTS + 1)
        grid = start[:, None] + (stop - start)[:, None] // PARTS * steps + np.minimum((stop - start)[:, None] % PARTS, steps)
        flags = _finiteness(rule, _batch(typing, others, moving, grid, form), side[:, None])
        first = np.argmax(flags != flags[:, :1], axis=1)
        place = np.arange(len(rows))
        start, stop = grid[place, first - 1], grid[place, first]
    near = start[:, None] + np.arange(-AROUND, AROUND + 2)
    return _batch(typing, others, moving, near, form)


def _finite(form: Binary, rule: Rule) -> Array:
    pool = specials(form, rule)
    return pool[np.isfinite(pool)]


def signed_ordinals(x: Array, form: Binary) -> Array:
    """The place of each number in the order of the format's numbers; both zeros at 0."""
    return np.where(np.signbit(x), -ordinals(x, form), ordinals(x, form))


def _brackets(rule: Rule, typing: Typing, base: dict[str, Array], moving: str, line: Array) -> tuple[Array, Array, Array, Array]:
    """Rows of `base` and neighbours in `line` between which a side (0 left, 1 right) changes from finite to not or back."""
    inputs = {name: np.repeat(values, len(line)) for name, values in base.items()}
    inputs[moving] = np.tile(line, BASES)
    parts: list[tuple[Array, Array, Array, Array]] = []
    for number, values in enumerate(sides(rule.pattern, rule.replacement, Batch(inputs, {}, typing))):
        flags = np.isfinite(values.astype(np.float64)).reshape(BASES, len(line))
        rows, low = np.nonzero(flags[:, 1:] != flags[:, :-1])
        parts.append((rows, low, low + 1, np.full(len(rows), number)))
    first, second = parts
    return tuple(np.concatenate(pair) for pair in zip(first, second, strict=True))  # type: ignore[return-value]


def _batch(typing: Typing, others: dict[str, Array], moving: str, places: Array, form: Binary) -> Batch:
    """One sample for each place of each row."""
    inputs = {name: np.repeat(values, places.shape[1]) for name, values in others.items()}
    inputs[moving] = value_at(places.reshape(-1), form)
    return Batch(inputs, {}, typing)


def _finiteness(rule: Rule, batch: Batch, side: Array) -> Array:
    left, right = (np.isfinite(values.astype(np.float64)) for values in sides(rule.pattern, rule.replacement, batch))
    shape = (len(side), -1)
    return np.where(side == 0, left.reshape(shape), right.reshape(shape))
