"""A function of JAX in, a function of JAX out, which is differentiated and compiled as any other."""

import jax
import jax.numpy as jnp

import hnfc.jax


def likelihood(scores: jax.Array, label: jax.Array) -> jax.Array:
    """The negative logarithm of a softmax written out: inf once scores are some 90 apart."""
    raised = jnp.exp(scores)
    return -jnp.log(raised[label] / raised.sum())


if __name__ == "__main__":
    scores, label = jnp.array([-120.0, 3.0, 40.0]), jnp.array(0)
    better = hnfc.jax.optimize(likelihood, scores, label)
    print("before", likelihood(scores, label), jax.grad(likelihood)(scores, label))
    print("after ", jax.jit(better)(scores, label), jax.grad(better)(scores, label))
    print(hnfc.jax.diff(likelihood, better))
