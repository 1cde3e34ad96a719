"""The kinds of formats, and their constants, which follow from how they are declared.

Float: ±m·2^e, also without subnormals, without zero, or with one value in each binade. Fixed: multiples of a step. Block: elements
that share a scale. A format's values are finite numbers; what becomes of others is its `overflow`. A NaN stays one, also where the
format has no code for it, so that none is hidden.

Rounding x changes it by at most max(unit_roundoff·|x|, absolute_error), where |x| ≤ largest.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction
from typing import ClassVar


class Overflow(StrEnum):
    """Result of rounding a number beyond the largest; `wrap` is modulo the number of codes."""

    INFINITY = "infinity"
    NAN = "nan"
    SATURATE = "saturate"
    WRAP = "wrap"


class Specials(StrEnum):
    """Codes that are no numbers: all of the top exponent (infinities and NaNs), NaN where all bits of exponent and fraction are set,
    NaN in the place of -0, or none.
    """

    IEEE = "ieee"
    ALL_ONES = "all_ones"
    NEGATIVE_ZERO = "negative_zero"
    NONE = "none"


def ieee_bias(exponent: int) -> int:
    return (1 << (exponent - 1)) - 1 if exponent else 0


@dataclass(frozen=True, kw_only=True)
class Format:
    """Parameters that all formats have.

    stored: bits of memory for an element, where they are not those of its code (0: they are).
    dtype: the element type of the IR that holds exactly these values, if there is one.
    """

    name: str
    overflow: Overflow
    stored: float = 0.0
    dtype: str = ""
    includes: ClassVar[Callable[[Format, Format], bool]]
    """`inclusion.includes`, set there: it rounds, and rounding knows the kinds."""

    def __le__(self, other: Format) -> bool:
        """Return whether each value of this format is one of the other's."""
        return Format.includes(other, self)

    def __lt__(self, other: Format) -> bool:
        return self <= other and not other <= self

    def __str__(self) -> str:
        return self.name

    @property
    def bits(self) -> int:
        """The width of an element's code."""
        raise NotImplementedError

    @property
    def stored_bits(self) -> float:
        """Bits of memory for an element, its part of shared scales included."""
        return self.stored or float(self.bits)

    @property
    def largest(self) -> float:
        raise NotImplementedError

    @property
    def lowest(self) -> float:
        """The least value."""
        raise NotImplementedError

    @property
    def smallest(self) -> float:
        """The least value above 0."""
        raise NotImplementedError

    @property
    def precision(self) -> int:
        """Bits of the significand; of a Fixed, those of its largest code."""
        raise NotImplementedError

    @property
    def unit_roundoff(self) -> float:
        """The largest relative error of rounding to nearest, where `absolute_error` is less; 0 for a Fixed."""
        raise NotImplementedError

    @property
    def absolute_error(self) -> float:
        raise NotImplementedError

    def rounding_error(self, magnitude: float) -> float:
        """A bound on what rounding to nearest changes in numbers x with |x| ≤ magnitude ≤ largest."""
        return max(self.unit_roundoff * magnitude, self.absolute_error)


