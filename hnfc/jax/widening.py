"""A traced function in float64: every number of it, and every type that its equations name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.extend.core as jex
import jax.numpy as jnp
import numpy as np

from hnfc.jax.steps import derived_by_library

_WIDE: dict[Any, np.dtype[Any]] = {np.dtype(np.complex64): np.dtype(np.complex128)}
_NARROW = tuple(np.dtype(kind) for kind in (jnp.float32, jnp.float16, jnp.bfloat16))
_WIDE.update(dict.fromkeys(_NARROW, np.dtype(np.float64)))
_WITH_BODIES = {"jit": ("jaxpr",), "pjit": ("jaxpr",), "closed_call": ("call_jaxpr",), "checkpoint": ("jaxpr",), "scan": ("jaxpr",),
                "while": ("cond_jaxpr", "body_jaxpr"), "cond": ("branches",)}  # fmt: skip
"""Primitives that call functions, and the parameters that hold these."""
_OF_BITS = ("bitcast_convert_type", "reduce_precision", "pure_callback", "ffi_call", "custom_vjp_call", "custom_jvp_call")
"""Primitives whose meaning is bound to a type, or whose derivative a user wrote: they run in their own type."""


def raised(x: Any) -> Any:
    """A number in float64 where it is narrower."""
    kind = _WIDE.get(x.dtype) if hasattr(x, "dtype") else None
    return x if kind is None else jnp.asarray(x).astype(kind)


def in_float64(closed: Any) -> Callable[..., list[Any]]:
    """The function of a closed jaxpr with its numbers in float64; JAX has to allow these where it is called."""

    def wide(*given: Any) -> list[Any]:
        return _evaluate(closed.jaxpr, closed.consts, given)

    return wide


def _evaluate(jaxpr: Any, constants: Any, given: Any) -> list[Any]:
    values: dict[Any, Any] = dict(zip(jaxpr.invars, map(raised, given), strict=True))
    values.update(zip(jaxpr.constvars, map(raised, constants), strict=True))

    def read(atom: Any) -> Any:
        return raised(np.asarray(atom.val, atom.aval.dtype)) if isinstance(atom, jex.Literal) else values[atom]

    for equation in jaxpr.eqns:
        found = _results(equation, [read(atom) for atom in equation.invars])
        values.update(zip(equation.outvars, map(raised, found), strict=True))
    return [read(atom) for atom in jaxpr.outvars]


def _results(equation: Any, operands: list[Any]) -> Any:
    name = equation.primitive.name
    whole = derived_by_library(equation)
    if whole is not None:
        return _with_derivative(equation, whole)(*operands)
    if name in ("jit", "pjit", "closed_call"):
        closed = equation.params[_WITH_BODIES[name][0]]
        return _evaluate(closed.jaxpr, closed.consts, operands)
    if name in _OF_BITS or (name not in _WITH_BODIES and _has_functions(equation)):
        lowered = [x.astype(atom.aval.dtype) if hasattr(x, "astype") and x.dtype != atom.aval.dtype else x
                   for x, atom in zip(operands, equation.invars, strict=True)]  # fmt: skip
        return _bound(equation, lowered, equation.params)
    params = {key: _WIDE.get(value, value) if isinstance(value, np.dtype) else value for key, value in equation.params.items()}
    for key in _WITH_BODIES.get(name, ("update_jaxpr",) if params.get("update_jaxpr") is not None else ()):
        held = params[key]
        params[key] = tuple(map(_widened_body, held)) if isinstance(held, tuple) else _widened_body(held)
    return _bound(equation, operands, params)


def _bound(equation: Any, operands: list[Any], params: Any) -> Any:
    found = equation.primitive.bind(*operands, **equation.primitive.get_bind_params(params))
    return found if equation.primitive.multiple_results else [found]


def _has_functions(equation: Any) -> bool:
    return any(True for _ in jex.jaxprs_in_params(equation.params)) and not equation.primitive.name.startswith("scatter")


def _widened_body(body: Any) -> Any:
    """A function that an equation calls, in float64, in the form that it has there."""
    closed = body if isinstance(body, jex.ClosedJaxpr) else jex.ClosedJaxpr(body, ())
    avals = [jax.ShapeDtypeStruct(v.aval.shape, _WIDE.get(v.aval.dtype, v.aval.dtype)) for v in closed.jaxpr.invars]
    made = jax.make_jaxpr(in_float64(closed))(*avals)
    if isinstance(body, jex.ClosedJaxpr):
        return made
    if made.consts:
        raise NotImplementedError("constants in a region that is computed again")
    return made.jaxpr


def _with_derivative(equation: Any, values: Any) -> Callable[..., Any]:
    """A function that has a derivative of its own, with both in float64."""
    derivative, constants = equation.params["jvp_jaxpr_fun"], equation.params["num_consts"]

    @jax.custom_jvp  # type: ignore[untyped-decorator]
    def function(*operands: Any) -> Any:
        return tuple(_evaluate(values.jaxpr, values.consts, operands))

    @function.defjvp  # type: ignore[untyped-decorator]
    def _(primals: Any, tangents: Any) -> Any:
        with jax.enable_x64(_allowed_wide(equation)):
            jaxpr, consts, zeros = derivative.call_wrapped(*[False] * (len(primals) - constants))
        found = _evaluate(jaxpr, consts, [*primals[constants:], *tangents[constants:]])
        results, rest = found[: len(zeros)], iter(found[len(zeros) :])
        return tuple(results), tuple(jnp.zeros_like(r) if zero else next(rest) for r, zero in zip(results, zeros, strict=True))

    return function  # type: ignore[no-any-return]


def _allowed_wide(equation: Any) -> bool:
    """Return whether the equation was made where JAX allows 64 bits, as far as its types tell."""
    kinds = [v.aval.dtype for v in (*equation.invars, *equation.outvars)]
    return any(kind.itemsize == 8 and kind.kind in "fiu" for kind in kinds)
