"""Bindings of a rule's names at one match."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, SSAValue

from hnfc.dialects.types import DYNAMIC
from hnfc.dsl import core
from hnfc.rewrite.nary_terms import (
    Product,
    Root,
    Sum,
)


@dataclass(frozen=True)
class Integers:
    """The sizes of a reshape, an order of axes, or a setting of a convolution for each axis."""

    values: tuple[int, ...]


Binding: TypeAlias = "SSAValue | Root | Product | Sum | Fraction | float | frozenset[int] | Integers"
Bindings: TypeAlias = Mapping[str, Binding]
AXIS = "axis "
"""Axis variables share the bindings with captures, under this prefix."""


def resolve_axes(axes: core.Axes, bindings: Bindings) -> frozenset[int] | None:
    """The axes, counted from the right, that axis variables stand for; None if one is unbound."""
    result: set[int] = set()
    for axis in axes:
        if isinstance(axis, int):
            result.add(axis)
        else:
            bound = bindings.get(AXIS + axis)
            if not isinstance(bound, frozenset):
                return None
            result |= bound
    return frozenset(result)


def bound_value(expression: core.Expr, bindings: Bindings) -> SSAValue | None:
    """The value that a captured name stands for, if it is one value of the program."""
    if not isinstance(expression, core.Capture):
        return None
    bound = bindings.get(expression.name)
    return bound if isinstance(bound, SSAValue) else None


def extent(value: SSAValue | None, axes: frozenset[int] | None) -> int | None:
    """The number of elements along the axes; None if it is not known when compiling. Axes that a value lacks have size 1."""
    if value is None or axes is None or not isinstance(value.type, TensorType):
        return None
    shape = shape_of(value)
    result = 1
    for axis in axes:
        size = shape[axis] if -axis <= len(shape) else 1
        if size == DYNAMIC:
            return None
        result *= size
    return result


def type_of(value: SSAValue) -> TensorType[Attribute]:
    assert isinstance(value.type, TensorType)
    return value.type


def shape_of(value: SSAValue) -> tuple[int, ...]:
    return tuple(type_of(value).get_shape())