@dataclass(frozen=True, kw_only=True)
class Float(Format):
    """Codes of `signed` + `exponent` + `fraction` bits; a code with exponent field E > 0 and fraction f is ±(1 + f/2^fraction)·2^(E-bias).

    subnormals: E = 0 means ±f/2^fraction·2^(1-bias); without them it means 0, and where `zero` is False too, it is as any other.
    implicit: False where the significand has no leading 1 besides its fraction: ±f/2^fraction·2^(E-bias) for every E (MASE's minifloat).
    geometric: nearest in the exponent: √(ab) is the middle between neighbours a and b, not (a + b)/2.
    Raises ValueError for formats whose values float64 cannot hold, or that contradict themselves.
    """

    exponent: int
    fraction: int
    bias: int
    signed: bool = True
    subnormals: bool = True
    zero: bool = True
    implicit: bool = True
    specials: Specials = Specials.IEEE
    overflow: Overflow = Overflow.INFINITY
    geometric: bool = False

    def __post_init__(self) -> None:
        if self.subnormals and not self.zero:
            raise ValueError("a format with subnormals has a zero")
        if not self.implicit and not (self.subnormals and self.fraction):
            raise ValueError("a significand without an implicit 1 has a fraction, and subnormals")
        if self.overflow is Overflow.WRAP:
            raise ValueError("floating-point numbers do not wrap")
        if self.overflow is Overflow.INFINITY and self.specials is not Specials.IEEE:
            raise ValueError(f"there are no infinities where `specials` is `{self.specials}`")
        if self.overflow is Overflow.NAN and self.specials is Specials.NONE:
            raise ValueError("there is no NaN where `specials` is `none`")
        if self.specials is Specials.NEGATIVE_ZERO and not (self.signed and self.zero):
            raise ValueError("there is no -0 to stand for NaN")
        if self._last_field < self._first_field:
            raise ValueError(f"no exponents are left for numbers in {self.exponent} bits")
        if self.precision > 53 or self.emin < -1022 or self._top_exponent > 1023 or self.emin - self.precision + 1 < -1074:
            raise ValueError("float64 does not hold its values")

    @property
    def _first_field(self) -> int:
        """The exponent field of the least normal number."""
        return int(self.zero and self.implicit)

    @property
    def _last_field(self) -> int:
        """The greatest exponent field of numbers."""
        no_numbers = self.specials is Specials.IEEE or (self.specials is Specials.ALL_ONES and self.fraction == 0)
        return (1 << self.exponent) - 1 - no_numbers

    @property
    def _top_exponent(self) -> int:
        return self._last_field - self.bias - (not self.implicit)

    @property
    def bits(self) -> int:
        return self.signed + self.exponent + self.fraction

    @property
    def precision(self) -> int:
        return self.fraction + self.implicit

    @property
    def emin(self) -> int:
        """The exponent of the least normal number, 2^emin."""
        return self._first_field - self.bias - (not self.implicit)

    @property
    def emax(self) -> int:
        """The exponent of the largest number."""
        return math.frexp(self.largest)[1] - 1

    @property
    def largest(self) -> float:
        missing = 1 + (self.specials is Specials.ALL_ONES and self.fraction > 0)
        return math.ldexp((1 << self.precision) - missing, self._top_exponent - self.precision + 1)

    @property
    def lowest(self) -> float:
        return -self.largest if self.signed else 0.0 if self.zero else self.smallest

    @property
    def smallest_normal(self) -> float:
        return math.ldexp(1.0, self.emin)

    @property
    def smallest(self) -> float:
        return math.ldexp(1.0, self.emin - (self.precision - 1 if self.subnormals else 0))

    @property
    def unit_roundoff(self) -> float:
        return math.sqrt(2) - 1 if self.geometric else math.ldexp(1.0, -self.precision)

    @property
    def absolute_error(self) -> float:
        return self.smallest / 2 if self.zero else self.smallest

    @property
    def overflow_threshold(self) -> Fraction:
        """The middle between the largest value and what would follow it; it goes where ties go, to the even significand."""
        if self.geometric:
            # no float64 lies between this one and √2
            return Fraction(math.sqrt(2)) * Fraction(2) ** self.emax
        return Fraction(self.largest) + Fraction(2) ** (self.emax - self.precision)

    @property
    def exact_integers(self) -> int:
        """Every integer from 0 to this one is a value; 0 where 1 or 0 is none."""
        return min(1 << self.precision, int(self.largest)) if self.zero and self.smallest <= 1 else 0

    @property
    def has_infinity(self) -> bool:
        return self.specials is Specials.IEEE

    @property
    def has_nan(self) -> bool:
        return self.specials is not Specials.NONE

    @property
    def has_negative_zero(self) -> bool:
        return self.signed and self.zero and self.specials is not Specials.NEGATIVE_ZERO


@dataclass(frozen=True, kw_only=True)
class Fixed(Format):
    """The values scale·(k - zero_point) for the integers low ≤ k ≤ high, each rounded to float64.

    Rounding takes k to be the integer nearest to x / scale, plus zero_point (ONNX's QuantizeLinear). There is one zero.
    Raises ValueError where there are no codes, or float64 cannot hold the values.
    """

    low: int
    high: int
    scale: float = 1.0
    zero_point: int = 0
    overflow: Overflow = Overflow.SATURATE

    def __post_init__(self) -> None:
        if self.overflow not in (Overflow.SATURATE, Overflow.WRAP):
            raise ValueError("numbers with a fixed step saturate or wrap")
        if self.low >= self.high:
            raise ValueError("there are fewer than two codes")
        if max(abs(self.low), abs(self.high), abs(self.zero_point)) >= 1 << 52 or not 0 < self.scale < math.inf or math.isinf(self.largest):
            raise ValueError("float64 does not hold its values")

    @property
    def bits(self) -> int:
        return math.ceil(math.log2(self.high - self.low + 1))

    @property
    def precision(self) -> int:
        return max(self.high, -self.low - 1).bit_length()

    @property
    def largest(self) -> float:
        return self.scale * (self.high - self.zero_point)

    @property
    def lowest(self) -> float:
        return self.scale * (self.low - self.zero_point)

    @property
    def smallest(self) -> float:
        return self.scale * max(1, self.low - self.zero_point)

    @property
    def unit_roundoff(self) -> float:
        return 0.0

    @property
    def absolute_error(self) -> float:
        return self.scale / 2

    @property
    def exact_integers(self) -> int:
        """Every integer from 0 to this one is a value; 0 where 1 is no multiple of the step."""
        return max(0, int(self.largest)) if (1 / Fraction(self.scale)).denominator == 1 and self.lowest <= 0 else 0


