"""The kinds of formats that a `.hnf` file can declare: the fields of each, what they may be, and what is made of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from typing import Any, TypeAlias

from hnfc.dialects.formats import Block, Fixed, Float, Format, Overflow, Specials, ieee_bias
from hnfc.dialects.types import ELEMENT_TYPES

MAX_WIDTH = 64


class Word(str):
    """A name that stands for itself: `yes`, `saturate`, the name of a format."""


class Unknown:
    """Value of a parameter before any call."""


Value: TypeAlias = Fraction | Word | Format | Unknown


class WrongValue(Exception):
    """A value that a field cannot have; what it is instead, and a way out."""

    def __init__(self, expected: str, hint: str = "") -> None:
        super().__init__(expected)
        self.expected, self.hint = expected, hint


@dataclass(frozen=True)
class FieldType:
    meaning: str
    read: Callable[[Value], Any]
    required: bool = False
    is_format: bool = False


@dataclass(frozen=True)
class FormatKind:
    name: str
    fields: Mapping[str, FieldType]
    make: Callable[[str, Mapping[str, Any]], Format] = field(repr=False)


def _count(value: Value) -> int:
    if not isinstance(value, Fraction) or value.denominator != 1 or not 0 <= value <= MAX_WIDTH:
        raise WrongValue(f"a whole number from 0 to {MAX_WIDTH}")
    return value.numerator


def _whole(value: Value) -> int:
    if not isinstance(value, Fraction) or value.denominator != 1 or abs(value) >= 1 << 62:
        raise WrongValue("a whole number")
    return value.numerator


def _positive(value: Value) -> float:
    if not isinstance(value, Fraction) or value <= 0:
        raise WrongValue("a number above 0")
    try:
        found = float(value)
    except OverflowError:
        found = 0.0
    if found == 0:
        raise WrongValue("a number that float64 holds")
    return found


def _switch(value: Value) -> bool:
    if value not in ("yes", "no"):
        raise WrongValue("`yes` or `no`")
    return value == "yes"


def _one_of(*words: StrEnum) -> Callable[[Value], StrEnum]:
    def read(value: Value) -> StrEnum:
        for word in words:
            if value == word.value:
                return word
        raise WrongValue("one of " + ", ".join(f"`{word}`" for word in words))

    return read


def _element_type(value: Value) -> str:
    if value not in ELEMENT_TYPES:
        raise WrongValue("an element type", f"one of {', '.join(ELEMENT_TYPES)}")
    return str(value)


def _no_value(value: Value) -> Any:
    raise AssertionError(value)


_SIGN = FieldType("`no` for numbers ≥ 0 only", _switch)
_STORED = FieldType("bits of memory for an element", _positive)
_DTYPE = FieldType("the element type of the IR that holds these values", _element_type)


def _format(meaning: str, required: bool = True) -> FieldType:
    return FieldType(meaning, _no_value, required, is_format=True)


def _some(values: Mapping[str, Any], **names: str) -> dict[str, Any]:
    """The values that are given, by the names that the class has for them."""
    return {ours: values[theirs] for theirs, ours in names.items() if theirs in values}


def _float(name: str, values: Mapping[str, Any]) -> Format:
    specials = values.get("specials", Specials.IEEE)
    usual = {Specials.IEEE: Overflow.INFINITY, Specials.NONE: Overflow.SATURATE}.get(specials, Overflow.NAN)
    zero = values.get("zero", True)
    return Float(
        name=name, exponent=values["exponent"], fraction=values["fraction"], bias=values.get("bias", ieee_bias(values["exponent"])),
        specials=specials, overflow=values.get("overflow", usual), zero=zero, subnormals=values.get("subnormals", zero),
        **_some(values, sign="signed", implicit="implicit", stored="stored", dtype="dtype"),
    )  # fmt: skip


def _log(name: str, values: Mapping[str, Any]) -> Format:
    return Float(
        name=name, exponent=values["exponent"], fraction=0, bias=values.get("bias", ieee_bias(values["exponent"])), subnormals=False,
        zero=False, specials=Specials.NONE, overflow=Overflow.SATURATE, geometric=True, **_some(values, sign="signed", stored="stored"),
    )  # fmt: skip


def _fixed(name: str, values: Mapping[str, Any]) -> Format:
    codes = 1 << (values["integer"] + values["fraction"])
    low = -codes if values.get("sign", True) else 0
    return Fixed(name=name, low=low, high=codes - 1, scale=2.0 ** -values["fraction"], overflow=values["overflow"])


def _integer(name: str, values: Mapping[str, Any]) -> Format:
    signed, narrow = values.get("sign", True), values.get("narrow", False)
    if narrow and not signed:
        raise ValueError("a narrow range is symmetric, so it has a sign")
    if values["bits"] == 0:
        raise ValueError("there are no codes of 0 bits")
    high = (1 << (values["bits"] - signed)) - 1
    low = -high - (not narrow) if signed else 0
    return Fixed(name=name, low=low, high=high, **_some(values, scale="scale", zero_point="zero_point", stored="stored", dtype="dtype"))


def _block(name: str, values: Mapping[str, Any]) -> Format:
    for part, kinds, what in (
        ("element", (Float, Fixed), "single"),
        ("scale", Float, "floating-point"),
        ("tensor_scale", Float, "floating-point"),
    ):
        if part in values and not isinstance(values[part], kinds):
            raise ValueError(f"its {part.replace('_', ' ')} is {values[part]}, which is no format of {what} numbers")
    return Block(name=name, element=values["element"], size=values["size"], scale=values["scale"], tensor_scale=values.get("tensor_scale"))


KINDS: dict[str, FormatKind] = {
    kind.name: kind
    for kind in (
        FormatKind("float", {
            "exponent": FieldType("bits of the exponent", _count, required=True),
            "fraction": FieldType("bits behind the point of the significand", _count, required=True),
            "bias": FieldType("what is taken off the exponent field", _whole),
            "sign": _SIGN,
            "subnormals": FieldType("`no` where the exponent field 0 means 0", _switch),
            "zero": FieldType("`no` where the exponent field 0 is as any other", _switch),
            "implicit": FieldType("`no` where the significand has no leading 1", _switch),
            "specials": FieldType("which codes are no numbers", _one_of(*Specials)),
            "overflow": FieldType("what numbers beyond the largest become", _one_of(Overflow.INFINITY, Overflow.NAN, Overflow.SATURATE)),
            "stored": _STORED,
            "dtype": _DTYPE,
        }, _float),
        FormatKind("log", {
            "exponent": FieldType("bits of the exponent", _count, required=True),
            "bias": FieldType("what is taken off the exponent field", _whole),
            "sign": _SIGN,
            "stored": _STORED,
        }, _log),
        FormatKind("fixed", {
            "integer": FieldType("bits before the point", _count, required=True),
            "fraction": FieldType("bits behind the point", _count, required=True),
            "sign": _SIGN,
            "overflow": FieldType("`saturate` or `wrap`", _one_of(Overflow.SATURATE, Overflow.WRAP), required=True),
        }, _fixed),
        FormatKind("integer", {
            "bits": FieldType("the width", _count, required=True),
            "sign": _SIGN,
            "scale": FieldType("the step", _positive),
            "zero_point": FieldType("the code of 0", _whole),
            "narrow": FieldType("`yes` for a range that is symmetric", _switch),
            "stored": _STORED,
            "dtype": _DTYPE,
        }, _integer),
        FormatKind("block", {
            "element": _format("the format of the elements"),
            "size": FieldType("how many elements share a scale", _whole, required=True),
            "scale": _format("the format of the scales"),
            "tensor_scale": _format("the format of one more scale for all", required=False),
        }, _block),
    )
}  # fmt: skip
