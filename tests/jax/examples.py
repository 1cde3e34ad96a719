"""Functions of JAX of every kind, with arguments: NumPy-like ones, control flow, linear algebra, look-ups, random numbers, derivatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

_RANDOM = np.random.default_rng(0)
EXAMPLES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {}


def drawn(*shape: int) -> Any:
    return jnp.asarray(_RANDOM.standard_normal(shape), jnp.float32)


def add(name: str, function: Callable[..., Any], *arguments: Any) -> None:
    EXAMPLES[name] = function, arguments


def softmax(x: Any) -> Any:
    e = jnp.exp(x)
    return e / e.sum(-1, keepdims=True)


@jax.custom_vjp
def clipped(x: Any) -> Any:
    return jnp.log(1 + jnp.exp(x))


clipped.defvjp(lambda x: (clipped(x), x), lambda x, g: (jnp.clip(g, -0.1, 0.1),))


@jax.custom_jvp
def rounded(x: Any) -> Any:
    return jnp.round(x)


rounded.defjvps(lambda t, o, x: t)

add("softmax", softmax, drawn(3, 4))
add("logsumexp", lambda x: jnp.log(jnp.sum(jnp.exp(x), -1)), drawn(3, 4))
add("sigmoid", lambda x: 1 / (1 + jnp.exp(-x)), drawn(5))
add("softplus", lambda x: jnp.log(1 + jnp.exp(x)), drawn(5))
add("log1p", lambda x: jnp.log(1 + x * x), drawn(5))
add("expm1", lambda x: jnp.exp(x) - 1, drawn(5))
add("attention", lambda q, k, v: softmax(q @ k.T / 2) @ v, drawn(5, 4), drawn(6, 4), drawn(6, 3))
add("variance", lambda x: jnp.mean(x * x, -1) - jnp.mean(x, -1) ** 2, drawn(4, 6))
add(
    "layernorm",
    lambda x, g, b: (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5) * g + b,
    drawn(4, 6),
    drawn(6),
    drawn(6),
)
add("rmsnorm", lambda x, g: x / jnp.sqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * g, drawn(4, 6), drawn(6))
add("log_softmax", lambda x: jnp.log(softmax(x)), drawn(3, 4))
add("log_nn_softmax", lambda x: jnp.log(jax.nn.softmax(x)), drawn(3, 4))
add("xent", lambda x, y: -jnp.sum(jax.nn.one_hot(y, 4) * jnp.log(softmax(x)), -1).mean(), drawn(3, 4), jnp.array([0, 1, 3]))
add(
    "bce",
    lambda x, y: -(y * jnp.log(jax.nn.sigmoid(x)) + (1 - y) * jnp.log(1 - jax.nn.sigmoid(x))).mean(),
    drawn(8),
    (drawn(8) > 0).astype(jnp.float32),
)
add("norm", lambda x: jnp.sqrt(jnp.sum(x * x, -1)), drawn(3, 4))
add("hypot", lambda x, y: jnp.sqrt(x * x + y * y), drawn(5), drawn(5))
add("tanh_naive", lambda x: (jnp.exp(x) - jnp.exp(-x)) / (jnp.exp(x) + jnp.exp(-x)), drawn(5))
add("gelu", lambda x: jax.nn.gelu(x), drawn(5))
add("silu", lambda x: x / (1 + jnp.exp(-x)), drawn(5))
add("mish", lambda x: x * jnp.tanh(jnp.log(1 + jnp.exp(x))), drawn(5))
add("relu", lambda x: jax.nn.relu(x) + jnp.maximum(x, 0) + jnp.where(x > 0, x, 0), drawn(5))
add("scan_rnn", lambda x, w: lax.scan(lambda c, a: ((c := jnp.tanh(a + c @ w)), c.sum()), jnp.zeros(3), x), drawn(6, 3), drawn(3, 3))
add("scan_lse", lambda x: lax.scan(lambda c, a: (jnp.log(jnp.exp(c) + jnp.exp(a)), c), 0.0, x), drawn(6))
add("while", lambda x: lax.while_loop(lambda s: s[0] < 5, lambda s: (s[0] + 1, jnp.log(1 + jnp.exp(s[1]))), (0, x)), drawn(4))
add("fori", lambda x: lax.fori_loop(0, 4, lambda i, s: s + 1 / (1 + jnp.exp(-s)), x), drawn(4))
add("cond", lambda x: lax.cond(x.sum() > 0, lambda x: jnp.log(1 + jnp.exp(x)), lambda x: x * 2, x), drawn(4))
add("switch", lambda x: lax.switch(2, [jnp.sin, lambda x: jnp.exp(x) - 1, lambda x: jnp.log(1 + x * x)], x), drawn(4))
add("cholesky", lambda x: jnp.linalg.cholesky(x @ x.T + jnp.eye(3) * 3), drawn(3, 3))
add("solve", lambda a, b: jnp.linalg.solve(a @ a.T + jnp.eye(3), b), drawn(3, 3), drawn(3))
add("logdet", lambda a: jnp.log(jnp.linalg.det(a @ a.T + jnp.eye(3))), drawn(3, 3))
add("slogdet", lambda a: jnp.linalg.slogdet(a @ a.T + jnp.eye(3))[1], drawn(3, 3))
add("eigh", lambda a: jnp.linalg.eigh(a + a.T)[0], drawn(3, 3))
add("svd", lambda a: jnp.linalg.svd(a, compute_uv=False), drawn(3, 4))
add("qr", lambda a: jnp.linalg.qr(a)[1], drawn(3, 3))
add("inv", lambda a: jnp.linalg.inv(a + 3 * jnp.eye(3)), drawn(3, 3))
add("fft", lambda x: jnp.abs(jnp.fft.fft(x)) ** 2, drawn(8))
add("rfft_log", lambda x: jnp.log(1 + jnp.abs(jnp.fft.rfft(x)) ** 2), drawn(8))
add("sort", lambda x: jnp.sort(x) * jnp.log(1 + jnp.exp(x)), drawn(8))
add("argsort", lambda x: softmax(x)[jnp.argsort(x)], drawn(8))
add("topk", lambda x: lax.top_k(softmax(x), 3), drawn(8))
add("gather", lambda x, i: softmax(x)[i], drawn(8), jnp.array([1, 3, 3]))
add("take_along", lambda x, i: jnp.take_along_axis(jnp.log(softmax(x)), i[:, None], 1), drawn(3, 4), jnp.array([1, 3, 2]))
add("scatter_add", lambda x, i: jnp.zeros(5).at[i].add(jnp.exp(x) - 1), drawn(3), jnp.array([0, 2, 2]))
add("scatter_set", lambda x: x.at[1].set(jnp.log(1 + jnp.exp(x[0]))), drawn(3))
add("segment_sum", lambda x, i: jax.ops.segment_sum(1 / (1 + jnp.exp(-x)), i, 3), drawn(4), jnp.array([0, 1, 1, 2]))
add("normal", lambda x, k: x + jnp.log(1 + jnp.exp(jax.random.normal(k, (4,)))), drawn(4), jax.random.key(1))
add("dropout", lambda x, k: jnp.where(jax.random.bernoulli(k, 0.5, x.shape), softmax(x) * 2, 0), drawn(4), jax.random.key(1))
add("oldkey", lambda x, k: softmax(x + jax.random.uniform(k, (4,))), drawn(4), jax.random.PRNGKey(1))
add("gumbel", lambda x, k: softmax(x - jnp.log(-jnp.log(jax.random.uniform(k, (4,), minval=1e-6)))), drawn(4), jax.random.key(1))
add("complex", lambda x: jnp.abs(jnp.exp(1j * x) - 1), drawn(4))
add("complex2", lambda x: jnp.real(jnp.exp(x * (1 + 2j))).sum(), drawn(4))
add("conv", lambda x, w: 1 / (1 + jnp.exp(-lax.conv(x, w, (1, 1), "SAME"))), drawn(1, 2, 5, 5), drawn(3, 2, 3, 3))
add(
    "conv_nhwc",
    lambda x, w: jnp.log(1 + jnp.exp(lax.conv_general_dilated(x, w, (2, 2), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")))),
    drawn(1, 6, 6, 2),
    drawn(3, 3, 2, 4),
)
add(
    "maxpool",
    lambda x: jnp.log(1 + jnp.exp(lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID"))),
    drawn(1, 4, 4, 2),
)
add("avgpool", lambda x: softmax(lax.reduce_window(x, 0.0, lax.add, (1, 2), (1, 2), "VALID") / 2), drawn(3, 6))
add("custom_vjp", lambda x: clipped(x) * softmax(x), drawn(4))
add("custom_jvp", lambda x: rounded(x) + jnp.log(1 + x * x), drawn(4))
add("ste_stop", lambda x: x + lax.stop_gradient(jnp.round(x) - x), drawn(4))
add("stop_cancel", lambda x: jnp.log(1 + jnp.exp(x + lax.stop_gradient(-x))), drawn(4))
add("remat", lambda x, w: jax.checkpoint(lambda x: jnp.log(1 + jnp.exp(x @ w)))(x).sum(), drawn(3, 3), drawn(3, 3))
add("einsum", lambda a, b: softmax(jnp.einsum("bij,bjk->bik", a, b)), drawn(2, 3, 4), drawn(2, 4, 3))
add("cumsum", lambda x: jnp.log(jnp.cumsum(jnp.exp(x))), drawn(5))
add("cumlogsumexp", lambda x: lax.cumlogsumexp(x), drawn(5))
add("where_nan", lambda x: jnp.where(x > 0, jnp.log(x), 0), drawn(5))
add("kl", lambda p, q: jnp.sum(softmax(p) * (jnp.log(softmax(p)) - jnp.log(softmax(q)))), drawn(4), drawn(4))
add("cosine", lambda a, b: (a @ b) / (jnp.sqrt(a @ a) * jnp.sqrt(b @ b)), drawn(4), drawn(4))
add("quadratic", lambda b, c: -b + jnp.sqrt(b * b - c), jnp.abs(drawn(4)) + 3, drawn(4))
add("lgamma", lambda x: jax.scipy.special.gammaln(jnp.abs(x) + 1) - jnp.log(jnp.abs(x) + 1), drawn(4))
add("pytree", lambda p: {"a": softmax(p["x"]) @ p["w"], "b": (p["x"].sum(),)}, {"x": drawn(3, 3), "w": drawn(3, 2)})
add("int", lambda x: (x // 2 + x % 3, x.astype(jnp.float32) / 2), jnp.arange(5))
add("bool", lambda x: jnp.any(x > 0) | jnp.all(x < 0), drawn(4))
add("f16", lambda x: softmax(x), drawn(3, 4).astype(jnp.float16))
add("bf16", lambda x: jnp.log(1 + jnp.exp(x)), drawn(3, 4).astype(jnp.bfloat16))
add(
    "bf16mix",
    lambda x, w: softmax((x @ w).astype(jnp.float32)).astype(jnp.bfloat16),
    drawn(3, 4).astype(jnp.bfloat16),
    drawn(4, 4).astype(jnp.bfloat16),
)
add("map", lambda x: lax.map(lambda a: jnp.log(1 + jnp.exp(a)).sum(), x), drawn(3, 4))
add("assoc_scan", lambda x: lax.associative_scan(lambda a, b: jnp.logaddexp(a, b), x), drawn(6))
add("vmap_in", lambda x, w: jax.vmap(lambda a: softmax(a @ w))(x), drawn(3, 4), drawn(4, 4))
add("grad_in", lambda x: jax.grad(lambda y: jnp.sum(jnp.log(1 + jnp.exp(y))))(x), drawn(4))
add("jvp_in", lambda x: jax.jvp(lambda y: softmax(y), (x,), (jnp.ones_like(x),))[1], drawn(4))
