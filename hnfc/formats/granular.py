"""Formats whose scales are found for a whole tensor, a channel, a token or a group: `int8/channel`, `int4/group64/zero/mse`.

A name is that of an element, then parts after slashes: what shares a scale, `zero` for a zero point, the observer that finds the
scale, and `gptq` where errors are compensated. The element is `int2` to `int8`, or a floating-point format of 8 bits at most.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from hnfc.dialects.formats import Block, Fixed, Float, Format, Overflow
from hnfc.dsl.diagnostics import Diagnostic, HnfError
from hnfc.dsl.expressions import did_you_mean
from hnfc.dsl.formats import FormatBook

ALIASES = {
    "fp8": "fp8_e4m3fn", "mxfp8": "MXFP8_E4M3", "mxfp6": "MXFP6_E2M3", "mxfp4": "MXFP4_E2M1", "mxint8": "MXINT8", "nvfp4": "NVFP4",
    "q8_0": "Q8_0", "q4_0": "Q4_0",
}  # fmt: skip
"""Names in use elsewhere."""
Q4_0 = "Q4_0"
"""llama.cpp's name of its 4-bit format: groups of 32 along rows, and a scale that gives the extreme element the code -8."""
_PARTS = "tensor, channel, token or group64, then `zero` for a zero point, then minmax, mse or percentile99.9, then `gptq`"


class Along(StrEnum):
    """Elements that share a scale."""

    TENSOR = "tensor"
    CHANNEL = "channel"
    TOKEN = "token"
    GROUP = "group"


@dataclass(frozen=True, kw_only=True)
class Granular(Format):
    """An element times a scale that is found for each part of a tensor, minus a zero point where there is one.

    channel: an index of the first axis. token: the elements of the last axis. group: `size` elements along the last axis. A vector has
    one scale. Integers without a zero point have 2^bits codes over ±the greatest element, which loses half a step at most on either side,
    as in torchao and compressed-tensors. observer: `minmax` takes the greatest of all, `percentile` leaves out the largest, `mse` has the
    least square error, `extreme` is llama.cpp's. compensated: weights of linear layers are rounded column by column, each with the
    errors of those before it (GPTQ), where inputs are at hand.
    """

    element: Fixed | Float
    along: Along
    scale: Float
    size: int = 0
    zero: bool = False
    observer: str = "minmax"
    percentile: float = 100.0
    compensated: bool = False
    overflow: Overflow = Overflow.SATURATE

    @property
    def bits(self) -> int:
        return self.element.bits

    @property
    def stored_bits(self) -> float:
        return self.element.bits + (self.overhead / self.size if self.size else 0.0)

    @property
    def overhead(self) -> int:
        """Bits of a scale and its zero point."""
        return self.scale.bits + (8 if self.zero else 0)

    @property
    def precision(self) -> int:
        return self.element.precision

    @property
    def largest(self) -> float:
        return self.scale.largest

    @property
    def lowest(self) -> float:
        return -self.scale.largest

    @property
    def smallest(self) -> float:
        return self.scale.smallest

    @property
    def unit_roundoff(self) -> float:
        return self.element.unit_roundoff

    @property
    def absolute_error(self) -> float:
        return self.element.absolute_error * self.scale.smallest

    def rounding_error(self, magnitude: float) -> float:
        """A bound for tensors whose greatest element is at most `magnitude`; infinite where the observer may leave out elements."""
        if self.observer in ("percentile", "mse"):
            return math.inf
        steps = self.element.high - self.element.low if isinstance(self.element, Fixed) else self.element.largest
        return 2 * magnitude / steps * (1 + self.scale.unit_roundoff) + self.unit_roundoff * magnitude

    def rows(self, shape: Sequence[int]) -> tuple[int, int, int]:
        """Number of rows, their length, and the number of elements that share a scale, along rows."""
        elements = math.prod(shape)
        if self.along is Along.GROUP:
            return *rows_of(shape, self.size), self.size
        count = 1
        if len(shape) > 1 and self.along is not Along.TENSOR:
            count = shape[0] if self.along is Along.CHANNEL else math.prod(shape[:-1])
        length = elements // count if count else 0
        return count, length, max(length, 1)


WITH_SCALES = (Block, Granular)
"""Kinds of formats whose values depend on those of other elements."""


def rows_of(shape: Sequence[int], size: int) -> tuple[int, int]:
    """Number and length of rows that are cut into blocks of `size`: the last axis, with those before it while it is shorter."""
    axis, length = len(shape), 1
    while axis and length < size:
        axis -= 1
        length *= shape[axis]
    return math.prod(shape[:axis]), length


