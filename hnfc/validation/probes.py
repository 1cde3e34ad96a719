"""Inputs beyond the samples, on which a rewrite must not be worse either: other scales, signed zeros, infinities, NaN, equal and
one-hot elements, the smallest and the largest numbers, and everyday numbers of either sign."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from hnfc.dialects.interval import Interval
from hnfc.dialects.num.rounding import NUMPY_TYPES
from hnfc.dialects.types import FORMATS, ElementFormat
from hnfc.validation.tolerance import NEGLIGIBLE

Array: TypeAlias = "np.ndarray[Any, Any]"
EVERYDAY = (20.0, 90.0, 1e4)
"""Magnitudes where exponentials saturate, overflow in float32, and overflow in every format."""
_SCALES = 13


@dataclass(frozen=True)
class Slot:
    """Argument that a probe fills: the element type of an input, its range, and an array of its shape that was observed or drawn.

    open_axes: the axes whose size the type leaves open; `least_size` of each.
    """

    element: str
    interval: Interval
    sample: Array
    open_axes: tuple[int, ...] = ()
    least_size: int = 0

    @property
    def format(self) -> ElementFormat | None:
        return FORMATS.get(self.element)


@dataclass(frozen=True)
class Probe:
    """Arrays for all slots; `name` says what is special about them."""

    name: str
    arrays: tuple[Array, ...]
    negligible: float = 0.0
    """Error up to which a NaN or a number without a right digit may become a number: 2^-48 if all numbers are below 2^-40, or one is
    above 2^40; any, for a NaN, if sums of products of an array's elements leave the range that sums are kept in."""
    resized: bool = False
    """True if axes have other sizes than in the sample."""


def probes(slots: Sequence[Slot]) -> Iterator[Probe]:
    """The probes of which every element lies in the range of its slot. The sample itself comes first."""
    for name, change in _changes(slots):
        with np.errstate(all="ignore"):
            arrays = tuple(change(index, slot) if slot.format is not None else slot.sample for index, slot in enumerate(slots))
        if all(inside(array, slot) for array, slot in zip(arrays, slots, strict=True)):
            negligible = (_negligible(array, slot.format) for array, slot in zip(arrays, slots, strict=True))
            yield Probe(name, arrays, max(negligible, default=0.0))
    least = min((slot.least_size for slot in slots if slot.open_axes), default=2)
    for size in range(1, least - 1, -1):
        yield Probe(f"size {size} on every open axis", tuple(_resized(size, slot) for slot in slots), resized=True)


Change: TypeAlias = "Callable[[int, Slot], Array]"


def _changes(slots: Sequence[Slot]) -> Iterator[tuple[str, Change]]:
    yield "the sample", _same
    yield "everyday values", _everyday
    for size in EVERYDAY:
        yield f"elements ±{size:g}", partial(_alternating, size)
        yield f"all elements {size:g}", partial(_full, size)
        yield f"all elements {-size:g}", partial(_full, -size)
    for value in (0.0, -0.0, 1.0, -1.0):
        yield f"all elements {value:g}", partial(_full, value)
    for value in (1.0, -1.0, 90.0):
        yield f"one-hot rows of {value:g}", partial(_one_hot, value)
    exponents = _exponents(slots)
    for exponent in exponents:
        yield f"the sample times 2^{exponent}", partial(scaled, exponent)
    floating = [index for index, slot in enumerate(slots) if slot.format is not None]
    for only in floating if len(floating) > 1 else ():
        for exponent in exponents[::3]:
            yield f"one operand times 2^{exponent}", partial(_scaled_alone, only, exponent, 0)
        for exponent in exponents[1::3]:
            yield f"one operand times 2^{exponent}, others times 2^{-exponent}", partial(_scaled_alone, only, exponent, -exponent)
    for extreme in ("the smallest number", "the smallest normal number", "the largest number"):
        yield f"all elements {extreme}", partial(_extreme, extreme)
    for value in (math.inf, -math.inf, math.nan):
        yield f"one element {value}", partial(_with_one, value)
        for only in floating if len(floating) > 1 else ():
            yield f"one element of one operand {value}", partial(_with_one_alone, only, value)


