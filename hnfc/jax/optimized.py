"""The function that `hnfc.jax.optimize` returns: it is called as the original is, and has a rewritten form for each kind of call."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.extend.core as jex

from hnfc.core.errors import ModelError
from hnfc.jax.calls import FunctionCall
from hnfc.jax.compiling import FunctionSettings, Inputs, Outcome, rewritten
from hnfc.jax.runner import apart
from hnfc.pipeline.request import Found

MOST_KINDS = 64
"""Kinds of calls that are traced; the original answers further ones."""

MOST_CLOSURES = 16
"""Calls that close over values which are being traced, each of which is rewritten by itself."""
_ON_VALUES = (jax.errors.ConcretizationTypeError, jax.errors.TracerIntegerConversionError, jax.errors.TracerArrayConversionError)
"""Errors of JAX where the value of a number decides what is traced."""


@dataclass(frozen=True)
class Form:
    """Answer to one kind of call. function: of the flat arrays; None: the original runs. unchanged: leaves of the state that stay."""

    function: Callable[..., Any] | None
    structure: Any
    unchanged: tuple[bool, ...]
    outcome: Outcome
    inputs: tuple[str, ...]


class OptimizedFunction:
    """A function with its unstable formulas rewritten. `original` is the function as it was."""

    def __init__(
        self, function: Callable[..., Any], settings: FunctionSettings, static_argnums: Sequence[int], static_argnames: Sequence[str]
    ) -> None:  # fmt: skip
        functools.update_wrapper(self, function, updated=())
        self.original, self.settings = function, settings
        self._static = frozenset((*static_argnums, *static_argnames))
        self._forms: dict[Any, Form] = {}
        self._around: list[Form] = []
        self._found: dict[bool, Found] = {}
        self._refused: set[str] = set()
        self._numbers_decide = False

    def __repr__(self) -> str:
        return f"hnfc.jax.optimize({_title(self.original)}): {len(self._forms)} kinds of calls"

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """A method, where the function was decorated in a class."""
        return self if instance is None else functools.partial(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        call = self._call(args, kwargs)
        form = self._form(call) if call is not None else None
        if form is None or form.function is None:
            return self.original(*args, **kwargs)
        if call is None or call.numbers != self._numbers_decide:  # the first call has shown that numbers decide
            call = self._call(args, kwargs)
            assert call is not None
        result, state = jax.tree.unflatten(form.structure, form.function(*call.arrays))
        call.update(state, form.unchanged)
        return result

    @property
    def forms(self) -> list[Form]:
        """The forms of the calls so far."""
        return [*self._forms.values(), *self._around]

    def prepare(self, *args: Any, **kwargs: Any) -> None:
        """Traces and rewrites the kind of call that these arguments make. Raises ModelError where that is not possible."""
        call = self._call(args, kwargs)
        if call is None:
            raise ModelError("an argument is neither an array nor hashable; name it in static_argnums, or give it as arrays")
        self._made(call)

    def _call(self, args: Any, kwargs: Any) -> FunctionCall | None:
        return FunctionCall.of(self.original, args, kwargs, self._static.__contains__, self._numbers_decide)

    def _form(self, call: FunctionCall) -> Form | None:
        found = self._forms.get(call.key)
        if found is not None:
            return found
        if len(self._forms) >= MOST_KINDS:
            self._refuse(f"more than {MOST_KINDS} kinds of calls came")
            return None
        try:
            return self._made(call)
        except Exception as error:  # a call that the original can answer must not fail
            self._refuse(next(iter(str(error).splitlines()), type(error).__name__))
            return None

    def _made(self, call: FunctionCall) -> Form:
        """The form for a kind of call, which is kept. Raises ModelError."""
        try:
            closed, shape = jax.make_jaxpr(call, return_shape=True)(*call.arrays)
        except _ON_VALUES:
            if self._numbers_decide:
                raise
            # a number decides what is computed, as a size or in a condition
            self._numbers_decide = True
            again = self._call(*call.given)
            if again is None:
                raise
            return self._made(again)
        if closed.jaxpr.effects:
            raise ModelError(f"it has effects: {', '.join(sorted(map(str, closed.jaxpr.effects)))}")
        outer = closed.consts if any(isinstance(constant, jax.core.Tracer) for constant in closed.consts) else []
        if outer and len(self._around) >= MOST_CLOSURES:
            raise ModelError("it closes over values that are being differentiated or traced, again and again; give them as arguments")
        outcome = self._rewritten(_with_arguments(closed) if outer else closed, call, outer)
        function = jax.jit(jex.jaxpr_as_fun(outcome.function)) if outcome.function is not None else None
        inputs = tuple(f"{name}: {_shape(x)}" for name, x in zip(call.names(), call.arrays, strict=True))
        form = Form(function, jax.tree.structure(shape), _unchanged(closed, shape), outcome, inputs)
        if outer:  # these values are there for this call alone
            self._around.append(form)
            return form if function is None else replace(form, function=functools.partial(function, *outer))
        self._forms[call.key] = form
        return form

    def _rewritten(self, closed: Any, call: FunctionCall, outer: Sequence[Any]) -> Outcome:
        """The rewritten form of a traced call. outer: values that come before its arrays."""
        arrays = [*outer, *call.arrays]
        names = [*(f"outer{i}" for i in range(len(outer))), *call.names()]
        sample = None if any(isinstance(x, jax.core.Tracer) for x in arrays) else arrays
        with apart():
            wide = bool(jax.config.jax_enable_x64)
            settings = replace(self.settings, found=self._found.get(wide))
            fixed = frozenset((*range(len(outer)), *(len(outer) + i for i in call.parameters())))
            outcome = rewritten(closed, Inputs(names, sample, fixed), settings, _title(self.original))
        self._found.setdefault(wide, outcome.found)
        return outcome

    def _refuse(self, reason: str) -> None:
        if reason not in self._refused:
            self._refused.add(reason)
            warnings.warn(f"hnfc: {_title(self.original)} runs as it was: {reason}", stacklevel=4)


def _with_arguments(closed: Any) -> Any:
    """The function with its constants as its first arguments."""
    jaxpr = closed.jaxpr
    return jex.ClosedJaxpr(jaxpr.replace(constvars=[], invars=[*jaxpr.constvars, *jaxpr.invars]), ())


def _unchanged(closed: Any, shape: Any) -> tuple[bool, ...]:
    """Of each leaf of the state of modules, whether it comes out as it went in."""
    results, state = shape
    count, first = len(jax.tree.leaves(state)), len(jax.tree.leaves(results))
    pairs = zip(closed.jaxpr.outvars[first:], closed.jaxpr.invars[:count], strict=True) if count else ()
    return tuple(after is before for after, before in pairs)


def _title(function: Any) -> str:
    whole = getattr(function, "func", function)  # of a partial one
    name = getattr(whole, "__name__", type(whole).__name__)
    return name if name.isidentifier() else "function"


def _shape(x: Any) -> str:
    aval = jax.typeof(x)
    return f"{aval.dtype.name}{list(aval.shape)}"
