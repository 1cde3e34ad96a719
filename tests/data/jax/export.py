"""Writes the StableHLO files beside this one, which tests read: `python tests/data/jax/export.py` in the repository, with JAX.

The functions are written as in textbooks, not as JAX's own library has them.
"""

from __future__ import annotations

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

jax.config.update("jax_hlo_source_file_canonicalization_regex", r".*/(?=tests/data/jax/)")
jax.config.update("jax_traceback_in_locations_limit", 1)
HERE = Path(__file__).parent


def softmax(x):
    e = jnp.exp(x)
    return e / jnp.sum(e, axis=-1, keepdims=True)


def logsumexp(x):
    return jnp.log(jnp.sum(jnp.exp(x), axis=-1))


def attention(q, k, v):
    scores = jnp.einsum("bhqd,bhkd->bhqk", q, k) / np.sqrt(q.shape[-1])
    return jnp.einsum("bhqk,bhkd->bhqd", softmax(scores), v)


def layer_norm(x, scale, shift):
    mean = jnp.mean(x, axis=-1, keepdims=True)
    variance = jnp.mean((x - mean) ** 2, axis=-1, keepdims=True)
    return (x - mean) / jnp.sqrt(variance + 1e-5) * scale + shift


def cross_entropy(logits, labels):
    """Of labels as one-hot rows."""
    return -jnp.mean(jnp.sum(labels * jnp.log(softmax(logits)), axis=-1))


def picked(logits, labels):
    """Of labels as numbers of classes."""
    return -jnp.mean(jnp.log(jnp.take_along_axis(softmax(logits), labels[:, None], axis=1)))


def mlp(params, x):
    hidden = jax.nn.gelu(x @ params["w1"] + params["b1"])
    return softmax(hidden @ params["w2"] + params["b2"])


def block(x, table, w):
    """A look-up, attention over itself with a causal mask, and a convolution."""
    rows = table[x]
    scores = jnp.where(jnp.tril(jnp.ones((6, 6), bool)), rows @ rows.swapaxes(-1, -2), -1e9)
    mixed = softmax(scores) @ rows
    return jax.lax.conv_general_dilated(mixed, w, (1,), "SAME", dimension_numbers=("NWC", "WIO", "NWC"))


def looped(x):
    """With a loop and a sort, which torch has no operations for."""
    sums, _ = jax.lax.scan(lambda carry, row: (carry + jnp.exp(row), None), jnp.zeros(x.shape[1]), x)
    return jnp.sort(softmax(x), axis=-1), sums


def array(*shape, dtype=jnp.float32):
    return jax.ShapeDtypeStruct(shape, dtype)


(batch,) = jax.export.symbolic_shape("batch")
heads = array(1, 2, 8, 16)
EXPORTED = {
    "softmax": (softmax, array(4, 8)),
    "logsumexp": (logsumexp, array(4, 8)),
    "attention": (attention, heads, heads, heads),
    "layer_norm": (layer_norm, array(4, 8), array(8), array(8)),
    "cross_entropy": (cross_entropy, array(4, 8), array(4, 8)),
    "picked": (picked, array(4, 8), array(4, dtype=jnp.int32)),
    "mlp": (mlp, {"w1": array(8, 16), "b1": array(16), "w2": array(16, 4), "b2": array(4)}, array(3, 8)),
    "block": (block, array(2, 6, dtype=jnp.int32), array(10, 8), array(3, 8, 5)),
    "looped": (looped, array(4, 8)),
    "batched": (softmax, array(batch, 8)),
    "batched_attention": (attention, *[array(batch, 2, 8, 16)] * 3),
}

if __name__ == "__main__":
    for name, (function, *arguments) in EXPORTED.items():
        exported = jax.export.export(jax.jit(function), platforms=["cpu"])(*arguments)
        (HERE / f"{name}.mlir").write_text(exported.mlir_module(), encoding="utf-8")
        if name == "attention":
            (HERE / f"{name}.mlirbc").write_bytes(exported.mlir_module_serialized)
