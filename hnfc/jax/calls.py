"""A call of a function as arrays and the rest: what decides which rewritten form answers it, and how that form is called.

Modules whose state changes when they are called (`flax.nnx`) are arguments as well: their state goes in and comes out.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.extend.core as jex
import numpy as np


@dataclass(frozen=True)
class Held:
    """A value that is part of the kind of a call."""

    value: Any


@dataclass(frozen=True)
class _Module:
    """The place of a module of `flax.nnx` among the arguments."""

    index: int


@dataclass(frozen=True)
class FunctionCall:
    """One call. arrays: in order; rest: other leaves by their positions. modules: those of `flax.nnx`, whose state comes first.
    given: the arguments themselves. numbers: whether numbers of Python are not among the arrays."""

    function: Callable[..., Any]
    given: tuple[Any, Any]
    arrays: list[Any]
    rest: tuple[tuple[int, Any], ...]
    structure: Any
    modules: tuple[Any, ...]
    definition: Any
    numbers: bool
    key: Any

    @staticmethod
    def of(function: Callable[..., Any], args: Any, kwargs: Any, static: Callable[[int | str], bool], numbers: bool) -> FunctionCall | None:
        """The call; None where something that is no array cannot be compared. static: of the position or name of an argument.

        numbers: whether Python's numbers are part of the kind of the call.
        """
        held = [Held(x) if static(i) or static(i - len(args)) else x for i, x in enumerate(args)]
        named = {name: Held(x) if static(name) else x for name, x in kwargs.items()}
        target = getattr(function, "__self__", None), function
        owner = next((x for x in target if x is not None and _has_arrays(x)), None)
        everything = (owner, held, named)
        modules = _modules_in(everything)
        placed = {id(module): _Module(index) for index, module in enumerate(modules)}
        everything = jax.tree.map(lambda x: placed.get(id(x), x), everything, is_leaf=_is_module)
        definition, state = sys.modules["flax.nnx"].split(modules) if modules else (None, None)
        leaves, structure = jax.tree.flatten((state, everything), is_leaf=lambda x: isinstance(x, Held))
        is_moving = [_is_array(x) and not (isinstance(x, bool) or (numbers and isinstance(x, int | float | complex))) for x in leaves]
        arrays = [x for x, moves in zip(leaves, is_moving, strict=True) if moves]
        rest = tuple((i, x) for i, x in enumerate(leaves) if not is_moving[i])
        key = (structure, tuple(map(jax.typeof, arrays)), tuple((i, type(x), x) for i, x in rest), definition, _surroundings())
        try:
            hash(key)
        except TypeError:
            return None
        return FunctionCall(function, (args, kwargs), arrays, rest, structure, modules, definition, numbers, key)

    def __call__(self, *arrays: Any) -> Any:
        """The result of the function for other arrays, and the state of its modules afterwards."""
        leaves = list(arrays)
        for index, value in self.rest:
            leaves.insert(index, value)
        state, everything = jax.tree.unflatten(self.structure, leaves)
        modules = sys.modules["flax.nnx"].merge(self.definition, state) if self.modules else ()
        owner, args, kwargs = jax.tree.map(lambda x: modules[x.index] if isinstance(x, _Module) else x, everything)
        args, kwargs = [_plain(x) for x in args], {name: _plain(x) for name, x in kwargs.items()}
        bound = getattr(self.function, "__self__", None)
        if owner is None:
            result = self.function(*args, **kwargs)
        elif bound is not None and _has_arrays(bound):
            result = self.function.__func__(owner, *args, **kwargs)  # type: ignore[attr-defined]
        else:
            result = owner(*args, **kwargs)
        return result, sys.modules["flax.nnx"].state(modules) if modules else None

    def names(self) -> list[str]:
        """A name for each array: of its argument, and its path in that."""
        return [_path(path) if path else f"input{i}" for i, path in enumerate(self._paths())]

    def parameters(self) -> frozenset[int]:
        """The arrays that lie in trees, as parameters of a model do, where others do not."""
        found = frozenset(i for i, path in enumerate(self._paths()) if len(path) > 1)
        return found if len(found) < len(self.arrays) else frozenset()

    def _paths(self) -> list[Any]:
        """The path of each array: the name of its argument, and the keys in that."""
        leaves: list[Any] = [_Place(i) for i in range(len(self.arrays))]
        for index, value in self.rest:
            leaves.insert(index, value)
        state, (owner, args, kwargs) = jax.tree.unflatten(self.structure, leaves)
        try:
            given = dict(inspect.signature(self.function).bind(*args, **kwargs).arguments)
        except (TypeError, ValueError):
            given = {**{f"arg{i}": x for i, x in enumerate(args)}, **kwargs}
        paths, _ = jax.tree_util.tree_flatten_with_path({**given, "self": owner, "state": state})
        found = {mark.index: path for path, mark in paths if isinstance(mark, _Place)}
        return [found.get(i, ()) for i in range(len(self.arrays))]

    def update(self, state: Any, unchanged: Sequence[bool]) -> None:
        """Gives the modules the state that they have after the call, where it is another than before."""
        if not self.modules or all(unchanged):
            return
        leaves, structure = jax.tree.flatten(state)
        before = jax.tree.leaves(sys.modules["flax.nnx"].state(self.modules))
        merged = [old if same else new for old, new, same in zip(before, leaves, unchanged, strict=True)]
        sys.modules["flax.nnx"].update(self.modules, jax.tree.unflatten(structure, merged))


@dataclass(frozen=True)
class _Place:
    """The position of an array."""

    index: int


def _plain(x: Any) -> Any:
    return x.value if isinstance(x, Held) else x


def _is_module(x: Any) -> bool:
    nnx = sys.modules.get("flax.nnx")
    return nnx is not None and isinstance(x, nnx.Module)


def _modules_in(tree: Any) -> tuple[Any, ...]:
    """The modules of `flax.nnx`, each once."""
    leaves = jax.tree.leaves(tree, is_leaf=lambda x: _is_module(x) or isinstance(x, Held))
    return tuple({id(x): x for x in leaves if _is_module(x)}.values())


def _has_arrays(x: Any) -> bool:
    """Return whether it is a tree that holds arrays, as a module of Equinox or Flax."""
    if isinstance(x, jax.Array | np.ndarray):
        return False
    return _is_module(x) or any(_is_array(leaf) for leaf in jax.tree.leaves(x) if leaf is not x)


def _path(path: Any) -> str:
    first, *rest = path
    return f"{first.key}{jax.tree_util.keystr(tuple(rest))}"


def _is_array(x: Any) -> bool:
    """Return whether a leaf is a number or an array of numbers, as `jax.jit` takes them."""
    if isinstance(x, np.ndarray):
        return x.dtype.kind not in "OSUM"
    return isinstance(x, jax.Array | np.generic | float | int | complex)


def _surroundings() -> Any:
    """Settings of JAX that decide what is traced: types, precision, the mesh, and the axes of maps around the call."""
    axes = tuple((name, jax.lax.axis_size(name)) for name in jex.unsafe_get_axis_names_DO_NOT_USE())
    return bool(jax.config.jax_enable_x64), jax.config.jax_default_matmul_precision, jax.sharding.get_abstract_mesh(), axes
