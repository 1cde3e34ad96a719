"""Derivatives that a user wrote, stopped gradients and effects stay; a rewrite that is worse is taken back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax import lax  # noqa: E402

from hnfc.jax import operations  # noqa: E402
from tests.jax.comparing import optimized, rewrites  # noqa: E402
from tests.jax.examples import clipped, rounded  # noqa: E402

X = jnp.array([0.3, -1.2, 2.6])


def test_no_rule_crosses_a_stopped_gradient() -> None:
    better = optimized(lambda x: jnp.log(1 + jnp.exp(x)) + lax.stop_gradient(jnp.round(x) - x) + x, X)
    assert "softplus_fusion" in rewrites(better)
    np.testing.assert_allclose(jax.vmap(jax.grad(better))(X), 1 + jax.nn.sigmoid(X), rtol=1e-6)


@pytest.mark.parametrize("own", [rounded, pytest.param(clipped, marks=pytest.mark.slow)])
def test_no_rule_crosses_a_derivative_of_the_user(own: Any) -> None:
    better = optimized(lambda x: own(x) + jnp.log(1 + jnp.exp(x)), X)
    assert "softplus_fusion" in rewrites(better)
    wanted = jax.vmap(jax.grad(lambda x: own(x) + jax.nn.softplus(x)))(X)
    np.testing.assert_allclose(jax.vmap(jax.grad(better))(X), wanted, rtol=1e-6)


def test_a_rewrite_with_wrong_values_is_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(operations._FUNCTIONS, "log1p", lambda x: jnp.log1p(x) * 1.01)
    better = optimized(lambda x: jnp.log(1 + x * x), X)
    assert better.forms[0].function is None
    assert "log1p_fusion" in better.forms[0].outcome.data["taken_back"]


def test_a_rewrite_with_wrong_gradients_is_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(operations._FUNCTIONS, "log1p", lambda x: jnp.log1p(lax.stop_gradient(x)))
    better = optimized(lambda x: jnp.log(1 + x * x), X)
    assert better.forms[0].function is None
    assert "the gradient by input 0" in better.forms[0].outcome.text


@pytest.mark.slow
def test_a_body_with_wrong_values_is_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(operations._FUNCTIONS, "logaddexp", lambda x, y: jnp.logaddexp(x, y) + 1)
    better = optimized(lambda x: lax.scan(lambda c, a: (jnp.log(jnp.exp(c) + jnp.exp(a)), c), 0.0, x)[0], X)
    assert "logaddexp_fusion" not in rewrites(better)
    np.testing.assert_allclose(better(X), better.original(X), rtol=1e-6)


@pytest.mark.slow
def test_an_algorithm_for_one_function_keeps_its_derivative() -> None:
    better = optimized(lambda x: jax.scipy.special.gammaln(x) + jnp.log(1 + jnp.exp(x)), jnp.abs(X))
    assert rewrites(better) == {"softplus_fusion"}
    text = str(jax.make_jaxpr(better)(jnp.abs(X)))
    assert "lgamma" in text


def test_what_was_not_rewritten_is_the_original() -> None:
    better = optimized(lambda x: jnp.sin(x) @ x, X)
    assert better.forms[0].function is None
    assert str(jax.make_jaxpr(better)(X)) == str(jax.make_jaxpr(better.original)(X))


def test_effects_are_refused() -> None:
    def printing(x: Any) -> Any:
        jax.debug.print("{x}", x=x)
        return jnp.log(1 + jnp.exp(x))

    better = optimized(printing)
    with pytest.warns(UserWarning, match="runs as it was: it has effects"):
        better(X)


def test_values_that_are_differentiated_from_outside() -> None:
    def loss(w: Any, scale: float) -> Any:
        better = optimized(lambda x: jnp.log(1 + jnp.exp(w * x)))
        return better(scale * X).sum() + better(X).sum()

    found, slope = jax.value_and_grad(loss)(2.0, 1000.0)
    wanted = sum((jax.nn.sigmoid(2 * x) * x).sum() for x in (X, 1000 * X))
    assert np.isfinite(found)
    np.testing.assert_allclose(slope, wanted, rtol=1e-6)


@pytest.mark.slow
def test_closures_that_never_end_run_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hnfc.jax.optimized.MOST_CLOSURES", 2)
    weights: list[Any] = []
    better = optimized(lambda x: jnp.log(1 + jnp.exp(weights[-1] * x)).sum())

    def loss(w: Any) -> Any:
        weights.append(w)
        return better(X)

    for _ in range(2):
        jax.grad(loss)(2.0)
    with pytest.warns(UserWarning, match="closes over values"):
        found = jax.grad(loss)(2.0)
    np.testing.assert_allclose(found, (jax.nn.sigmoid(2 * X) * X).sum(), rtol=1e-6)


@pytest.mark.slow
def test_a_loop_that_may_not_end_runs_on_its_sample_only() -> None:
    def root(x: Any) -> Any:
        x = jnp.log(1 + jnp.exp(x))
        return lax.while_loop(lambda s: jnp.abs(s * s - x) > 1e-3, lambda s: (s + x / s) / 2, x)

    better = optimized(root, jnp.float32(2.0))
    assert "softplus_fusion" in rewrites(better)
    np.testing.assert_allclose(better(jnp.float32(3.0)), root(jnp.float32(3.0)), rtol=1e-5)


def test_a_softmax_that_is_stable_stays() -> None:
    better = optimized(lambda x: jax.nn.softmax(x), X)
    assert better.forms[0].function is None and rewrites(better) == set()
    assert "subtracts its maximum already" in better.forms[0].outcome.text


@pytest.mark.slow
def test_parameters_in_trees_are_what_they_are() -> None:
    def attention(weights: Any, x: Any) -> Any:
        x = x / jnp.sqrt((x * x).sum(-1, keepdims=True))
        e = jnp.exp((x @ weights["q"]) @ (x @ weights["k"]).T)
        return x + e / e.sum(-1, keepdims=True) @ x

    random = np.random.default_rng(0)
    weights = {name: jnp.asarray(random.standard_normal((4, 4)), jnp.float32) for name in "qk"}
    x = jnp.asarray(random.standard_normal((5, 4)), jnp.float32)
    better = optimized(attention, weights, x)
    assert "softmax_fusion" in rewrites(better)
    large = {name: 30 * w for name, w in weights.items()}
    assert jnp.isfinite(better(large, x)).all() and not jnp.isfinite(attention(large, x)).all()
