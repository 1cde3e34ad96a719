"""Tensor types: builtin `tensor<…>` of every torch element type, broadcasting, and the attribute that holds axes and sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Flag, auto
from functools import lru_cache
from typing import Any

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    BFloat16Type,
    ComplexType,
    Float8E4M3FNType,
    Float8E4M3FNUZType,
    Float8E5M2FNUZType,
    Float8E5M2Type,
    Float16Type,
    Float32Type,
    Float64Type,
    IntegerType,
    Signedness,
    TensorType,
)
from xdsl.ir import Attribute, Data
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from hnfc.dialects.formats import Float, Overflow, Specials

DYNAMIC = DYNAMIC_INDEX

ELEMENT_TYPES: dict[str, Attribute] = {
    "f64": Float64Type(),
    "f32": Float32Type(),
    "f16": Float16Type(),
    "bf16": BFloat16Type(),
    "f8E4M3FN": Float8E4M3FNType(),
    "f8E5M2": Float8E5M2Type(),
    "f8E4M3FNUZ": Float8E4M3FNUZType(),
    "f8E5M2FNUZ": Float8E5M2FNUZType(),
    "i1": IntegerType(1),
    "si8": IntegerType(8, Signedness.SIGNED),
    "ui8": IntegerType(8, Signedness.UNSIGNED),
    "si16": IntegerType(16, Signedness.SIGNED),
    "si32": IntegerType(32, Signedness.SIGNED),
    "si64": IntegerType(64, Signedness.SIGNED),
    "complex<f32>": ComplexType(Float32Type()),
    "complex<f64>": ComplexType(Float64Type()),
}
"""The names that the torch dialect and the rule language use, and the builtin types behind them."""

ELEMENT_NAMES: dict[Attribute, str] = {element: name for name, element in ELEMENT_TYPES.items()}
BOOL = ELEMENT_TYPES["i1"]


@dataclass(frozen=True)
class ElementFormat:
    """Numbers ±m·2^e of a floating-point element type.

    unit_roundoff: half the distance from 1 to the next number. tiny: the smallest positive number. largest: the largest one.
    flushed: results smaller than this may become 0 (a float32 unit that flushes subnormals; bfloat16 shares its exponents).
    """

    unit_roundoff: float
    tiny: float
    largest: float
    flushed: float = 0.0

    @property
    def smallest_normal(self) -> float:
        """The smallest positive number with all digits."""
        return self.tiny / (2 * self.unit_roundoff)

    @property
    def underflow(self) -> float:
        """Error of a result that underflows."""
        return max(self.tiny, self.flushed)


def _float(name: str, exponent: int, fraction: int, bias: int, **kind: Any) -> Float:
    return Float(name=name, exponent=exponent, fraction=fraction, bias=bias, dtype=name, **kind)


_UZ = {"specials": Specials.NEGATIVE_ZERO, "overflow": Overflow.NAN}

FLOATS: dict[str, Float] = {
    form.name: form
    for form in (
        _float("f64", 11, 52, 1023),
        _float("f32", 8, 23, 127),
        _float("f16", 5, 10, 15),
        _float("bf16", 8, 7, 127),
        # beyond the largest is the largest, as in torch
        _float("f8E4M3FN", 4, 3, 7, specials=Specials.ALL_ONES, overflow=Overflow.SATURATE),
        _float("f8E5M2", 5, 2, 15),
        _float("f8E4M3FNUZ", 4, 3, 8, **_UZ),
        _float("f8E5M2FNUZ", 5, 2, 16, **_UZ),
    )
}
"""The floating-point element types; rules/formats.hnf declares them too, under their usual names."""

FORMATS: dict[str, ElementFormat] = {
    name: ElementFormat(form.unit_roundoff, form.smallest, form.largest, form.smallest_normal if name in ("f32", "bf16") else 0.0)
    for name, form in FLOATS.items()
}


def working(form: ElementFormat) -> ElementFormat:
    """The format in which operations on numbers of this one are carried out: float32 for narrower ones."""
    return form if form.unit_roundoff <= FORMATS["f32"].unit_roundoff else FORMATS["f32"]


_FORMAT_OF_CLASS: dict[type, ElementFormat] = {type(ELEMENT_TYPES[name]): form for name, form in FORMATS.items()}
"""Each format is a class of its own in xDSL; a class is found faster than an attribute, whose hash is computed each time."""


def format_of(operand: Attribute) -> ElementFormat | None:
    """The format of a tensor type's elements, or None where they are no floating-point numbers."""
    return _FORMAT_OF_CLASS.get(type(operand.element_type)) if isinstance(operand, TensorType) else None


class Kind(Flag):
    """Kinds of element types."""

    FLOAT = auto()
    INTEGER = auto()
    TRUTH = auto()
    COMPLEX = auto()


FLOATING = Kind.FLOAT | Kind.COMPLEX
NUMBER = FLOATING | Kind.INTEGER
ANY = NUMBER | Kind.TRUTH


def kind_of(element: Attribute) -> Kind:
    """The kind of an element type; all kinds where it is none of the dialect's."""
    if type(element) in _FORMAT_OF_CLASS:
        return Kind.FLOAT
    if isinstance(element, IntegerType):
        return Kind.TRUTH if element.width.data == 1 else Kind.INTEGER
    return Kind.COMPLEX if isinstance(element, ComplexType) else ANY


class TypeMismatch(VerifyException):
    """Operand types that an operation cannot take; the message says what was expected and what was found."""


@irdl_attr_definition
class IntsAttr(Data[tuple[int, ...]]):
    """A list of integers: axes, a permutation, sizes. Printed `[0, -1]`."""

    name = "num.ints"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[int, ...]:
        return tuple(parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_integer))

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string("[" + ", ".join(map(str, self.data)) + "]")


def tensor(element: str | Attribute, shape: Sequence[int]) -> TensorType[Attribute]:
    """The tensor type; one object for each, since making and verifying one takes longer than most of what is done with it."""
    return _tensor(ELEMENT_TYPES[element] if isinstance(element, str) else element, tuple(shape))


@lru_cache(maxsize=4096)
def _tensor(element: Attribute, shape: tuple[int, ...]) -> TensorType[Attribute]:
    return TensorType(element, list(shape))


def broadcast_shapes(*shapes: Sequence[int]) -> tuple[int, ...]:
    """The shape that NumPy's rules give; a dynamic size beside a static one other than 1 is taken to be that size.

    Raises TypeMismatch where two sizes differ and neither is 1.
    """
    rank = max(map(len, shapes), default=0)
    result = []
    for axis in range(-rank, 0):
        sizes = {shape[axis] for shape in shapes if -axis <= len(shape)} - {1}
        static = sizes - {DYNAMIC}
        if len(static) > 1:
            raise TypeMismatch(f"expected shapes that broadcast, but got {' and '.join(str(list(s)) for s in shapes)}")
        result.append(static.pop() if static else (sizes.pop() if sizes else 1))
    return tuple(result)


def reduced_shape(shape: Sequence[int], axes: Sequence[int]) -> tuple[int, ...]:
    """The shape with every axis of `axes` (counted from the left) kept with size 1."""
    for axis in axes:
        if not 0 <= axis < len(shape):
            raise TypeMismatch(f"expected axes below rank {len(shape)}, but got {axis}")
    if len(set(axes)) != len(axes):
        raise TypeMismatch(f"expected each axis once, but got {list(axes)}")
    return tuple(1 if i in axes else size for i, size in enumerate(shape))
