"""The table from torch operation to handler, and what handlers share."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias

from xdsl.dialects.builtin import AnyFloat, IntegerType, TensorType
from xdsl.ir import Attribute, SSAValue

from hnfc.dialects.types import BOOL, ELEMENT_TYPES
from hnfc.frontend.builder import Entry

Handler: TypeAlias = Callable[..., Any]

CONVERSIONS: dict[str, Handler] = {}


def converts(*names: str) -> Callable[[Handler], Handler]:
    """Registers a handler for the torch operations of these names (without `torch.`)."""

    def register(handler: Handler) -> Handler:
        for name in names:
            CONVERSIONS[f"torch.{name}"] = handler
        return handler

    return register


def is_tensor(entry: Entry) -> bool:
    return isinstance(entry, SSAValue) and isinstance(entry.type, TensorType)


def shape(value: SSAValue) -> tuple[int, ...]:
    return value.type.get_shape()  # type: ignore[attr-defined,no-any-return]


def element(value: SSAValue) -> Attribute:
    return value.type.element_type  # type: ignore[attr-defined,no-any-return]


def is_float(kind: Attribute) -> bool:
    return isinstance(kind, AnyFloat)


def is_number(entry: Entry) -> bool:
    return isinstance(entry, bool | int | float)


def ints(entry: Entry) -> tuple[int, ...] | None:
    """A list of integers known at import; a single integer counts as a list of one."""
    if isinstance(entry, int) and not isinstance(entry, bool):
        return (entry,)
    if isinstance(entry, list) and all(isinstance(item, int) and not isinstance(item, bool) for item in entry):
        return tuple(entry)
    return None


def axes_of(entry: Entry, rank: int) -> tuple[int, ...] | None:
    """The axes that a `dim` argument names, counted from the left and sorted; None and [] name all."""
    if entry is None or entry == []:
        return tuple(range(rank))
    found = ints(entry)
    if found is None:
        return None
    if rank == 0:
        return ()
    return tuple(sorted({axis % rank for axis in found}))


def promoted(x: Entry, y: Entry) -> Attribute | None:
    """The element type in which torch computes with x and y (tensors or Python numbers)."""
    tensors = [entry for entry in (x, y) if is_tensor(entry)]
    if not tensors:
        return None
    if len(tensors) == 2:
        a, b = element(tensors[0]), element(tensors[1])
        if a == b:
            return a
        if _category(a) == _category(b) and (len(shape(x)) == 0) != (len(shape(y)) == 0):
            return b if len(shape(x)) == 0 else a
        return max((a, b), key=_rank) if {a, b} != _HALVES else ELEMENT_TYPES["f32"]
    kind = element(tensors[0])
    number = y if tensors[0] is x else x
    if isinstance(number, float) and not is_float(kind):
        return ELEMENT_TYPES["f32"]
    return ELEMENT_TYPES["si64"] if kind == BOOL and isinstance(number, int) and not isinstance(number, bool) else kind


_HALVES = {ELEMENT_TYPES["f16"], ELEMENT_TYPES["bf16"]}


def _category(kind: Attribute) -> int:
    return 2 if is_float(kind) else 0 if kind == BOOL else 1


def _rank(kind: Attribute) -> tuple[int, int]:
    width = kind.width.data if isinstance(kind, IntegerType) else getattr(kind, "bitwidth", 0)
    return _category(kind), width


def finite(entry: Entry) -> bool:
    return is_number(entry) and math.isfinite(entry)
