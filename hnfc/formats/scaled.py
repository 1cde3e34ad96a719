"""Formats with a scale for a whole tensor: `fp16*2^5` holds x as float16 numbers 2⁵ times smaller, `fp16*2^-5` as numbers 2⁵ times larger.
A power of two rounds nothing. And formats with saturation: `fp16|2^15` holds what is beyond ±2¹⁵ as that.

What a name says is requested each value of a model many times, and never changes: it is read once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache

from hnfc.dialects.formats import Block, Format
from hnfc.formats.granular import Granular, rows_of
from hnfc.formats.named import format_named

SCALABLE = ("fp16", "fp8_e4m3fn", "fp8_e5m2")
"""Formats whose range is small for their precision."""
_MARK = "*2^"
_CEILING = "|2^"
MASK = 2.0**100
"""A finite number from this size on that moves no output marks what does not count, as a mask of attention does, and stands for infinity.
Numbers that are computed with stay below it: the product of four numbers of float16 is below 2^64, and the sum of 2^36 such products
below 2^100, while the masks of float32 and bfloat16, their lowest numbers, are near -2^128."""


def scaled_name(base: str, exponent: int) -> str:
    return f"{base}{_MARK}{exponent}"


def saturated_name(base: str) -> str:
    """The format with saturation at its largest power of two: adding to what is stored so a number that is smaller gives a finite one."""
    return f"{base}{_CEILING}{math.frexp(format_named(base).largest)[1] - 1}"


@cache
def split(form: str) -> tuple[str, int]:
    """The format in which numbers are stored, and the exponent of the scale (0: none)."""
    base, mark, exponent = form.partition(_CEILING)[0].partition(_MARK)
    return base, int(exponent) if mark else 0


@cache
def ceiling(form: str) -> float | None:
    """Number in place of larger ones; None without saturation."""
    _, mark, exponent = form.partition(_CEILING)
    return math.ldexp(1.0, int(exponent)) if mark else None


def is_plain(form: str) -> bool:
    """Return whether it has neither a scale nor saturation."""
    return _MARK not in form and _CEILING not in form


@cache
def stored_format(form: str) -> Format:
    """Raises UnknownFormat."""
    return format_named(split(form)[0])


@cache
def largest(form: str) -> float:
    """The largest number that can be stored."""
    most = ceiling(form)
    return math.ldexp(stored_format(form).largest, split(form)[1]) if most is None else most


@cache
def smallest(form: str) -> float:
    """The smallest number above 0 that can be stored."""
    return math.ldexp(stored_format(form).smallest, split(form)[1])


def exponent_for(magnitude: float, base: str, headroom: float = 2.0) -> int:
    """The least scale with which numbers up to `magnitude` fit, with twice the headroom to spare: below 0 where they are small. 0 where
    float32, which scales are undone in, cannot hold them; it holds each scale itself."""
    if not 2.0**-126 <= magnitude <= 2.0**126:
        return 0
    return max(-126, math.ceil(math.log2(2 * headroom * magnitude / format_named(base).largest)))


def stored_bytes(shape: Sequence[int], form: str) -> float:
    """Size of a tensor, with the exponents of its scales."""
    stored, elements = stored_format(form), math.prod(shape)
    if isinstance(stored, Granular):
        rows, length, size = stored.rows(shape)
        return (elements * stored.bits + rows * math.ceil(length / size) * stored.overhead) / 8
    if isinstance(stored, Block):
        rows, length = rows_of(shape, stored.size)
        return (elements * stored.element.stored_bits + rows * math.ceil(length / stored.size) * stored.scale.bits) / 8
    return elements * stored.stored_bits / 8 + (1 if split(form)[1] else 0)
