"""Operations of the `num` dialect as functions of jax.numpy and lax: what rules put in, and what surrounds it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from hnfc.core.errors import ModelError
from hnfc.dialects.num import OPERATIONS
from hnfc.dialects.num.base import NumOp
from hnfc.dialects.num.rounding import NUMPY_TYPES
from hnfc.jax.derivatives import FUNCTIONS, softmax, widened

Function = Callable[..., Any]
_ARRAYS = (jax.Array, np.ndarray)
_OF_NUMPY = (
    "abs", "sign", "exp", "exp2", "log", "log2", "log10", "sqrt", "square", "sin", "cos", "tan", "sinh", "cosh",
    "floor", "ceil", "trunc", "round", "add", "maximum", "minimum", "remainder", "fmod", "isnan", "isinf", "isfinite",
    "logical_not", "logical_and", "logical_or", "logical_xor",
)  # fmt: skip
"""Functions of jax.numpy of the same name, operands and meaning."""
_OF_LAX = ("neg", "asin", "acos", "atan", "rsqrt", "erf", "lgamma")
_COMPARISONS = {
    "eq": jnp.equal, "ne": jnp.not_equal, "lt": jnp.less, "le": jnp.less_equal, "gt": jnp.greater, "ge": jnp.greater_equal,
}  # fmt: skip
_FUNCTIONS: dict[str, Function] = {
    **{name: getattr(jnp, name) for name in _OF_NUMPY},
    **{name: getattr(lax, name) for name in _OF_LAX},
    **FUNCTIONS,
}


def computes(*names: str) -> Callable[[Function], Function]:
    """Registers the function of operations of these names."""

    def register(function: Function) -> Function:
        _FUNCTIONS.update(dict.fromkeys(names, function))
        return function

    return register


def apply(name: str, *operands: Any, **attributes: Any) -> Any:
    """The results of the operation `name`: its own function, or its steps in others. Raises ModelError where JAX has neither."""
    found = _FUNCTIONS.get(name)
    if found is not None:
        return found(*operands, **attributes)
    steps = OPERATIONS[name].FACTS.steps
    result = widened(lambda *xs: steps(_ArraySteps(), *xs, **attributes))(*operands) if steps is not None else None
    if result is None:
        raise ModelError(f"JAX has no function for `num.{name}`, which a rule put in; leave out its group, or name the rules that you need")
    return result


def is_known(operation: NumOp) -> bool:
    """Return whether `apply` has a function for the operation."""
    name = operation.name.removeprefix("num.")
    return name in _FUNCTIONS or operation.FACTS.steps is not None


class _ArraySteps:
    """`facts.StepBuilder` on JAX's arrays."""

    def __call__(self, name: str, *operands: Any, **attributes: Any) -> Any:
        kind = next((x.dtype for x in operands if isinstance(x, _ARRAYS)), None)
        if attributes.get("perm") == "last_two":
            return jnp.swapaxes(operands[0], -1, -2)
        return apply(name, *(x if isinstance(x, _ARRAYS) else jnp.asarray(float(Fraction(x)), kind) for x in operands), **attributes)

    def size(self, x: Any, axes: Any) -> int:
        return math.prod(x.shape[axis] for axis in axes)


# arithmetic


_FUNCTIONS["sub"] = jnp.subtract
_FUNCTIONS["mul"] = jnp.multiply
_FUNCTIONS["atan2"] = jnp.arctan2
_FUNCTIONS["relu"] = lambda x: jnp.maximum(x, jnp.zeros((), x.dtype))
_FUNCTIONS["reciprocal"] = lambda x: jnp.ones((), x.dtype) / x
_FUNCTIONS["detach"] = lax.stop_gradient
_FUNCTIONS["i0"] = jax.scipy.special.i0
_FUNCTIONS["i0e"] = jax.scipy.special.i0e
_FUNCTIONS["xlogy"] = jax.scipy.special.xlogy
_FUNCTIONS["fma"] = lambda x, y, z: x * y + z
_FUNCTIONS["where"] = lambda p, x, y: jnp.where(p, x, y)
_FUNCTIONS["compare"] = lambda x, y, predicate: _COMPARISONS[predicate](x, y)


@computes("div")
def div(x: Any, y: Any) -> Any:
    """x / y; the integer part of integers."""
    return x / y if jnp.issubdtype(x.dtype, jnp.inexact) else lax.div(*jnp.broadcast_arrays(x, y))


