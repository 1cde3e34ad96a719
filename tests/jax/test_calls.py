"""An optimized function is called as the original: trees, keywords, static arguments, other shapes and types, methods."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402

import hnfc.jax  # noqa: E402
from hnfc.core.errors import ModelError, UsageError  # noqa: E402
from tests.jax.comparing import optimized, rules  # noqa: E402

X = np.array([0.5, -1.0, 3.0], np.float32)


def softplus(x: Any) -> Any:
    return jnp.log(1 + jnp.exp(x))


@pytest.mark.slow
def test_each_kind_of_call_has_a_form() -> None:
    better = optimized(softplus, X)
    assert better(1000 * X)[2] == 3000
    assert better(np.float32(500)) == 500
    assert better(700.0) == 700
    assert better(jnp.ones((2, 2), jnp.bfloat16)).dtype == jnp.bfloat16
    assert [form.inputs for form in better.forms] == [("x: float32[3]",), ("x: float32[]",), ("x: float32[]",), ("x: bfloat16[2, 2]",)]


def test_trees_keywords_and_static_arguments() -> None:
    @hnfc.jax.optimize(rules=rules(), static_argnames="how")
    def function(tree: Any, *, scale: Any = 1.0, how: str = "sum") -> Any:
        """Documentation."""
        found = {"a": softplus(tree["x"]) * scale}
        return found if how == "tree" else found["a"].sum()

    assert function.__doc__ == "Documentation."
    assert function({"x": 1000 * X}, how="tree")["a"].tolist() == [500, 0, 3000]
    np.testing.assert_allclose(function({"x": X}, scale=2.0), 2 * np.log1p(np.exp(X)).sum(), rtol=1e-6)
    np.testing.assert_allclose(jax.grad(lambda x: function({"x": x}))(X), jax.nn.sigmoid(X), rtol=1e-6)


@pytest.mark.slow
def test_numbers_that_decide_what_is_computed() -> None:
    def function(x: Any, count: int, negative: bool = False) -> Any:
        for _ in range(count):
            x = softplus(x)
        return -x if negative else x

    better = optimized(function)
    for count, negative in ((1, False), (2, False), (1, True)):
        np.testing.assert_allclose(better(X, count, negative), function(X, count, negative), rtol=1e-6)
    assert len(better.forms) == 3


@pytest.mark.slow
def test_methods_and_transformations_around_it() -> None:
    class Layer:
        scale = 2.0

        @hnfc.jax.optimize(rules=rules())
        def __call__(self, x: Any) -> Any:
            return softplus(x) * self.scale

    layer = Layer()
    np.testing.assert_allclose(jax.jit(jax.vmap(layer.__call__))(X), 2 * np.log1p(np.exp(X)), rtol=1e-6)
    scanned = jax.lax.scan(lambda carry, x: (layer.__call__(carry) + x, carry), jnp.float32(0), X)[0]
    assert np.isfinite(scanned)
    again = jax.checkpoint(layer.__call__)
    np.testing.assert_allclose(jax.grad(again)(jnp.float32(90)), 2.0)


@pytest.mark.slow
def test_sixty_four_bits_both_ways() -> None:
    better = optimized(softplus, X)
    with jax.enable_x64(True):
        found = better(np.float64(-40.0))
        assert found.dtype == "float64"
        np.testing.assert_allclose(found, np.log1p(np.exp(-40.0)), rtol=1e-14)
    assert better(np.float64(-40.0)).dtype == "float32"


def test_ranges_by_name() -> None:
    better = optimized(lambda a, b: jnp.log(a * b), jnp.float32(2), jnp.float32(3), ranges={"a": (1, 2)})
    assert len(better.forms) == 1
    with pytest.raises(UsageError, match="there is no input `c`; the inputs are a, b"):
        optimized(lambda a, b: a * b, jnp.float32(2), jnp.float32(3), ranges={"c": (1, 2)})


def test_what_cannot_be_optimized() -> None:
    with pytest.raises(UsageError, match="takes a function of JAX, not int"):
        hnfc.jax.optimize(3, rules=rules())
    with pytest.raises(ModelError, match="neither an array nor hashable"):
        optimized(lambda x, y: x, X, np.array(["a"]))


def test_forms_are_kept_apart_by_what_surrounds_a_call() -> None:
    better = optimized(lambda x: softplus(x) / jax.lax.psum(1, "rows"))
    for count in (2, 3):
        found = jax.vmap(better, axis_name="rows")(jnp.zeros((count, 2)))
        np.testing.assert_allclose(found, np.log(2) / count, rtol=1e-6)
