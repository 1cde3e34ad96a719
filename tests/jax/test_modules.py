"""Modules of Flax (linen and nnx) and of Equinox: optimized and trained, they are what the originals are but for rounding."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402

from tests.jax.comparing import optimized, rewrites  # noqa: E402

RANDOM = np.random.default_rng(0)
IMAGES = jnp.asarray(RANDOM.standard_normal((4, 8, 8, 1)), jnp.float32)
X = jnp.asarray(RANDOM.standard_normal((8, 5)), jnp.float32)
LABELS = jnp.asarray(RANDOM.integers(0, 3, 8))


def cross_entropy(logits: Any, labels: Any) -> Any:
    e = jnp.exp(logits)
    chosen = jax.nn.one_hot(labels, 3) * jnp.log(e / e.sum(-1, keepdims=True))
    return -chosen.sum(-1).mean()


def trained(loss: Any, parameters: Any, steps: int = 20) -> Any:
    step = jax.jit(lambda p: jax.tree.map(lambda x, g: x - 0.1 * g, p, jax.grad(loss)(p)))
    for _ in range(steps):
        parameters = step(parameters)
    return parameters


def assert_same(first: Any, second: Any) -> None:
    for a, b in zip(jax.tree.leaves(first), jax.tree.leaves(second), strict=True):
        if jnp.issubdtype(a.dtype, jnp.floating):
            np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["mlp", "cnn"])
def test_linen(kind: str) -> None:
    linen = pytest.importorskip("flax.linen")

    class Model(linen.Module):
        @linen.compact
        def __call__(self, x: Any) -> Any:
            if kind == "cnn":
                x = linen.avg_pool(linen.relu(linen.Conv(4, (3, 3))(x)), (2, 2)).reshape(x.shape[0], -1)
            return linen.Dense(3)(jnp.log(1 + jnp.exp(linen.Dense(8)(x))))

    model, x = Model(), X if kind == "mlp" else IMAGES
    start = model.init(jax.random.key(0), x)

    def loss(parameters: Any) -> Any:
        return cross_entropy(model.apply(parameters, x), LABELS[: len(x)])

    better = optimized(loss, start)
    assert {"softmax_fusion", "softplus_fusion"} <= rewrites(better)
    assert_same(trained(better, start), trained(loss, start))


@pytest.mark.slow
def test_nnx_keeps_its_state() -> None:
    nnx = pytest.importorskip("flax.nnx")

    class Model(nnx.Module):
        def __init__(self, rngs: Any) -> None:
            self.first = nnx.Linear(5, 8, rngs=rngs)
            self.norm = nnx.BatchNorm(8, rngs=rngs)
            self.dropout = nnx.Dropout(0.5, rngs=rngs)
            self.last = nnx.Linear(8, 3, rngs=rngs)

        def __call__(self, x: Any) -> Any:
            return self.last(self.dropout(jnp.log(1 + jnp.exp(self.norm(self.first(x))))))

    models = Model(nnx.Rngs(0)), Model(nnx.Rngs(0))
    better = optimized(lambda model, x: cross_entropy(model(x), LABELS))
    losses = (lambda model: cross_entropy(model(X), LABELS)), (lambda model: better(model, X))
    for model, loss in zip(models, losses, strict=True):
        for _ in range(5):
            gradients = nnx.grad(loss)(model)
            nnx.update(model, jax.tree.map(lambda p, g: p - 0.1 * g, nnx.state(model, nnx.Param), gradients))
    assert "softplus_fusion" in rewrites(better)
    assert_same(nnx.state(models[0]), nnx.state(models[1]))
    assert models[0].dropout.rngs.count[...] == models[1].dropout.rngs.count[...] == 5


@pytest.mark.slow
def test_nnx_module_itself() -> None:
    nnx = pytest.importorskip("flax.nnx")
    model = nnx.Sequential(nnx.Linear(5, 3, rngs=nnx.Rngs(0)), lambda x: jnp.log(1 + jnp.exp(x)))
    better = optimized(model, X)
    np.testing.assert_allclose(better(X), model(X), rtol=1e-5, atol=1e-6)
    model.layers[0].bias[...] += 1000.0
    assert np.isfinite(better(X)).all() and len(better.forms) == 1


@pytest.mark.slow
def test_states_that_change_places() -> None:
    nnx = pytest.importorskip("flax.nnx")

    class Model(nnx.Module):
        def __init__(self) -> None:
            self.a, self.b, self.c = nnx.Variable(jnp.float32(1)), nnx.Variable(jnp.float32(2)), nnx.Variable(jnp.float32(3))

        def __call__(self, x: Any) -> Any:
            self.a[...], self.b[...] = self.b[...], self.a[...]
            self.c[...] = 0.0
            return jnp.log(1 + jnp.exp(x * self.a[...]))

    models = Model(), Model()
    better = optimized(models[1])
    for _ in range(3):
        np.testing.assert_allclose(better(X), models[0](X), rtol=1e-4)
        assert_same(nnx.state(models[0]), nnx.state(models[1]))
    assert better.forms[0].function is not None


@pytest.mark.slow
def test_equinox() -> None:
    equinox = pytest.importorskip("equinox")
    model = equinox.nn.MLP(5, 3, 8, 2, activation=lambda x: jnp.log(1 + jnp.exp(x)), key=jax.random.key(0))
    arrays, rest = equinox.partition(model, equinox.is_array)

    def loss(arrays: Any) -> Any:
        return cross_entropy(jax.vmap(equinox.combine(arrays, rest))(X), LABELS)

    better = optimized(loss, arrays)
    assert {"softmax_fusion", "softplus_fusion"} <= rewrites(better)
    assert_same(trained(better, arrays, 50), trained(loss, arrays, 50))
    whole = optimized(lambda model, x: cross_entropy(jax.vmap(model)(x), LABELS))
    assert_same(equinox.filter_grad(whole)(model, X), jax.grad(loss)(arrays))
