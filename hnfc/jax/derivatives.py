"""Elementwise functions of JAX with derivatives that are accurate where JAX's own are not: `FACTS.gradient` of the operation.

JAX differentiates expm1, tanh and their kin by their results, which loses what is left of a derivative near an asymptote.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from hnfc.dialects.num import OPERATIONS

HALVES = (jnp.float16, jnp.bfloat16)


def _size(x: Any) -> Any:
    """|x| with slope -1 at 0, as 0 belongs to the branch of negative numbers: with slope 0, second derivatives are wrong there."""
    return jnp.where(x > 0, x, -x) + 0.0


def _sigmoid(x: Any) -> Any:
    """1/(1 + e^-x) by e^-|x|, which underflows where the result does."""
    small = jnp.exp(-_size(x))
    return jnp.where(x > 0, jnp.ones_like(small), small) / (1 + small)


class JaxMath:
    """The functions of `facts.Elementary` on JAX's arrays."""

    exp = staticmethod(jnp.exp)
    sqrt = staticmethod(jnp.sqrt)
    sigmoid = staticmethod(_sigmoid)
    erfcx = staticmethod(jax.scipy.special.erfcx)
    hypot = staticmethod(jnp.hypot)
    abs = staticmethod(_size)
    where = staticmethod(jnp.where)


def widened(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function in float32 where its operands are narrower, rounded at the end."""

    def wide(*operands: Any, **attributes: Any) -> Any:
        kind = next((x.dtype for x in operands if jnp.issubdtype(jnp.asarray(x).dtype, jnp.floating)), None)
        if kind not in HALVES:
            return function(*operands, **attributes)
        raised = (x.astype(jnp.float32) if x.dtype in HALVES else x for x in operands)
        return function(*raised, **attributes).astype(kind)

    return wide


def differentiable(name: str, value: Callable[..., Any], positive_zero: bool = False) -> Callable[..., Any]:
    """The function `value` with the derivative of the operation `name`. positive_zero: 0 is +0, as of the sum or difference that a rule
    replaced by it."""
    gradient = OPERATIONS[name].FACTS.gradient
    assert gradient is not None

    @jax.custom_jvp  # type: ignore[untyped-decorator]
    def function(*operands: Any) -> Any:
        found = value(*operands)
        return found + jnp.zeros((), found.dtype) if positive_zero else found

    @function.defjvp  # type: ignore[untyped-decorator]
    def _(primals: Any, tangents: Any) -> tuple[Any, Any]:
        wide = [x.astype(jnp.float32) if x.dtype in HALVES else x for x in primals]
        slopes = gradient(JaxMath, *wide)
        result = function(*primals)
        terms = [t.astype(s.dtype) * s for t, s in zip(tangents, slopes, strict=True)]
        total = sum(terms[1:], terms[0])
        return result, jnp.broadcast_to(total, result.shape).astype(result.dtype)

    function.__name__ = name

    def call(*operands: Any) -> Any:
        return function(*operands) if jnp.issubdtype(operands[0].dtype, jnp.floating) else value(*operands)

    return call


FUNCTIONS: dict[str, Callable[..., Any]] = {
    name: differentiable(name, widened(value), positive_zero=name in ("expm1", "log1p", "tanh", "asinh", "atanh"))
    for name, value in {
        "expm1": jnp.expm1,
        "log1p": jnp.log1p,
        "tanh": jnp.tanh,
        "asinh": jnp.asinh,
        "acosh": jnp.acosh,
        "atanh": jnp.atanh,
        "sigmoid": _sigmoid,
        "log_sigmoid": lambda x: -jnp.logaddexp(-x, jnp.zeros((), x.dtype)),
        "softplus": lambda x: jnp.logaddexp(x, jnp.zeros((), x.dtype)),
        "silu": lambda x: x * _sigmoid(x),
        "mish": lambda x: x * jnp.tanh(jnp.logaddexp(x, jnp.zeros((), x.dtype))),
        "cbrt": lax.cbrt,
        "erfc": lax.erfc,
        "erfcx": jax.scipy.special.erfcx,
        "log_ndtr": jax.scipy.special.log_ndtr,
        "hypot": jnp.hypot,
        "logaddexp": jnp.logaddexp,
    }.items()
}
"""Functions of the operations of these names."""


@jax.custom_jvp  # type: ignore[untyped-decorator]
def _weights(x: Any, rows: Any) -> Any:
    """softmax over the last axis, 0 where a row has +inf and x is finite."""
    return jnp.where(rows & (x < jnp.inf), jnp.zeros((), x.dtype), jax.nn.softmax(x, axis=-1))


@_weights.defjvp  # type: ignore[untyped-decorator]
def _(primals: Any, tangents: Any) -> tuple[Any, Any]:
    y = _weights(*primals)
    t = tangents[0]
    return y, y * (t - jnp.sum(y * t, axis=-1, keepdims=True))


def softmax(x: Any, axes: tuple[int, ...], whole: bool = False) -> Any:
    """e^x/Σe^x; in a row that holds +inf, 0 for the finite elements, as the quotient has it, unless the row is NaN as a whole."""

    def last(rows: Any) -> Any:
        infinite = jnp.any(rows == jnp.inf, axis=-1, keepdims=True) & (not whole)
        return _weights(rows, infinite)

    return _over_last(last, x, axes)


def _over_last(function: Callable[[Any], Any], x: Any, axes: tuple[int, ...]) -> Any:
    """The function of the last axis, applied along `axes`."""
    kept = [i for i in range(x.ndim) if i not in axes]
    order = [*kept, *axes]
    turned = jnp.transpose(x, order)
    flat = turned.reshape([x.shape[i] for i in kept] + [-1])
    back = [order.index(i) for i in range(x.ndim)]
    return jnp.transpose(function(flat).reshape(turned.shape), back) if x.size else x
