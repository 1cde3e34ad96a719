"""Inputs to try a model on: observed ones from a file, or ones drawn from declared ranges, corners included."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Block, SSAValue

from hnfc.core.archives import read_arrays
from hnfc.core.errors import ModelError, UsageError, suggestion
from hnfc.core.saved_steps import arrays_of_step, is_step
from hnfc.dialects.interval import Interval
from hnfc.dialects.num.rounding import NUMPY_TYPES
from hnfc.dialects.types import DYNAMIC, ELEMENT_NAMES, FORMATS

Array: TypeAlias = "np.ndarray[Any, Any]"
_RANGE = re.compile(r"^(?:(?P<name>[A-Za-z_%][\w.]*)=)?(?P<lo>[^:]+):(?P<hi>[^:]+)$")
_DRAWS = 6
_SIZE_OF_UNKNOWN = 4


def parse_range(text: str) -> tuple[str, Interval]:
    """`name=lo:hi` (one input) or `lo:hi` (every floating-point input, name ``)."""
    found = _RANGE.match(text)
    if found is None:
        raise ModelError(f"cannot read the range `{text}`; write it as `arg0=-10:10`, or `-10:10` for every input")
    try:
        lo, hi = float(found["lo"]), float(found["hi"])
    except ValueError:
        raise ModelError(f"cannot read the range `{text}`: the bounds are numbers, as in `arg0=-1e3:1e3`") from None
    if math.isnan(lo) or math.isnan(hi) or lo > hi:
        raise ModelError(f"the range `{text}` is empty: its first bound must not be greater than its second")
    return (found["name"] or "").lstrip("%"), Interval(lo, hi, minus=0.0 in (lo, hi))


def intervals_of(ranges: Any, names: Sequence[str]) -> dict[str, Interval]:
    """The declared range of each input that has one. Raises UsageError for an input that there is not, and for bounds that are none."""
    if not isinstance(ranges, Mapping):
        raise UsageError(f'`ranges` takes bounds by the name of the input, as {{"x": (-10, 10)}}, or "sample", but got {ranges!r}')
    found = {}
    for name, bounds in ranges.items():
        if name not in names:
            raise UsageError(_no_input(name, names))
        try:
            lo, hi = map(float, bounds)
        except (TypeError, ValueError):
            raise UsageError(f"the range of `{name}` is two numbers, as (-10, 10), but got {bounds!r}") from None
        if not lo <= hi:
            raise UsageError(f"the range of `{name}` is empty: {lo:g} is not at most {hi:g}")
        found[name] = Interval(lo, hi, minus=0 in (lo, hi))
    return found


def _no_input(name: str, names: Collection[str]) -> str:
    return f"there is no input `{name}`" + (suggestion(name, names) or f"; the inputs are {', '.join(names) or 'none'}")


def input_names(block: Block) -> dict[str, SSAValue]:
    return {f"arg{index}": argument for index, argument in enumerate(block.args)}


def declared(block: Block, ranges: Sequence[tuple[str, Interval]]) -> dict[SSAValue, Interval]:
    """The interval of each input that a `--range` names."""
    names = input_names(block)
    result: dict[SSAValue, Interval] = {}
    for name, interval in ranges:
        if name and name not in names:
            raise ModelError(_no_input(name, names))
        for value in [names[name]] if name else [v for v in names.values() if _element(v) in FORMATS]:
            result[value] = interval
    return result


def from_file(path: str, block: Block) -> list[dict[SSAValue, Array]]:
    """Samples in an `.npz`: arrays called arg0, arg1, … (or arr_0, …), each one input, or with one more axis in front several; or the one
    in the folder of a step that `hnfc.watch` saved."""
    stored = arrays_of_step(path) if is_step(path) else read_arrays(path, "samples")
    arrays = {re.sub(r"^arr_", "arg", name): array for name, array in stored.items()}
    names = input_names(block)
    columns: dict[SSAValue, list[Array]] = {}
    for name, value in names.items():
        if not isinstance(value.type, TensorType):
            continue
        if name not in arrays:
            raise ModelError(f"there is no array `{name}`; there are {', '.join(arrays) or 'none'}", path)
        columns[value] = _column(arrays[name], value, name, path)
    count = max((len(column) for column in columns.values()), default=0)
    if columns and count == 0:
        raise ModelError("the arrays hold no sample", path)
    if any(len(column) not in (1, count) for column in columns.values()):
        raise ModelError("the arrays hold different numbers of samples", path)
    return [{value: column[i if len(column) > 1 else 0] for value, column in columns.items()} for i in range(count)]


def _column(array: Array, value: SSAValue, name: str, path: str) -> list[Array]:
    assert isinstance(value.type, TensorType)
    shape = tuple(value.type.get_shape())
    element = _element(value)
    if element is None or element not in NUMPY_TYPES:
        raise ModelError(f"samples cannot be given for `{name}` of type {value.type}", path)
    if array.dtype.kind == "V" and array.dtype.itemsize == np.dtype(NUMPY_TYPES[element]).itemsize:
        # NumPy stores the types of ml_dtypes as raw bytes
        array = array.view(NUMPY_TYPES[element])
    if array.dtype.kind in "SUMm":
        raise ModelError(f"`{name}` holds no numbers", path)
    if array.dtype.kind == "c" and not element.startswith("complex"):
        raise ModelError(f"`{name}` is complex, but the model takes {element}", path)
    if element in FORMATS and array.size and np.isnan(array.astype(np.float64)).all():
        raise ModelError(f"`{name}` holds nothing but NaN", path)
    with np.errstate(all="ignore"):
        cast = array.astype(NUMPY_TYPES[element])
        lost = element in FORMATS and np.isfinite(array.astype(np.float64)) & ~np.isfinite(cast.astype(np.float64))
    if np.any(lost):
        raise ModelError(f"`{name}` holds numbers that {element} cannot", path)
    if _fits(array.shape, shape):
        return [cast]
    if array.ndim == len(shape) + 1 and _fits(array.shape[1:], shape):
        return list(cast)
    raise ModelError(f"`{name}` has shape {list(array.shape)}, but the model takes {[s if s != DYNAMIC else '?' for s in shape]}", path)


def _fits(found: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    return len(found) == len(wanted) and all(b in (DYNAMIC, a) for a, b in zip(found, wanted, strict=True))


def drawn(block: Block, intervals: Mapping[SSAValue, Interval]) -> list[dict[SSAValue, Array]]:
    """Samples from the intervals: both corners, a mix of them, and uniform ones. Empty if an input has no finite interval."""
    tensors = [argument for argument in block.args if isinstance(argument.type, TensorType)]
    if any(argument not in intervals and _element(argument) in FORMATS for argument in tensors) or not intervals:
        return []
    generator = np.random.default_rng(0)
    samples = []
    for index in range(_DRAWS):
        sample: dict[SSAValue, Array] = {}
        for argument in tensors:
            shape = [size if size != DYNAMIC else _SIZE_OF_UNKNOWN for size in argument.type.get_shape()]  # type: ignore[attr-defined]
            element = _element(argument) or ""
            if element not in NUMPY_TYPES:
                return []
            interval = intervals.get(argument, Interval(0.0, 1.0))
            sample[argument] = _draw(generator, index, interval, shape, element)
        samples.append(sample)
    return samples


def _draw(generator: np.random.Generator, index: int, interval: Interval, shape: Sequence[int], element: str) -> Array:
    largest = FORMATS[element].largest if element in FORMATS else 1.0
    lo, hi = max(interval.lo, -largest), min(interval.hi, largest)
    with np.errstate(all="ignore"):
        if index == 0:
            wide = np.full(shape, lo)
        elif index == 1:
            wide = np.full(shape, hi)
        elif index == 2:
            wide = np.where(generator.random(shape) < 0.5, lo, hi)
        else:
            part = generator.random(shape)
            wide = lo * (1 - part) + hi * part
        array = wide.astype(NUMPY_TYPES[element])
    return array if element in FORMATS else np.trunc(wide).astype(NUMPY_TYPES[element])


_DRIFT = 2.0**10
"""Factor by which a parameter may change while a condition that was shown from it stands."""


def moved(array: Array, element: str, units: float, random: np.random.Generator) -> Array:
    """Numbers of an element type, each moved by at most so many units in the last place, in float64."""
    factors = 1 + units * 2 * FORMATS[element].unit_roundoff * random.uniform(-1, 1, array.shape)
    # the largest float64 may move beyond it
    with np.errstate(all="ignore"):
        return array.astype(np.float64) * factors


def lasting(observed: Interval) -> Interval:
    """The range of a parameter that was observed, with room to change in: its sign, and its size within a factor of 1024."""
    size = observed.magnitude * _DRIFT
    lo = observed.lo / _DRIFT if observed.lo > 0 else 0.0 if observed.lo == 0 else -size
    hi = observed.hi / _DRIFT if observed.hi < 0 else 0.0 if observed.hi == 0 else size
    return Interval(lo, hi, observed.nan)


def _element(value: SSAValue) -> str | None:
    return ELEMENT_NAMES.get(value.type.element_type) if isinstance(value.type, TensorType) else None