@dataclass(frozen=True, kw_only=True)
class Block(Format):
    """`size` elements along an axis share a scale; element and scale are multiplied.

    The scale's format decides how it is found. Powers of two: 2^(⌊log₂ amax⌋ - emax of the element), as OCP's Microscaling 1.0 does;
    elements that are still too large saturate. Others: amax / the element's largest, rounded to nearest, after all has been divided by
    the tensor's scale, where there is one: amax of the tensor / (largest of element · largest of scale), rounded to its format.
    A block with an infinity or a NaN is all NaN.
    """

    element: Float | Fixed
    size: int
    scale: Float
    tensor_scale: Float | None = None
    overflow: Overflow = Overflow.SATURATE

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ValueError("a block has an element")
        if self.overflow is not Overflow.SATURATE:
            raise ValueError("the elements of a block saturate")
        if self.tensor_scale is not None and self.has_exponent_scale:
            raise ValueError("the scale of a tensor goes with scales that have a fraction")
        object.__setattr__(self, "element", replace(self.element, overflow=Overflow.SATURATE))

    @property
    def has_exponent_scale(self) -> bool:
        """Return whether scales are powers of two."""
        return self.scale.precision == 1

    @property
    def element_exponent(self) -> int:
        """The exponent of the element's largest value."""
        return math.frexp(self.element.largest)[1] - 1

    @property
    def bits(self) -> int:
        return self.element.bits

    @property
    def stored_bits(self) -> float:
        return self.element.stored_bits + self.scale.bits / self.size

    @property
    def precision(self) -> int:
        return self.element.precision

    @property
    def largest(self) -> float:
        return self.element.largest * self.scale.largest * (self.tensor_scale.largest if self.tensor_scale else 1.0)

    @property
    def lowest(self) -> float:
        return self.element.lowest * self.scale.largest * (self.tensor_scale.largest if self.tensor_scale else 1.0)

    @property
    def smallest(self) -> float:
        return self.element.smallest * self.scale.smallest * (self.tensor_scale.smallest if self.tensor_scale else 1.0)

    @property
    def unit_roundoff(self) -> float:
        """Of the elements, or what saturation takes off the greatest of a block: powers of two leave numbers up to 2^(emax + 1)."""
        if self.has_exponent_scale:
            beyond = 1 - math.ldexp(self.element.largest, -self.element_exponent - 1)
        else:
            beyond = self.scale.unit_roundoff + (self.tensor_scale.unit_roundoff if self.tensor_scale else 0.0)
        return max(self.element.unit_roundoff, beyond)

    @property
    def absolute_error(self) -> float:
        """Of a block whose greatest element is 0; `rounding_error` depends on that one."""
        return self.element.absolute_error * self.scale.smallest

    def rounding_error(self, magnitude: float) -> float:
        """A bound for tensors whose greatest element is at most `magnitude` ≤ largest."""
        element, scale = self.element, self.scale
        if self.has_exponent_scale:
            step = (
                max(scale.smallest, math.ldexp(1.0, math.frexp(magnitude)[1] - 1 - self.element_exponent)) if magnitude else scale.smallest
            )
            return max(self.unit_roundoff * magnitude, element.absolute_error * step)
        of_tensor = magnitude / (element.largest * scale.largest) if self.tensor_scale else 1.0
        wide = magnitude / element.largest * (1 + self.unit_roundoff) + scale.absolute_error * of_tensor
        saturated = self.unit_roundoff * magnitude + element.largest * scale.absolute_error * of_tensor
        return saturated + max(element.unit_roundoff * magnitude, element.absolute_error * wide)
