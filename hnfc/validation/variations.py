"""Inputs that a later call may well have, beside the sample: on other scales, and where differences cancel."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import islice

import numpy as np
from xdsl.ir import Block, SSAValue

from hnfc.dialects.interval import Interval
from hnfc.validation.differential import elements_of, slots_of
from hnfc.validation.probes import Array, Change, Slot, inside, scaled, typed

MOST_VARIED = 5_000_000
"""Elements of all values on variations of the sample together."""
_LATER_SCALES = (-30, -16, -8, -4, 2, 4, 6, 8, 12, 16, 30)
_NEAR = 2.0**-12


def varied(
    block: Block, samples: Sequence[dict[SSAValue, Array]], intervals: Mapping[SSAValue, Interval], fixed: frozenset[int]
) -> tuple[list[dict[SSAValue, Array]], list[dict[SSAValue, Array]]]:
    """Variations of the first sample as far as they are cheap: those near it, and those on other scales."""
    if not samples or any(argument not in samples[0] for argument in block.args):
        return [], []
    affordable = MOST_VARIED // max(1, elements_of(block), *(array.size for array in samples[0].values()))
    if not affordable:
        return [], []
    slots = slots_of(block, samples[0], intervals, fixed, 0)
    arguments: list[SSAValue] = list(block.args)
    near = list(islice(_nearby(slots, fixed), affordable))
    scales = islice(_on_other_scales(slots, fixed), affordable - len(near))
    return [dict(zip(arguments, a, strict=True)) for a in near], [dict(zip(arguments, a, strict=True)) for a in scales]


def _on_other_scales(slots: Sequence[Slot], fixed: frozenset[int]) -> Iterator[tuple[Array, ...]]:
    """The sample times powers of two, in the ranges of the slots. Those at `fixed` stay as they are."""
    return _changed(slots, fixed, [partial(scaled, exponent) for exponent in _LATER_SCALES])


def _nearby(slots: Sequence[Slot], fixed: frozenset[int]) -> Iterator[tuple[Array, ...]]:
    """Inputs where differences cancel, in the ranges of the slots: elements near ±1 if all lie between (probabilities, cosines), and
    floating-point inputs of one shape that nearly agree. Those at `fixed` stay as they are."""
    changes: list[Change] = []
    floating = _floating(slots, fixed)
    if any(map(_is_fraction, floating.values())):
        changes.append(_near_one)
    if len({slot.sample.shape for slot in floating.values()}) < len(floating):
        changes.append(partial(_near_first, floating))
    return _changed(slots, fixed, changes)


def _floating(slots: Sequence[Slot], fixed: frozenset[int]) -> dict[int, Slot]:
    return {index: slot for index, slot in enumerate(slots) if slot.format is not None and slot.sample.size and index not in fixed}


def _changed(slots: Sequence[Slot], fixed: frozenset[int], changes: Sequence[Change]) -> Iterator[tuple[Array, ...]]:
    floating = _floating(slots, fixed)
    for change in changes if floating else ():
        with np.errstate(all="ignore"):
            changed = {index: change(index, slot) for index, slot in floating.items()}
        if all(np.isfinite(array).all() and inside(array, floating[index]) for index, array in changed.items()):
            yield tuple(changed.get(index, slot.sample) for index, slot in enumerate(slots))


def _is_fraction(slot: Slot) -> bool:
    return bool((np.abs(slot.sample.astype(np.float64)) <= 1).all())


def _near_one(index: int, slot: Slot) -> Array:
    wide = slot.sample.astype(np.float64)
    return typed(slot, np.copysign(1 - _NEAR * np.abs(wide), wide)) if _is_fraction(slot) else slot.sample


def _near_first(slots: Mapping[int, Slot], index: int, slot: Slot) -> Array:
    """The first of the inputs of this shape, with small relative changes but for itself."""
    first = next(i for i, other in slots.items() if other.sample.shape == slot.sample.shape)
    away = _NEAR * np.random.default_rng(index).standard_normal(slot.sample.shape) if first != index else 0.0
    return typed(slot, slots[first].sample.astype(np.float64) * (1 + away))
