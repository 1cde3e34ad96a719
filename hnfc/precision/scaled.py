"""Formats with a scale for a whole tensor: `fp16*2^5` holds x as float16 numbers 2⁵ times smaller. A power of two rounds nothing."""

from __future__ import annotations

import math

from hnfc.dialects.formats import Format
from hnfc.precision.formats import format_named

SCALABLE = ("fp16", "fp8_e4m3fn", "fp8_e5m2")
"""Formats whose range is small for their precision."""
_MARK = "*2^"


def scaled_name(base: str, exponent: int) -> str:
    return f"{base}{_MARK}{exponent}"


def split(form: str) -> tuple[str, int]:
    """The format in which numbers are stored, and the exponent of the scale (0: none)."""
    base, mark, exponent = form.partition(_MARK)
    return (base, int(exponent)) if mark else (form, 0)


def stored_format(form: str) -> Format:
    """Raises UnknownFormat."""
    return format_named(split(form)[0])


def largest(form: str) -> float:
    """The largest number that can be stored."""
    return math.ldexp(stored_format(form).largest, split(form)[1])


def exponent_for(magnitude: float, base: str) -> int:
    """The least scale with which numbers up to `magnitude` fit, with a factor of 4 to spare."""
    return max(0, math.ceil(math.log2(4 * magnitude / format_named(base).largest))) if magnitude > 0 else 0
