"""The function that `hnfc.jax.optimize` returns: it is called as the original is, and has a rewritten form for each kind of call."""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import jax
import jax.extend.core as jex
import numpy as np

from hnfc.core.errors import ModelError
from hnfc.jax.compiling import FunctionSettings, Outcome, rewritten
from hnfc.jax.runner import apart
from hnfc.pipeline.request import Found

Arguments: TypeAlias = tuple[tuple[Any, ...], dict[str, Any]]
MOST_KINDS = 64
"""Kinds of calls that are traced; the original answers further ones."""


@dataclass(frozen=True)
class Form:
    """Answer to one kind of call. function: of the flat arrays; None: the original runs. closed: what was traced."""

    function: Callable[..., Any] | None
    structure: Any
    outcome: Outcome | None
    shapes: tuple[str, ...]


class OptimizedFunction:
    """A function with its unstable formulas rewritten. `original` is the function as it was."""

    def __init__(
        self, function: Callable[..., Any], settings: FunctionSettings, static_argnums: Sequence[int], static_argnames: Sequence[str]
    ) -> None:
        functools.update_wrapper(self, function)
        self.original, self.settings = function, settings
        self._static_numbers = frozenset(static_argnums)
        self._static_names = frozenset(static_argnames)
        self._forms: dict[Any, Form] = {}
        self._found: dict[bool, Found] = {}
        self._refused: set[str] = set()

    def __repr__(self) -> str:
        return f"hnfc.jax.optimize({getattr(self.original, '__name__', self.original)!s}): {len(self._forms)} kinds of calls"

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """A method, where the function was decorated in a class."""
        return self if instance is None else functools.partial(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        call = _Call.of(args, kwargs, self._static_numbers, self._static_names)
        form = self._form(call) if call is not None else None
        if call is None or form is None or form.function is None:
            return self.original(*args, **kwargs)
        return jax.tree.unflatten(form.structure, form.function(*call.arrays))

    @property
    def forms(self) -> list[Form]:
        """The forms of the calls so far."""
        return list(self._forms.values())

    def prepare(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Traces and rewrites the kind of call that these arguments make. Raises ModelError where that is not possible."""
        call = _Call.of(args, kwargs, self._static_numbers, self._static_names)
        if call is None:
            raise ModelError("an argument is neither an array nor hashable; name it in static_argnums, or give it as arrays")
        form = self._made(call)
        if form is not None:
            self._forms[call.key] = form

    def _form(self, call: _Call) -> Form | None:
        found = self._forms.get(call.key)
        if found is not None:
            return found
        if len(self._forms) >= MOST_KINDS:
            self._refuse(f"more than {MOST_KINDS} kinds of calls came")
            return None
        try:
            form = self._made(call)
        except Exception as error:  # a call that the original can answer must not fail
            form = None
            self._refuse(next(iter(str(error).splitlines()), type(error).__name__))
        if form is None:
            return None
        self._forms[call.key] = form
        return form

    def _made(self, call: _Call) -> Form | None:
        """The form for a kind of call; None where the function closes over values that are being traced."""
        closed, shape = call.traced(self.original)
        if any(isinstance(constant, jax.core.Tracer) for constant in closed.consts):
            self._refuse("it closes over values that are being differentiated or traced; give them as arguments")
            return None
        if closed.jaxpr.effects:
            self._refuse(f"it has effects ({', '.join(sorted(map(str, closed.jaxpr.effects)))})")
            return None
        sample = None if any(isinstance(x, jax.core.Tracer) for x in call.arrays) else call.arrays
        with apart():
            settings = replace(self.settings, found=self._found.get(jax.config.jax_enable_x64))
            outcome = rewritten(closed, call.names(self.original), sample, settings, _title(self.original))
        self._found.setdefault(jax.config.jax_enable_x64, outcome.found)
        function = jax.jit(jex.jaxpr_as_fun(outcome.function)) if outcome.function is not None else None
        return Form(function, jax.tree.structure(shape), outcome, tuple(map(_shape, call.arrays)))

    def _refuse(self, reason: str) -> None:
        if reason not in self._refused:
            self._refused.add(reason)
            warnings.warn(f"hnfc: {_title(self.original)} runs as it was: {reason}", stacklevel=5)


def _title(function: Any) -> str:
    name = getattr(function, "__name__", type(function).__name__)
    return name if name.isidentifier() else "function"


def _shape(x: Any) -> str:
    return f"{np.dtype(x.dtype).name if isinstance(x, np.ndarray) else jax.typeof(x).dtype.name}{list(np.shape(x))}"


@dataclass(frozen=True)
class _Call:
    """One call: its arrays, everything else as values that a form is for, and their places."""

    arrays: list[Any]
    rest: tuple[tuple[int, Any], ...]
    structure: Any
    static: tuple[Any, ...]
    key: Any

    @staticmethod
    def of(args: tuple[Any, ...], kwargs: dict[str, Any], numbers: frozenset[int], names: frozenset[str]) -> _Call | None:
        """The call; None where something that is no array cannot be compared."""
        numbers = frozenset(n % len(args) for n in numbers if -len(args) <= n < len(args)) if args else frozenset()
        static = (
            tuple((i, x) for i, x in enumerate(args) if i in numbers),
            tuple((n, x) for n, x in sorted(kwargs.items()) if n in names),
        )
        moving = [x for i, x in enumerate(args) if i not in numbers], {n: x for n, x in kwargs.items() if n not in names}
        leaves, structure = jax.tree.flatten(moving)
        arrays = [x for x in leaves if _is_array(x)]
        rest = tuple((i, x) for i, x in enumerate(leaves) if not _is_array(x))
        key = (structure, tuple(_kind(x) for x in arrays), rest, static, bool(jax.config.jax_enable_x64), _precision())
        try:
            hash(key)
        except TypeError:
            return None
        return _Call(arrays, rest, structure, static, key)

    def arguments(self, arrays: Sequence[Any]) -> Arguments:
        """The arguments with other arrays."""
        leaves = list(arrays)
        for index, value in self.rest:
            leaves.insert(index, value)
        positional, named = jax.tree.unflatten(self.structure, leaves)
        for index, value in self.static[0]:
            positional.insert(index, value)
        return tuple(positional), {**named, **dict(self.static[1])}

    def traced(self, function: Callable[..., Any]) -> tuple[Any, Any]:
        """The closed jaxpr of the function of the arrays, and the structure of its result."""

        def flat(*arrays: Any) -> Any:
            args, kwargs = self.arguments(arrays)
            return function(*args, **kwargs)

        closed, shape = jax.make_jaxpr(flat, return_shape=True)(*self.arrays)
        return closed, shape

    def names(self, function: Callable[..., Any]) -> list[str]:
        """A name for each array: of its argument, and where it lies in that."""
        marks = list(range(len(self.arrays)))
        args, kwargs = self.arguments(marks)
        try:
            given = dict(inspect.signature(function).bind(*args, **kwargs).arguments)
        except (TypeError, ValueError):
            given = {**{f"arg{i}": x for i, x in enumerate(args)}, **kwargs}
        found = {mark: _path(path) for path, mark in jax.tree_util.tree_flatten_with_path(given)[0] if type(mark) is int}
        return [found.get(mark, f"input{mark}") for mark in marks]


def _path(path: Any) -> str:
    first, *rest = path
    return f"{first.key}{jax.tree_util.keystr(tuple(rest))}"


def _is_array(x: Any) -> bool:
    """Return whether a leaf is a number or an array of numbers, as `jax.jit` takes them."""
    return isinstance(x, (jax.Array, np.ndarray, np.generic, float, int, complex)) and not (
        isinstance(x, np.ndarray) and x.dtype.kind in "OSUM"
    )


def _kind(x: Any) -> Any:
    aval = jax.typeof(x)
    return aval.shape, aval.dtype, getattr(aval, "weak_type", False)


def _precision() -> Any:
    return jax.config.jax_default_matmul_precision