@computes("pow")
def power(x: Any, y: Any) -> Any:
    """x^y; a product where y is a small integer that is known."""
    known = _known(y)
    if known is not None and known == int(known) and abs(known) <= 8:
        return lax.integer_pow(x, int(known)) * jnp.ones(np.shape(y), x.dtype)
    return jnp.power(x, y)


def _known(y: Any) -> float | None:
    """The number that fills an array, if it is known now and finite."""
    if isinstance(y, jax.core.Tracer) or np.size(y) == 0:
        return None
    values = np.asarray(y).astype(np.float64)
    first = float(values.flat[0])
    return first if math.isfinite(first) and bool((values == first).all()) else None


@computes("cast")
def cast(x: Any, to: str) -> Any:
    """x in an element type; a complex number gives its real part."""
    real = jnp.real(x) if jnp.iscomplexobj(x) and not to.startswith("complex") else x
    return (real != 0) if to == "i1" else real.astype(element_type(to))


def element_type(name: str) -> Any:
    """The type of an element type of the dialect, as wide as JAX allows now."""
    return jax.dtypes.canonicalize_dtype(NUMPY_TYPES[name])


# reductions


_REDUCTIONS = {"max": jnp.max, "min": jnp.min, "prod": jnp.prod, "any": jnp.any, "all": jnp.all}
for _name, _reduce in _REDUCTIONS.items():
    _FUNCTIONS[_name] = lambda x, axes, _reduce=_reduce: _reduce(x, axis=tuple(axes), keepdims=True)
_FUNCTIONS["cumsum"] = lambda x, axis: jnp.cumsum(x, axis=axis, dtype=x.dtype)
_FUNCTIONS["softmax"] = widened(softmax)
_FUNCTIONS["log_softmax"] = widened(lambda x, axes: jax.nn.log_softmax(x, axis=tuple(axes)) if x.size else x)
_FUNCTIONS["logsumexp"] = widened(lambda x, axes: jax.scipy.special.logsumexp(x, axis=tuple(axes), keepdims=True))


@computes("sum")
def total(x: Any, axes: Sequence[int], accumulate: str | None = None) -> Any:
    """Σ x over `axes`, which stay; accumulated in a type of its own if that is given."""
    kind = element_type(accumulate) if accumulate else x.dtype
    return jnp.sum(x, axis=tuple(axes), keepdims=True, dtype=kind).astype(x.dtype)


def _index_of(pick: Callable[..., Any]) -> Function:
    def index(x: Any, axes: Sequence[int]) -> Any:
        kept = [i for i in range(x.ndim) if i not in axes]
        flat = jnp.transpose(x, [*kept, *axes]).reshape([x.shape[i] for i in kept] + [-1])
        return pick(flat, axis=-1).reshape([1 if i in axes else n for i, n in enumerate(x.shape)])

    return index


_FUNCTIONS["argmax"], _FUNCTIONS["argmin"] = _index_of(jnp.argmax), _index_of(jnp.argmin)


@computes("two_sum")
def two_sum(x: Any, y: Any) -> tuple[Any, Any]:
    """The sum and its rounding error, as Knuth has them."""
    s = x + y
    back = s - x
    return s, (x - (s - back)) + (y - back)


@computes("pairwise_sum")
def pairwise_sum(x: Any, axes: Sequence[int]) -> Any:
    """Σ x by halves."""
    kept = [i for i in range(x.ndim) if i not in axes]
    rows = jnp.transpose(x, [*axes, *kept]).reshape([-1] + [x.shape[i] for i in kept])
    while len(rows) > 1:
        half = len(rows) // 2
        rows = jnp.concatenate([rows[:half] + rows[half : 2 * half], rows[2 * half :]])
    return rows.reshape([1 if i in axes else n for i, n in enumerate(x.shape)])