def is_for_weights(form: Format) -> bool:
    """Return whether a format is one of weights, which have it once and for all."""
    return isinstance(form, Granular) and form.along is not Along.TOKEN


def is_for_activations(form: Format) -> bool:
    """Return whether a format is one of computed values alone."""
    return isinstance(form, Granular) and form.along is Along.TOKEN


def granular_named(text: str, book: FormatBook) -> Granular | None:
    """The format of a name, as "int8", which is "int8/channel", or "int4/group64/zero"; None for names of other kinds. Raises HnfError."""
    if text == Q4_0:
        codes, half = _integer(4, -8, 7), _scale("fp16", book)
        return Granular(name=text, element=codes, along=Along.GROUP, scale=half, size=32, observer="extreme")
    base, *parts = text.split("/")
    integer = re.fullmatch(r"int([2-8])", base)
    if text in book.names() or not base.isidentifier() or (not parts and integer is None):
        # a slash in brackets divides numbers
        return None
    width = int(integer[1]) if integer else 0
    compensated = False
    along, size, zero, observer, share = (Along.CHANNEL, 0, False, "minmax", 100.0) if width in (0, 8) else _FEW_BITS
    seen: set[str] = set()
    for part in parts:
        kind = _kind(part)
        if kind is None or kind in seen:
            raise _wrong(text, part, kind is not None)
        seen.add(kind)
        if kind == "along":
            size = int(part.removeprefix("group")) if part.startswith("group") else 0
            along = Along.GROUP if size else Along(part)
        elif kind == "zero":
            zero = True
        elif kind == "gptq":
            compensated = True
        else:
            observer = "percentile" if part.startswith("percentile") else part
            share = float(part.removeprefix("percentile") or 99.9) if observer == "percentile" else 100.0
    element = _element(text, base, width, zero, book)
    shared = f"group{size}" if size else along.value
    seen_by = f"percentile{share:g}" if observer == "percentile" else observer
    name = "/".join((base if width else element.name, shared, *(["zero"] if zero else []), *([seen_by] if observer != "minmax" else [])))
    name += "/gptq" if compensated else ""
    if compensated and along is Along.TOKEN:
        why = "errors are compensated in weights, which are known beforehand"
        raise HnfError([Diagnostic("HNF0602", f"`{text}` names no format: {why}", "<format>", help="leave out `gptq`")])
    scale = _scale("bf16" if along is Along.GROUP else "fp32", book)
    return Granular(
        name=name, element=element, along=along, scale=scale, size=size, zero=zero, observer=observer, percentile=share,
        compensated=compensated,
    )  # fmt: skip


_FEW_BITS = (Along.GROUP, 32, False, "minmax", 100.0)
"""Defaults for fewer than 8 bits."""


def _kind(part: str) -> str | None:
    """Subject of a part of a name."""
    if part in ("tensor", "channel", "token") or re.fullmatch(r"group[1-9]\d{0,5}", part):
        return "along"
    if part in ("zero", "gptq"):
        return part
    share = re.fullmatch(r"percentile(\d+(?:\.\d+)?)?", part)
    if part in ("minmax", "mse") or (share and 50 <= float(share[1] or 99.9) <= 100):
        return "observer"
    return None


def _element(text: str, base: str, width: int, zero: bool, book: FormatBook) -> Fixed | Float:
    if width:
        half = 1 << (width - 1)
        return _integer(width, 0, 2 * half - 1) if zero else _integer(width, -half, half - 1)
    element = book.format(ALIASES.get(base, base))
    if not isinstance(element, Float) or element.bits > 8 or not element.zero or not element.signed or zero:
        why = "a zero point goes with integers" if zero else "a scale is found for integers, and for floating-point numbers of 8 bits"
        raise HnfError([Diagnostic("HNF0602", f"`{text}` names no format: {why}", "<format>", help="as in `int8/channel`")])
    return element


def _integer(width: int, low: int, high: int) -> Fixed:
    return Fixed(name=f"int{width}", low=low, high=high)


def _scale(name: str, book: FormatBook) -> Float:
    found = book.format(name)
    assert isinstance(found, Float)
    return found


def _wrong(text: str, part: str, twice: bool) -> HnfError:
    words = ("tensor", "channel", "token", "group32", "group64", "group128", "zero", "minmax", "mse", "percentile99.9", "gptq")
    what = f"says twice what `{part}` says" if twice else f"has a part `{part}` that says nothing"
    help_is = did_you_mean(part, words) or f"after the element comes {_PARTS}, as in `int4/group64/zero`"
    return HnfError([Diagnostic("HNF0602", f"`{text}` {what}", "<format>", help="" if twice else help_is)])
