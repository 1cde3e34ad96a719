"""Formats with a scale for a whole tensor: `fp16*2^5` holds x as float16 numbers 2⁵ times smaller, `fp16*2^-5` as numbers 2⁵ times larger.
A power of two rounds nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence

from hnfc.dialects.formats import Block, Format
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


def smallest(form: str) -> float:
    """The smallest number above 0 that can be stored."""
    return math.ldexp(stored_format(form).smallest, split(form)[1])


def exponent_for(magnitude: float, base: str) -> int:
    """The least scale with which numbers up to `magnitude` fit, with a factor of 4 to spare: below 0 where they are small."""
    return math.ceil(math.log2(4 * magnitude / format_named(base).largest)) if magnitude > 0 else 0


def rows_of(shape: Sequence[int], size: int) -> tuple[int, int]:
    """How many rows of what length are cut into blocks of `size`: the last axis, with those before it while it is shorter than a block."""
    axis, length = len(shape), 1
    while axis and length < size:
        axis -= 1
        length *= shape[axis]
    return math.prod(shape[:axis]), length


def stored_bytes(shape: Sequence[int], form: str) -> float:
    """What a tensor takes, with the exponents of its scales."""
    stored, elements = stored_format(form), math.prod(shape)
    if isinstance(stored, Block):
        rows, length = rows_of(shape, stored.size)
        return (elements * stored.element.stored_bits + rows * math.ceil(length / stored.size) * stored.scale.bits) / 8
    return elements * stored.stored_bits / 8 + (1 if split(form)[1] else 0)
