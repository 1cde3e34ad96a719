"""Operands over the whole range of a format, on which operations of a runner are measured."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from hnfc.dialects.num.rounding import NUMPY_TYPES
from hnfc.dialects.types import FLOATS

Array: TypeAlias = "np.ndarray[Any, Any]"
_SPECIAL = (0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 20.0, 21.0, 88.0, -88.0, 709.0, -745.0)


def operands(element: str, count: int, size: int) -> list[Array]:
    """`count` arrays of normal numbers of a format: log-uniform over its range, log-uniform near 1, and uniform in ±40."""
    form, draw = FLOATS[element], np.random.default_rng(len(element) * 8 + count)
    low, high = np.log2(form.smallest_normal), np.log2(form.largest)
    found = []
    for _ in range(count):
        sign = draw.choice([-1.0, 1.0], size)
        kinds = (
            sign * np.exp2(draw.uniform(low, high, size)),
            sign * np.exp2(draw.uniform(-12.0, 8.0, size)),
            sign * (1.0 + draw.choice([-1.0, 1.0], size) * np.exp2(draw.uniform(np.log2(form.unit_roundoff), -1.0, size))),
            draw.uniform(-40.0, 40.0, size),
        )
        values = np.choose(draw.integers(0, len(kinds), size), kinds)
        values[: len(_SPECIAL)] = draw.permutation(_SPECIAL) if count > 1 else _SPECIAL
        values = np.clip(values, -form.largest, form.largest).astype(NUMPY_TYPES[element])
        wide = values.astype(np.float64)
        values[(wide != 0) & (np.abs(wide) < form.smallest_normal)] = 0
        found.append(values)
    return found
