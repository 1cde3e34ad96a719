"""Examples of a difference: the plainest sample that shows it, made plainer, and which inputs do not matter."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from typing import TypeAlias

import numpy as np

from hnfc.dsl.ieee.differences import Differences, per_sample
from hnfc.dsl.ieee.evaluate import Batch
from hnfc.dsl.ieee.formats import BINARY, Array, Binary, nearest, rounded, text
from hnfc.dsl.ieee.verdict import IeeeExample, IeeeTensor
from hnfc.dsl.soundness.array_moves import ShapeMismatch

Shows: TypeAlias = Callable[[Batch], tuple[Array, Array]]
"""Masks of the samples of a batch that show the difference in question, and that meet the conditions at all. Raises ShapeMismatch."""

PLAIN = (
    *map(float, range(25)), 30.0, 32.0, 40.0, 50.0, 60.0, 64.0, 100.0, 200.0, 300.0, 400.0, 1e3, 2e3, 1e4, 4e4, 6e4, 1e5, 1e6, 1e8, 1e10,
    1e20, 1e30, 1e38, 1e155, 1e200, 1e300, 0.5, 0.25, 1.5, 0.1, 0.01, 1e-3, 1e-4, 1e-5, 1e-8, 1e-10, 1e-20, 1e-30, 1e-40, 1e-100, 1e-200,
    1e-300, np.inf, np.nan,
)  # fmt: skip
"""Numbers to put in place of others, and their opposites."""
OTHERS = (0.0, 1.0, -1.0, 2.0, 0.5, -3.0, 17.0, 100.0)
"""Numbers that an input may have if its value does not matter."""
ROUNDS = 2
MANY = 256
MAX_ELEMENTS = 6
LONG = 9.0
"""The length of a number of three digits or more."""


def cost(batch: Batch) -> Array:
    """Cost of each sample for a reader: numbers that are not finite, then long ones, then many and different ones."""
    total = np.zeros(batch.size)
    magnitudes = []
    for name, values in batch.inputs.items():
        flat = values.reshape(values.shape[0], -1)
        total += 0.5 * flat.shape[1]
        if batch.elements[name] in BINARY:
            total += length(flat, BINARY[batch.elements[name]]).sum(axis=1)
            magnitudes.append(np.broadcast_to(np.abs(flat), (batch.size, flat.shape[1])))
    if magnitudes:
        ordered = np.sort(np.concatenate(magnitudes, axis=1), axis=1)
        # a number that occurs again is read once; a NaN differs from itself
        total += 3 * (ordered[:, 1:] != ordered[:, :-1]).sum(axis=1)
    return total


def length(x: Array, form: Binary) -> Array:
    """About how many characters a number takes; 1000 and more for what is not finite."""
    magnitude = np.abs(x)
    values, lengths = _decimals(form)
    place = np.minimum(np.searchsorted(values, magnitude), len(values) - 1)
    size = np.where(values[place] == magnitude, lengths[place], LONG) + 0.3 * np.signbit(x)
    return np.where(np.isfinite(x), size, np.where(np.isnan(x), 3000.0, 1000.0 + np.signbit(x)))


@cache
def _decimals(form: Binary) -> tuple[Array, Array]:
    """The numbers ≥ 0 of the format that are written with one or two digits, in order, and their lengths."""
    least, most = round(math.log10(form.tiny)) - 1, round(math.log10(form.largest)) + 1
    written = [(digits, power) for digits in range(1, 100) for power in range(least, most)]
    values = rounded(np.array([0.0, *(float(f"{digits}e{power}") for digits, power in written)]), form)
    digits, power = np.array([(0, 0), *written]).T
    lengths = np.where(digits < 10, digits / 45 + 1.0, digits / 450 + 3.0) + np.abs(power + (digits >= 10)) / 20
    lengths[0] = 0.0
    # the shortest of those that are the same number comes first
    order = np.lexsort((lengths, values))
    values, kept = np.unique(values[order], return_index=True)
    inside = np.isfinite(values)
    return values[inside], lengths[order][kept][inside]


def plainest(batch: Batch, among: Array) -> Batch:
    """The sample of least cost among the first of those marked."""
    candidates = batch.take(np.flatnonzero(among)[:MANY])
    return candidates.take(np.array([int(np.argmin(cost(candidates)))]))


def simplified(sample: Batch, shows: Shows) -> Batch:
    """A plainer sample that shows the same: fewer elements, then plainer numbers, one input or one element at a time."""
    changed = True
    while changed:
        changed = False
        for smaller in _shorter(sample):
            if _shown(smaller, shows):
                sample, changed = smaller, True
                break
    numbers = sum(x.size for name, x in sample.inputs.items() if sample.elements[name] in BINARY)
    for _ in range(ROUNDS if numbers > 1 else 1):
        before = sample
        for name in sorted(sample.inputs):
            if sample.elements[name] not in BINARY or name in sample.fixed:
                continue
            sample = _plainer(sample, name, None, shows)
            if sample.inputs[name].size > MAX_ELEMENTS:
                sample = _sparser(sample, name, shows)
            elif sample.inputs[name].size > 1:
                for place in range(sample.inputs[name].size):
                    sample = _plainer(sample, name, place, shows)
        if sample is before:
            break
    return sample


def _plainer(sample: Batch, name: str, place: int | None, shows: Shows) -> Batch:
    """With a plainer number at one place of an input, counted in row-major order (None: at all places)."""
    form = BINARY[sample.elements[name]]
    own = sample.inputs[name].reshape(-1)
    others = [abs(v) for key, x in sample.inputs.items() if key != name and sample.elements[key] in BINARY for v in x.reshape(-1)[:4]]
    opposite = rounded(np.array([*others, *(-v for v in others)]), form)
    tried = np.concatenate([_plain_numbers(sample.elements[name]), own[:4], np.rint(own[:4]), opposite])
    values = np.repeat(sample.inputs[name], len(tried) + 1, axis=0)
    flat = values.reshape(len(values), -1)
    flat[1:, slice(None) if place is None else place] = tried[:, None] if place is None else tried
    batch = replace(sample, inputs={**sample.inputs, name: values})
    found, _ = shows(batch)
    # the first is the sample itself
    costs = np.where(found, cost(batch), np.inf)
    best = int(np.argmin(costs))
    return batch.take(np.array([best])) if costs[best] < costs[0] else sample


def _sparser(sample: Batch, name: str, shows: Shows) -> Batch:
    """With 0 at those places of a large input at which it changes nothing, if they may all be 0 at once, or half of them."""
    own = sample.inputs[name]
    values = np.repeat(own, own.size, axis=0)
    values.reshape(own.size, -1)[np.arange(own.size), np.arange(own.size)] = 0.0
    places = np.flatnonzero(shows(replace(sample, inputs={**sample.inputs, name: values}))[0] & (own.reshape(-1) != 0))
    half = len(places) // 2
    for chosen in (places, places[:half], places[half:]):
        fewer = own.copy()
        fewer.reshape(-1)[chosen] = 0.0
        thinned = replace(sample, inputs={**sample.inputs, name: fewer})
        if len(chosen) and _shown(thinned, shows):
            return thinned
    return sample


@cache
def _plain_numbers(element: str) -> Array:
    found = rounded(np.array(PLAIN), BINARY[element])
    return np.concatenate([found, -found]) + (0.0 if not BINARY[element].signed_zero else -0.0)


def _shown(sample: Batch, shows: Shows) -> bool:
    try:
        return bool(shows(sample)[0].any())
    except ShapeMismatch:
        return False


def _shorter(sample: Batch) -> Iterator[Batch]:
    """With fewer places along an axis, in every input that is not of size 1 there: half of them, or one less."""
    deepest = max((x.ndim - 1 for x in sample.inputs.values()), default=0)
    for axis in range(-deepest, 0):
        longest = max(x.shape[axis] for x in sample.inputs.values() if x.ndim - 1 >= -axis)
        if not 1 < longest <= 8:
            continue
        half = longest // 2
        halves = [list(range(half, longest)), list(range(half))] if longest > 3 else []
        for cut in [*halves, *([place] for place in range(longest))]:
            inputs = {
                name: np.delete(x, [min(place, x.shape[axis] - 1) for place in cut][: x.shape[axis] - 1], axis=x.ndim + axis)
                if x.ndim - 1 >= -axis and x.shape[axis] > 1
                else x
                for name, x in sample.inputs.items()
            }
            yield replace(sample, inputs=inputs)


def irrelevant(sample: Batch, shows: Shows) -> tuple[str, ...]:
    """The inputs of which several other values, each in all elements, show the same, and none that was tried does not."""
    found = []
    for name in sorted(sample.inputs):
        element, x = sample.elements[name], sample.inputs[name]
        if name in sample.fixed:
            continue
        if element in BINARY:
            others = rounded_others(element)
        elif element == "i1":
            others = np.array([False, True])
        else:
            continue
        values = np.broadcast_to(others.reshape(-1, *(1,) * (x.ndim - 1)), (len(others), *x.shape[1:])).astype(x.dtype)
        shown_there, met = shows(replace(sample, inputs={**sample.inputs, name: values}))
        if met.sum() >= 2 and (shown_there | ~met).all():
            found.append(name)
    return tuple(found)


def rounded_others(element: str) -> Array:
    return np.array(list(dict.fromkeys(nearest(v, BINARY[element]) for v in OTHERS)))


def described(found: Differences, mask: Array, element: str, unimportant: tuple[str, ...]) -> IeeeExample:
    """The example that a batch of one sample shows at the first (for numbers of different value: the worst) marked element."""
    assert found.batch.size == 1 and per_sample(mask)[0]
    worst = np.where(mask, found.ulps, -1.0)[0]
    index = tuple(int(i) for i in np.unravel_index(int(np.argmax(worst)), worst.shape))
    inputs = tuple((name, tensor_of(x[0], found.batch.elements[name])) for name, x in sorted(found.batch.inputs.items()))
    return IeeeExample(
        inputs,
        tuple(sorted(found.batch.axes.items())),
        index,
        shown(found.left[0][index], element),
        shown(found.right[0][index], element),
        element,
        unimportant,
    )


def tensor_of(x: Array, element: str) -> IeeeTensor:
    return IeeeTensor(tuple(x.shape), tuple(shown(v, element) for v in x.reshape(-1)), element)


def shown(value: object, element: str) -> str:
    if element in BINARY:
        return text(float(value), BINARY[element])  # type: ignore[arg-type]
    return str(bool(value)).lower() if element == "i1" else str(int(value))  # type: ignore[call-overload]
