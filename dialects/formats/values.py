"""All values of a format that has few."""

from __future__ import annotations

from typing import Any

import numpy as np

from hnfc.dialects.formats.kinds import Fixed, Float, Format


def finite_values(form: Format) -> np.ndarray[Any, np.dtype[np.float64]]:
    """The finite values in order, each once, zero among them once. Raises ValueError for blocks, and for more than 2¹⁶ codes."""
    if form.bits > 16 or not isinstance(form, Fixed | Float):
        raise ValueError(f"the values of {form.name} are not listed")
    if isinstance(form, Fixed):
        return np.asarray(form.scale * (np.arange(form.low, form.high + 1) - form.zero_point) + 0.0)
    significands = np.arange(1 << (form.precision - 1), 1 << form.precision, dtype=np.float64)
    exponents = np.arange(form.emin, form.emax + 1) - (form.precision - 1)
    parts = [np.ldexp(significands, exponent) for exponent in exponents]
    if form.subnormals:
        parts.insert(0, np.ldexp(np.arange(1, 1 << (form.precision - 1), dtype=np.float64), form.emin - (form.precision - 1)))
    positive = np.concatenate(parts)
    positive = positive[positive <= form.largest]
    return np.concatenate([-positive[::-1] if form.signed else positive[:0], np.zeros(int(form.zero)), positive])