def _exponents(slots: Sequence[Slot]) -> list[int]:
    """Powers of two from the smallest to the largest number of the widest format, 0 left out."""
    formats = [slot.format for slot in slots if slot.format is not None]
    if not formats:
        return []
    top = max(math.frexp(form.largest)[1] for form in formats)
    return [round(top * step / (_SCALES // 2)) for step in range(-(_SCALES // 2), _SCALES // 2 + 1) if step]


def typed(slot: Slot, wide: Any) -> Array:
    return np.asarray(wide).astype(NUMPY_TYPES[slot.element])


def _same(index: int, slot: Slot) -> Array:
    return slot.sample


def _resized(size: int, slot: Slot) -> Array:
    cut = tuple(slice(size) if axis in slot.open_axes else slice(None) for axis in range(slot.sample.ndim))
    return np.ascontiguousarray(slot.sample[cut])


def _full(value: float, index: int, slot: Slot) -> Array:
    return typed(slot, np.full(slot.sample.shape, value))


def _alternating(size: float, index: int, slot: Slot) -> Array:
    signs = np.where((np.arange(slot.sample.size) * (index + 1)) % 3 == 0, size, -size)
    return typed(slot, signs.reshape(slot.sample.shape))


def _everyday(index: int, slot: Slot) -> Array:
    """Magnitudes from 1e-3 to 1e3, log-uniform, of either sign."""
    generator = np.random.default_rng(index)
    magnitudes = 10.0 ** generator.uniform(-3, 3, slot.sample.shape)
    return typed(slot, np.where(generator.random(slot.sample.shape) < 0.5, -magnitudes, magnitudes))


def _one_hot(value: float, index: int, slot: Slot) -> Array:
    wide = np.zeros(slot.sample.shape)
    if wide.ndim and wide.size:
        wide[..., 0] = value
    return typed(slot, wide)


def scaled(exponent: int, index: int, slot: Slot) -> Array:
    return typed(slot, np.ldexp(slot.sample.astype(np.float64), exponent))


def _scaled_alone(only: int, exponent: int, other: int, index: int, slot: Slot) -> Array:
    return scaled(exponent if index == only else other, index, slot)


def _with_one(value: float, index: int, slot: Slot) -> Array:
    changed = slot.sample.copy()
    if changed.size:
        changed.flat[changed.size // 2] = value
    return changed


def _with_one_alone(only: int, value: float, index: int, slot: Slot) -> Array:
    return _with_one(value, index, slot) if index == only else slot.sample


def _extreme(name: str, index: int, slot: Slot) -> Array:
    form = slot.format
    assert form is not None
    smallest = {"the smallest number": form.tiny, "the smallest normal number": form.smallest_normal}
    return _full(smallest.get(name, form.largest), index, slot)


_EXTREME = 2.0**40
_ACCUMULATED = FORMATS["f32"].largest
"""Sums are kept in float32 at least."""


def _negligible(array: Array, form: ElementFormat | None) -> float:
    if form is None:
        return 0.0
    sizes = np.abs(array.astype(np.float64))
    sizes = sizes[np.isfinite(sizes) & (sizes > 0)]
    if not sizes.size:
        return 0.0
    with np.errstate(over="ignore"):
        products = ((sizes / math.sqrt(max(form.largest, _ACCUMULATED))) ** 2).sum()
    if products > 1:
        return math.inf  # a number divided by a sum that overflows is 0
    return NEGLIGIBLE if sizes.max() > _EXTREME or sizes.max() < 1 / _EXTREME else 0.0


def inside(array: Array, slot: Slot) -> bool:
    """Return whether every element lies in the range of the slot, and is no NaN unless the range holds it."""
    if slot.format is None:
        return True
    wide = array.astype(np.float64)
    if np.isnan(wide).any() and not slot.interval.nan:
        return False
    known = wide[~np.isnan(wide)]
    if slot.interval.lo == 0 and (np.signbit(known) & (known == 0)).any():  # such an interval holds +0 only
        return False
    return bool(((known >= slot.interval.lo) & (known <= slot.interval.hi)).all())
