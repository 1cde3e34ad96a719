"""Products of matrices in 8 bits and fewer, for whatever takes a `dot_general`: einsum, layers of Flax, Haliax.

Operands are divided by scales, rounded, multiplied as they are then, and multiplied by the scales again. Derivatives are those of the
product of the rounded operands (straight through), so that forward and reverse mode of any order work.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
from jax import lax

from hnfc.core.errors import UsageError, suggestion

Dot: TypeAlias = Callable[..., Any]
_NUMBERS = {
    "int4": (jnp.int4, 7.0), "int8": (jnp.int8, 127.0), "fp8_e4m3fn": (jnp.float8_e4m3fn, 448.0),
    "fp8_e5m2": (jnp.float8_e5m2, 57344.0),
}  # fmt: skip
"""The type of each format, and the largest number that is used of it."""


@dataclass(frozen=True)
class Scaled:
    """A format and its scales. scale: a number for all that come; None: that of the largest element of each row that is summed over.

    format: int4, int8, fp8_e4m3fn or fp8_e5m2. A stored number times its scale is the number that it stands for. Raises UsageError for
    another format, or for a scale that is not positive and finite.
    """

    format: str
    scale: float | None = None

    def __post_init__(self) -> None:
        if self.format not in _NUMBERS:
            meant = suggestion(self.format, _NUMBERS) or f"; there are {', '.join(_NUMBERS)}"
            raise UsageError(f"there is no format `{self.format}` for products{meant}")
        if self.scale is not None and not 0 < self.scale < float("inf"):
            raise UsageError(f"a scale is a positive number, not {self.scale}")

    def rounded(self, x: Any, axes: tuple[int, ...] | None, largest: Any = None) -> tuple[Any, Any]:
        """x in the format, and its scales, which are NaN where an element is not finite. largest: a size to use instead of that of x."""
        kind, most = _NUMBERS[self.format]
        wide = x.astype(jnp.promote_types(x.dtype, jnp.float32))
        if self.scale is not None:
            scale = jnp.full((1,) * x.ndim, self.scale, wide.dtype)
        else:
            size = jnp.max(jnp.abs(wide), axis=axes, keepdims=True) if largest is None else jnp.full((1,) * x.ndim, largest, wide.dtype)
            scale = jnp.where(size == 0, jnp.ones_like(size), size / most)
        # a number that is subnormal has no quotient by a scale that XLA takes for 0
        scale = jnp.where(scale < jnp.finfo(wide.dtype).smallest_normal, jnp.finfo(wide.dtype).smallest_normal, scale)
        scale = jnp.where(jnp.isfinite(wide).all(axis=axes, keepdims=True), scale, jnp.nan)
        quotient = jnp.clip(wide / scale, -most, most)
        return (jnp.round(quotient) if jnp.issubdtype(kind, jnp.integer) else quotient).astype(kind), scale


def dot_general(
    lhs: str | Scaled = "int8", rhs: str | Scaled | None = None, gradient: str | Scaled | None = None
) -> Dot:  # fmt: skip
    """A function to use in the place of `jax.lax.dot_general`, of the same shapes, whose operands are rounded to formats with scales.

    rhs: as lhs where it is not given. gradient: of what comes back; not rounded where it is not given. Raises UsageError for a format
    that there is not.
    """
    left = _scaled(lhs)
    right, back = left if rhs is None else _scaled(rhs), None if gradient is None else _scaled(gradient)

    def dot(a: Any, b: Any, dimension_numbers: Any, precision: Any = None, preferred_element_type: Any = None, **_: Any) -> Any:
        product = _product(
            left, right, dimension_numbers, jnp.result_type(a, b) if preferred_element_type is None else preferred_element_type
        )
        found = product(a, b)
        return found if back is None else _with_rounded_gradient(back, found)

    return dot


def _scaled(given: str | Scaled) -> Scaled:
    return given if isinstance(given, Scaled) else Scaled(given)


def _product(left: Scaled, right: Scaled, dimensions: Any, kind: Any) -> Dot:
    contracted_a, contracted_b = dimensions[0]

    def stored(a: Any, b: Any) -> tuple[Any, Any]:
        return left.rounded(a, tuple(contracted_a)), right.rounded(b, tuple(contracted_b))

    @jax.custom_jvp  # type: ignore[untyped-decorator]
    def product(a: Any, b: Any) -> Any:
        return multiplied(*stored(a, b), dimensions).astype(kind)

    @product.defjvp  # type: ignore[untyped-decorator]
    def _(primals: Any, tangents: Any) -> tuple[Any, Any]:
        a, b = ((q.astype(s.dtype) * s).astype(x.dtype) for (q, s), x in zip(stored(*primals), primals, strict=True))
        terms = (lax.dot_general(x, y, dimensions, preferred_element_type=kind) for x, y in ((tangents[0], b), (a, tangents[1])))
        return product(*primals), sum(terms, jnp.zeros((), kind))

    return product  # type: ignore[no-any-return]


def multiplied(first: tuple[Any, Any], second: tuple[Any, Any], dimensions: Any) -> Any:
    """The product of rounded operands, times their scales."""
    (a, scale_a), (b, scale_b) = first, second
    # 4 bits in the type of 8, which every machine multiplies; of two kinds, in float32, which holds both
    a, b = (x.astype(jnp.int8) if x.dtype == jnp.int4 else x for x in (a, b))
    a, b = (a, b) if a.dtype == b.dtype else (a.astype(jnp.float32), b.astype(jnp.float32))
    integers = jnp.issubdtype(a.dtype, jnp.integer)
    wide = jnp.promote_types(scale_a.dtype, scale_b.dtype)
    product = lax.dot_general(a, b, dimensions, preferred_element_type=jnp.int32 if integers else jnp.float32)
    contracted_a, contracted_b = dimensions[0]
    # the axes that are summed over have size 1 in the scales where these are of rows; where they are of all, every axis has
    shape_a = [1 if axis in contracted_a else n for axis, n in enumerate(a.shape)]
    shape_b = [1 if axis in contracted_b else n for axis, n in enumerate(b.shape)]
    scales = lax.dot_general(jnp.broadcast_to(scale_a, shape_a).astype(wide), jnp.broadcast_to(scale_b, shape_b).astype(wide), dimensions)
    return product.astype(wide) * scales


def _with_rounded_gradient(form: Scaled, x: Any) -> Any:
    """x, whose gradient is rounded to the format with one scale."""

    @jax.custom_vjp  # type: ignore[untyped-decorator]
    def same(x: Any) -> Any:
        return x

    def backward(_: None, cotangent: Any) -> tuple[Any]:
        rounded, scale = form.rounded(cotangent, None)
        return ((rounded.astype(scale.dtype) * scale).astype(cotangent.dtype),)

    same.defvjp(lambda x: (x, None), backward)
    return same(x)


# scales of the past


def delayed_state(window: int = 16) -> dict[str, Any]:
    """The largest elements of the last `window` calls, of both operands, two vectors: the state of `delayed_dot_general`."""
    return {"lhs": jnp.zeros(window), "rhs": jnp.zeros(window)}


def delayed_dot_general(state: Any, lhs: str = "fp8_e4m3fn", rhs: str | None = None) -> Dot:
    """A `dot_general` with scales of the largest elements of calls before; those of its own call where there was none.

    state: as `delayed_state` makes it. Raises UsageError for a format that there is not.
    The gradient by `state` is no derivative but the next state: an optimizer puts it in the place of the old one.
    """
    left, right = Scaled(lhs), Scaled(lhs if rhs is None else rhs)

    def dot(a: Any, b: Any, dimension_numbers: Any, precision: Any = None, preferred_element_type: Any = None, **_: Any) -> Any:
        kind = jnp.result_type(a, b) if preferred_element_type is None else preferred_element_type

        def rounded(a: Any, b: Any, state: Any) -> tuple[Any, Any]:
            sizes = [_size(state[name], x) for name, x in (("lhs", a), ("rhs", b))]
            return left.rounded(a, None, sizes[0]), right.rounded(b, None, sizes[1])

        @jax.custom_vjp  # type: ignore[untyped-decorator]
        def product(a: Any, b: Any, state: Any) -> Any:
            return multiplied(*rounded(a, b, state), dimension_numbers).astype(kind)

        def forward(a: Any, b: Any, state: Any) -> tuple[Any, Any]:
            return product(a, b, state), (a, b, state)

        def backward(kept: Any, cotangent: Any) -> tuple[Any, Any, Any]:
            a, b, state = kept
            plain = [(q.astype(s.dtype) * s).astype(x.dtype) for (q, s), x in zip(rounded(a, b, state), (a, b), strict=True)]
            _, pull = jax.vjp(lambda x, y: lax.dot_general(x, y, dimension_numbers, preferred_element_type=kind), *plain)
            following = {name: jnp.roll(state[name], 1).at[0].set(_largest(x)) for name, x in (("lhs", a), ("rhs", b))}
            return *pull(cotangent), following

        product.defvjp(forward, backward)
        return product(a, b, state)

    return dot


def _largest(x: Any) -> Any:
    return jnp.max(jnp.abs(x)).astype(jnp.float32)


def _size(history: Any, x: Any) -> Any:
    past = jnp.max(history)
    return jnp.where(past > 0, past, _largest(x))
