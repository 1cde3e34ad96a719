"""Inclusion of formats by their values: a partial order, computed from a few values that stand for all.

In a binade the values of a format are the multiples of a power of two. One that holds 2^e and the next value of such a run, and the run's
last value, holds the run. So rounding those values shows whether it does: it leaves them as they are.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import cache
from typing import Any

import numpy as np

from hnfc.dialects.formats.arrays import NUMPY
from hnfc.dialects.formats.kinds import Block, Fixed, Float, Format
from hnfc.dialects.formats.rounding import Rounding, rounded
from hnfc.dialects.formats.values import finite_values

Values = np.ndarray[Any, np.dtype[np.float64]]


@cache
def includes(wide: Format, narrow: Format) -> bool:
    """Return whether each finite value of `narrow` is one of `wide`; of blocks, whether each tensor of one is one of the other.

    The two zeros are one value. A block format is within a format of single numbers where all products of scale and element are, and
    contains one where some scale makes its elements contain it. Raises ValueError for more than 2¹⁶ multiples of what is no power of two.
    """
    if wide == narrow:
        return True
    if isinstance(wide, Block) and isinstance(narrow, Block):
        return (
            narrow.size % wide.size == 0
            and includes(wide.element, narrow.element)
            and includes(wide.scale, narrow.scale)
            and (narrow.tensor_scale is None or (wide.tensor_scale is not None and includes(wide.tensor_scale, narrow.tensor_scale)))
            and (wide.tensor_scale is None) == (narrow.tensor_scale is None)
        )
    if isinstance(wide, Block):
        values = _telling(narrow)
        with np.errstate(over="ignore"):  # beyond float64 is beyond the element too
            return any(_holds(wide.element, values / scale) for scale in _positive(wide.scale))
    if isinstance(narrow, Block):
        return _holds(wide, _products(narrow))
    return _holds(wide, _telling(narrow))


Format.includes = staticmethod(includes)


def minimal(formats: Iterable[Format]) -> list[Format]:
    """Formats that include no other of them, each set of values once."""
    return _extreme(list(formats), lambda a, b: a <= b)


def maximal(formats: Iterable[Format]) -> list[Format]:
    """Formats that no other of them includes, each set of values once."""
    return _extreme(list(formats), lambda a, b: b <= a)


def _extreme(formats: list[Format], before: Any) -> list[Format]:
    found: list[Format] = []
    for place, form in enumerate(formats):
        if not any(
            before(other, form) and (not before(form, other) or earlier < place)
            for earlier, other in enumerate(formats)
            if other is not form
        ):
            found.append(form)
    return found


def _holds(form: Format, values: Values) -> bool:
    with np.errstate(all="ignore"):
        return bool((rounded(values, form, Rounding.NEAREST, NUMPY) == values).all())


@cache
def _telling(form: Format) -> Values:
    """Values of which a format holds all only if it holds every value of this one."""
    if form.bits <= 8:
        return finite_values(form)
    if isinstance(form, Fixed):
        return _of_codes(form)
    assert isinstance(form, Float)
    low = form.emin - (form.precision - 1 if form.subnormals else 0)
    exponents = np.arange(low, form.emax + 1)
    starts = np.ldexp(1.0, exponents)
    seconds = starts + np.ldexp(1.0, np.minimum(np.maximum(exponents, form.emin) - form.precision + 1, exponents))
    positive = np.concatenate([starts, seconds, [form.largest]])
    positive = positive[positive <= form.largest]
    return np.concatenate([-positive if form.signed else positive[:0], np.zeros(int(form.zero)), positive])


def _of_codes(form: Fixed) -> Values:
    """For steps that are a power of two, as for a Float; for others every multiple has digits of its own.

    Raises ValueError for those with more than 2¹⁶ codes.
    """
    least, greatest = form.low - form.zero_point, form.high - form.zero_point
    if math.frexp(form.scale)[0] != 0.5:
        return finite_values(form)
    powers = [1 << k for k in range(max(abs(least), abs(greatest)).bit_length())]
    codes = [
        0,
        *powers,
        *(p + 1 for p in powers),
        *(-p for p in powers),
        *(-p - 1 for p in powers),
        least,
        greatest,
        greatest - 1,
        least + 1,
    ]
    return form.scale * np.array([code for code in codes if least <= code <= greatest], np.float64)


def _positive(form: Float) -> Values:
    values = _telling(form)
    return values[values > 0]


def _products(form: Block) -> Values:
    found = np.multiply.outer(_telling(form.element), _positive(form.scale)).reshape(-1)
    return found if form.tensor_scale is None else np.multiply.outer(found, _positive(form.tensor_scale)).reshape(-1)
