"""Naive forms become finite and right, and so do their gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402

from tests.jax.comparing import optimized  # noqa: E402
from tests.jax.examples import softmax  # noqa: E402

X = jnp.array([[-300.0, 0.5, 200.0], [90.0, 89.0, -1.0]])
FORMS: dict[str, tuple[Callable[..., Any], Callable[..., Any], Any]] = {
    "softmax": (softmax, lambda x: jax.nn.softmax(x, -1), X),
    "logsumexp": (lambda x: jnp.log(jnp.sum(jnp.exp(x), -1)), lambda x: jax.nn.logsumexp(x, -1), X),
    "log1p": (lambda x: jnp.log(1 + x * x), lambda x: jnp.log1p(x * x), 1e-6 * X),
    "softplus": (lambda x: jnp.log(1 + jnp.exp(x)), jax.nn.softplus, X),
    "sigmoid": (lambda x: 1 / (1 + jnp.exp(-x)), jax.nn.sigmoid, X),
    "log_softmax": (lambda x: jnp.log(jax.nn.softmax(x)), jax.nn.log_softmax, X),
    "variance": (lambda x: jnp.mean(x * x, -1) - jnp.mean(x, -1) ** 2, lambda x: jnp.var(x, -1), X + 1e4),
    "attention": (lambda x: softmax(x @ x.T) @ x, lambda x: jax.nn.softmax(x @ x.T) @ x, X),
}
FAST = ("softmax",)


@pytest.mark.parametrize("name", [name if name in FAST else pytest.param(name, marks=pytest.mark.slow) for name in FORMS])
def test_a_naive_form_is_finite_and_right(name: str) -> None:
    naive, right, x = FORMS[name]
    better = optimized(naive, jnp.ones_like(x) * jnp.array([0.1, 0.7, -0.3]))
    with jax.enable_x64(True):
        wide = jnp.asarray(np.asarray(x, np.float64))
        wanted, slope = right(wide), jax.grad(lambda x: jnp.sum(right(x) ** 2))(wide)
    assert better.forms[0].function is not None
    np.testing.assert_allclose(better(x), wanted, rtol=3e-5, atol=1e-30)
    found = jax.grad(lambda x: jnp.sum(better(x) ** 2))(x)
    np.testing.assert_allclose(found, slope, rtol=1e-4, atol=1e-4 * np.abs(slope).max())


@pytest.mark.parametrize("kind", ["float16", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("bfloat16", "float32", "float64"))])
def test_in_every_format(kind: str) -> None:
    with jax.enable_x64(kind == "float64"):
        x = jnp.asarray([[1.0, 2.0, 1000.0]], kind)
        better = optimized(softmax, x / 1000)
        found = better(x)
        assert found.dtype == kind
        assert np.asarray(found, np.float64).tolist() == [[0.0, 0.0, 1.0]]
        assert not np.isfinite(np.asarray(softmax(x), np.float64)).all()


@pytest.mark.slow
def test_gradients_keep_digits_near_asymptotes() -> None:
    better = optimized(lambda x: 1 / (1 + jnp.exp(-x)), jnp.array([0.3, -0.4]))
    x = jnp.array([20.0, -20.0])
    exact = np.exp(-20.0) / (1 + np.exp(-20.0)) ** 2
    np.testing.assert_allclose(jax.vmap(jax.grad(better))(x), exact, rtol=1e-6)
    np.testing.assert_allclose(jax.vmap(lambda x: jax.jvp(better, (x,), (1.0,))[1])(x), exact, rtol=1e-6)
    np.testing.assert_allclose(jax.vmap(jax.grad(jax.grad(better)))(x), np.array([-exact, exact]), rtol=1e-5)
