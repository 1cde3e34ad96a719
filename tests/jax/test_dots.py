"""Products in 8 bits: their values, their derivatives, and layers that take them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax import lax  # noqa: E402

import hnfc.jax  # noqa: E402
from hnfc.core.errors import UsageError  # noqa: E402

RANDOM = np.random.default_rng(0)
A = jnp.asarray(RANDOM.standard_normal((6, 16)), jnp.float32)
B = jnp.asarray(RANDOM.standard_normal((16, 5)), jnp.float32)
PLAIN = (((1,), (0,)), ((), ()))
UNITS = {"int4": 1 / 14, "int8": 1 / 254, "fp8_e4m3fn": 1 / 16, "fp8_e5m2": 1 / 8}


@pytest.mark.parametrize("form", ["int8", *(pytest.param(form, marks=pytest.mark.slow) for form in UNITS if form != "int8")])
def test_the_error_is_that_of_the_format(form: str) -> None:
    found = hnfc.jax.dot_general(form)(A, B, PLAIN)
    rows, columns = jnp.abs(A).max(1, keepdims=True), jnp.abs(B).max(0, keepdims=True)
    if form.startswith("int"):
        bound = UNITS[form] * (rows * jnp.abs(B).sum(0) + jnp.abs(A).sum(1, keepdims=True) * columns) * 1.1
    else:
        bound = UNITS[form] * (jnp.abs(A) @ jnp.abs(B)) * 2.2 + 1e-3
    assert found.dtype == jnp.float32
    assert (jnp.abs(found - A @ B) <= bound).all()
    assert not (found == A @ B).all()


def test_integers_are_multiplied_as_integers() -> None:
    text = str(jax.make_jaxpr(lambda a, b: hnfc.jax.dot_general("int8")(a, b, PLAIN))(A, B))
    assert "i32[6,5] = dot_general" in text


@pytest.mark.slow
def test_batches_and_other_axes() -> None:
    a, b = jnp.stack([A, 100 * A]).transpose(2, 0, 1), jnp.stack([B, B]).transpose(0, 2, 1)
    dimensions = (((0,), (2,)), ((1,), (0,)))
    found, exact = hnfc.jax.dot_general("int8")(a, b, dimensions), lax.dot_general(a, b, dimensions)
    for one, other, factor in zip(found, exact, (1, 100), strict=True):
        np.testing.assert_allclose(one, other, atol=0.02 * factor * float(jnp.abs(exact[0]).max()))


def test_derivatives_are_straight_through() -> None:
    dot = hnfc.jax.dot_general("int8")

    def loss(a: Any, b: Any) -> Any:
        return (dot(a, b, PLAIN) ** 2).sum()

    step = jnp.abs(B).max(0, keepdims=True) / 127
    rounded = jnp.round(B / step) * step
    found = jax.grad(loss)(A, B)
    np.testing.assert_allclose(found, 2 * dot(A, B, PLAIN) @ rounded.T, rtol=1e-4, atol=1e-4)
    tangent = jax.jvp(lambda a: dot(a, B, PLAIN), (A,), (A,))[1]
    np.testing.assert_allclose(tangent, A @ rounded, rtol=1e-4, atol=1e-4)


@pytest.mark.slow
def test_second_derivatives() -> None:
    dot = hnfc.jax.dot_general("int8")
    step = jnp.abs(B).max(0, keepdims=True) / 127
    rounded = jnp.round(B / step) * step
    found = jax.hessian(lambda a: (dot(a[None], B, PLAIN) ** 2).sum() / 2)(A[0])
    np.testing.assert_allclose(found, rounded @ rounded.T, rtol=1e-4, atol=1e-4)


@pytest.mark.slow
def test_a_rounded_gradient() -> None:
    dot = hnfc.jax.dot_general("fp8_e4m3fn", gradient="fp8_e5m2")
    weights = jnp.asarray(RANDOM.standard_normal((6, 5)), jnp.float32)
    found = jax.grad(lambda a: (dot(a, B, PLAIN) * weights).sum())(A)
    exact = jax.grad(lambda a: (a @ B * weights).sum())(A)
    assert 0 < float(jnp.abs(found - exact).max()) < 0.2 * float(jnp.abs(exact).max())


@pytest.mark.parametrize("scale", [None, 0.02])
def test_what_is_not_finite_stays_so_and_zeros_are_exact(scale: float | None) -> None:
    dot = hnfc.jax.dot_general(hnfc.jax.Scaled("int8", scale))
    found = dot(A.at[0, 0].set(jnp.nan).at[1, 1].set(jnp.inf).at[2].set(0.0), B, PLAIN)
    assert not jnp.isfinite(found[:2]).any()
    assert jnp.isfinite(found[2:]).all() and (found[2] == 0).all()
    assert (dot(1e-45 * A, B, PLAIN) * 0 == 0).all()


@pytest.mark.slow
def test_delayed_scales_are_those_of_the_calls_before() -> None:
    state = hnfc.jax.delayed_state(4)

    def loss(a: Any, state: Any) -> Any:
        return hnfc.jax.delayed_dot_general(state)(a, B, PLAIN).sum()

    for factor in (1.0, 3.0):
        state = jax.jit(jax.grad(loss, 1))(factor * A, state)
    largest = float(jnp.abs(A).max())
    np.testing.assert_allclose(state["lhs"], [3 * largest, largest, 0, 0], rtol=1e-6)
    beyond = hnfc.jax.delayed_dot_general(state)(100 * A, B, PLAIN)
    assert jnp.isfinite(beyond).all() and float(jnp.abs(beyond).max()) < 10 * float(jnp.abs(A @ B).max())


@pytest.mark.slow
@pytest.mark.parametrize("form", ["int8", "fp8_e4m3fn"])
def test_a_layer_of_flax_learns_with_it(form: str) -> None:
    linen = pytest.importorskip("flax.linen")
    losses = []
    for options in ({}, {"dot_general": hnfc.jax.dot_general(form)}):
        model = linen.Sequential([linen.Dense(16, **options), linen.relu, linen.Dense(1, **options)])
        parameters = model.init(jax.random.key(0), A)

        @jax.jit
        def step(parameters: Any, model: Any = model) -> Any:
            value, slope = jax.value_and_grad(lambda p: ((model.apply(p, A)[:, 0] - A.sum(1)) ** 2).mean())(parameters)
            return value, jax.tree.map(lambda p, g: p - 0.02 * g, parameters, slope)

        for _ in range(50):
            value, parameters = step(parameters)
        losses.append(float(value))
    assert losses[1] < losses[0] + 0.5


def test_refusals() -> None:
    with pytest.raises(UsageError, match="there is no format `int9` for products; did you mean `int"):
        hnfc.jax.dot_general("int9")
    with pytest.raises(UsageError, match="a scale is a positive number, not 0"):
        hnfc.jax.Scaled("int8", 0)
