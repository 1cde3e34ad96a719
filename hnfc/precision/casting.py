"""Casts of whatever arrays are in a tree: those of NumPy, torch and JAX."""

from __future__ import annotations

import copy
import dataclasses
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import ml_dtypes
import numpy as np

from hnfc.dialects.formats import Format
from hnfc.formats.named import LIBRARY_NAMES, format_named
from hnfc.formats.rounding import round_to

Tree = TypeVar("Tree")


def cast_tree(tree: Tree, form: Format) -> Tree:
    """`cast_floating` to a format."""
    done: dict[int, tuple[Any, Any]] = {}

    def cast(value: Any) -> Any:
        if id(value) not in done:
            # the value is kept so that its id stays its own
            done[id(value)] = value, _cast_array(value, form)
        return done[id(value)][1]

    result: Tree = _mapped(tree, cast)
    return result


def _mapped(tree: Any, cast: Callable[[Any], Any]) -> Any:
    match tree:
        case dict():
            # a copy keeps what else a dictionary has: an order, a default, the versions of a state dict
            copied = copy.copy(tree)
            for key, value in tree.items():
                copied[key] = _mapped(value, cast)
            return copied
        case list():
            copied_list = copy.copy(tree)
            copied_list[:] = [_mapped(value, cast) for value in tree]
            return copied_list
        case tuple() if hasattr(tree, "_fields"):
            return type(tree)(*(_mapped(value, cast) for value in tree))
        case tuple():
            return type(tree)(_mapped(value, cast) for value in tree)
    if dataclasses.is_dataclass(tree) and not isinstance(tree, type):
        made = copy.copy(tree)
        for field in dataclasses.fields(tree):
            if hasattr(tree, field.name):
                object.__setattr__(made, field.name, _mapped(getattr(tree, field.name), cast))
        return made
    return cast(tree)


def _cast_array(value: Any, form: Format) -> Any:
    if isinstance(value, np.ndarray):
        return _cast_numpy(value, form) if _is_floating(value.dtype) else value
    torch, jax = sys.modules.get("torch"), sys.modules.get("jax")
    if torch is not None:
        if isinstance(value, torch.Tensor):
            from hnfc.formats.torch_rounding import cast_tensor

            return cast_tensor(value, form, getattr(torch, LIBRARY_NAMES.get(form.name, ""), None))
        if isinstance(value, torch.nn.Module):
            raise TypeError("a module is no tree of arrays: cast its state_dict() and load that")
    if jax is not None and isinstance(value, jax.Array) and _is_floating(value.dtype):
        return jax.numpy.asarray(_cast_numpy(np.asarray(value), form))
    return value


def _is_floating(dtype: np.dtype[Any]) -> bool:
    if dtype.kind == "f":
        return True
    try:
        ml_dtypes.finfo(dtype)
    except (ValueError, TypeError):
        return False
    return "complex" not in dtype.name


def _cast_numpy(array: np.ndarray[Any, Any], form: Format) -> np.ndarray[Any, Any]:
    name = LIBRARY_NAMES.get(form.name)
    wide = array.astype(np.float64 if array.dtype.itemsize > 4 else np.float32, copy=False)
    if name is None:
        return np.asarray(round_to(wide.astype(np.float64), form)).astype(_carrier(form))
    target = np.dtype(getattr(ml_dtypes, name, name))
    if array.dtype == target:
        return array
    return np.asarray(round_to(wide, form)).astype(target) if target.itemsize < wide.dtype.itemsize else wide.astype(target)


def _carrier(form: Format) -> Any:
    return np.float32 if form <= format_named("fp32") else np.float64