@computes("kahan_sum")
def kahan_sum(x: Any, axes: Sequence[int]) -> Any:
    """Σ x, with the error of every addition summed beside it."""
    kept = [i for i in range(x.ndim) if i not in axes]
    rows = jnp.transpose(x, [*axes, *kept]).reshape([-1] + [x.shape[i] for i in kept])

    def add(carry: Any, row: Any) -> tuple[Any, None]:
        whole, lost = carry
        new = whole + row
        error = jnp.where(jnp.abs(whole) >= jnp.abs(row), (whole - new) + row, (row - new) + whole)
        return (new, lost + jnp.where(jnp.isfinite(new), error, jnp.zeros_like(error))), None

    start = jnp.zeros(rows.shape[1:], rows.dtype)
    (whole, lost), _ = lax.scan(add, (start, start), rows)
    return (whole + lost).reshape([1 if i in axes else n for i, n in enumerate(x.shape)])


# contractions


_FUNCTIONS["matmul"] = jnp.matmul


@computes("conv")
def conv(x: Any, weight: Any, stride: Any, padding: Any, dilation: Any, groups: int) -> Any:
    """The cross-correlation of (batch, channels, places…) with (outputs, channels/groups, kernel…)."""
    pairs = [(p, p) for p in padding]
    return lax.conv_general_dilated(x, weight, stride, pairs, rhs_dilation=dilation, feature_group_count=groups)


@computes("attention")
def attention(q: Any, k: Any, v: Any, *mask: Any, scale: float, causal: bool = False) -> Any:
    """softmax(q·kᵀ·scale + mask)·v, 0 for a query that sees no key."""
    return widened(_attention)(q, k, v, *mask, scale=scale, causal=causal)


def _attention(q: Any, k: Any, v: Any, *mask: Any, scale: float, causal: bool) -> Any:
    scores = jnp.matmul(q, jnp.swapaxes(k, -1, -2)) * jnp.asarray(scale, q.dtype)
    for part in mask:
        scores = jnp.where(part, scores, -jnp.inf) if part.dtype == jnp.bool_ else scores + part
    if causal:
        scores = jnp.where(jnp.tri(scores.shape[-2], scores.shape[-1], dtype=jnp.bool_), scores, -jnp.inf)
    weights = softmax(scores, (scores.ndim - 1,))
    if mask or causal:
        weights = jnp.where(jnp.all(scores == -jnp.inf, axis=-1, keepdims=True), jnp.zeros((), weights.dtype), weights)
    return jnp.matmul(weights, v)


# movement


_FUNCTIONS["transpose"] = lambda x, perm: jnp.transpose(x, perm)
_FUNCTIONS["reshape"] = lambda x, shape, source=(): jnp.reshape(x, shape)
_FUNCTIONS["broadcast"] = lambda x, shape: jnp.broadcast_to(x, shape)
_FUNCTIONS["concat"] = lambda *parts, axis: jnp.concatenate(parts, axis=axis)
_FUNCTIONS["reverse"] = lambda x, axes: jnp.flip(x, axis=tuple(axes))
_FUNCTIONS["embedding"] = lambda table, indices: jnp.take(table, indices, axis=0, mode="clip")
_FUNCTIONS["index_select"] = lambda x, index, axis: jnp.take(x, index, axis=axis, mode="clip")


@computes("slice")
def slice_along(x: Any, axis: int, start: int, stop: int, step: int) -> Any:
    """x[…, start:stop:step, …]."""
    return x[(slice(None),) * axis + (slice(start, stop, step),)]


@computes("pad")
def pad(x: Any, low: Sequence[int], high: Sequence[int], value: float) -> Any:
    """x with `value` around it; negative numbers cut."""
    return lax.pad(x, jnp.asarray(value, x.dtype), [(a, b, 0) for a, b in zip(low, high, strict=True)])


@computes("gather")
def gather(x: Any, index: Any, axis: int) -> Any:
    """x at the indices along an axis; other axes of the index may be shorter."""
    cut = x[tuple(slice(None) if i == axis else slice(0, n) for i, n in enumerate(index.shape))]
    return jnp.take_along_axis(cut, index, axis=axis, mode="clip")


# sources


@computes("constant")
def constant(value: float, element: str, shape: Sequence[int]) -> Any:
    """An array of one number."""
    number = np.full((), value, element_type(element))[()]
    return jnp.broadcast_to(number, shape) if shape else number


@computes("iota")
def iota(start: float, step: float, element: str, shape: Sequence[int]) -> Any:
    """start, start + step, …"""
    wide = element_type("f64") if element.startswith("f") else element_type(element)
    counted = lax.iota(wide, shape[0]) * np.asarray(step, wide) + np.asarray(start, wide)
    return counted.astype(element_type(element))
