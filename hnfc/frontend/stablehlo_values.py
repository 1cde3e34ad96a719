"""Values of operations of StableHLO that stay what they are in a body: slices at positions that the model computes, and casts."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from xdsl.ir import SSAValue

from hnfc.core.interpreter import FOREIGN
from hnfc.dialects.num.opaque import OpaqueOp

Array: TypeAlias = "np.ndarray[Any, Any]"
_CASTS = ("torch_c.to_builtin_tensor", "torch_c.from_builtin_tensor")
_SIZES = re.compile(r"array<i64: ([\d, ]+)>")


def of_stablehlo(operation: OpaqueOp, known: Mapping[SSAValue, Any], wide: bool) -> list[Array] | None:
    """The result; None for other operations, and where an operand is missing."""
    name = operation.operation.data
    if name not in (*_CASTS, *_SLICES) or any(operand not in known for operand in operation.operands):
        return None
    arrays = [np.asarray(known[operand]) for operand in operation.operands]
    return arrays if name in _CASTS else [_SLICES[name](arrays, operation.attributes_as_python()["carried"])]


def _slice(arrays: Sequence[Array], carried: Mapping[str, str]) -> Array:
    found = _SIZES.fullmatch(carried["slice_sizes"])
    sizes = [int(size) for size in found[1].split(",")] if found is not None else []
    return arrays[0][_window(arrays[0], sizes, arrays[1:])]


def _update(arrays: Sequence[Array], _: Mapping[str, str]) -> Array:
    made = arrays[0].copy()
    made[_window(made, arrays[1].shape, arrays[2:])] = arrays[1]
    return made


def _window(array: Array, sizes: Sequence[int], starts: Sequence[Array]) -> tuple[slice, ...]:
    """The part of these sizes that begins at the starts, moved so that it lies within the array, as StableHLO does."""
    firsts = [min(max(int(start), 0), whole - size) for start, size, whole in zip(starts, sizes, array.shape, strict=True)]
    return tuple(slice(first, first + size) for first, size in zip(firsts, sizes, strict=True))


_SLICES = {"stablehlo.dynamic_slice": _slice, "stablehlo.dynamic_update_slice": _update}
FOREIGN.append(of_stablehlo)
