"""Functions of JAX in, rewritten functions out: ratios within one run, so that the machine's load counts little.

    python benchmarks/jax_speed.py [LAYERS]

optimize    the time of hnfc.jax.optimize over that of jit's own compilation, with its comparisons and without
unchanged   a transformer without anything to rewrite: time of a compiled call over that of the original
rewritten   the same with naive softmaxes
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

sys.path.insert(0, str(Path(__file__).parent.parent))

import hnfc.jax
from hnfc.pipeline.rulesets import load_rules

WIDTH = 64
ROUNDS = 60


def parameters(layers: int) -> list[dict[str, Any]]:
    shapes = {"q": (WIDTH, WIDTH), "k": (WIDTH, WIDTH), "v": (WIDTH, WIDTH), "o": (WIDTH, WIDTH), "up": (WIDTH, 4 * WIDTH),
              "down": (4 * WIDTH, WIDTH)}  # fmt: skip
    keys = iter(jax.random.split(jax.random.key(0), layers * len(shapes)))
    return [{name: jax.random.normal(next(keys), shape) / shape[0] ** 0.5 for name, shape in shapes.items()} for _ in range(layers)]


def normalized(x: Any) -> Any:
    return x / jnp.sqrt(jnp.sum(x * x, -1, keepdims=True) + 1e-6)


def naive(scores: Any) -> Any:
    e = jnp.exp(scores)
    return e / e.sum(-1, keepdims=True)


def transformer(layers: list[dict[str, Any]], x: Any, softmax: Callable[[Any], Any] = jax.nn.softmax) -> Any:
    for p in layers:
        h = normalized(x)
        q, k, v = (((h @ p[name]).reshape(len(x), 4, -1)).transpose(1, 0, 2) for name in "qkv")
        mixed = softmax(q @ k.transpose(0, 2, 1)) @ v
        x = x + mixed.transpose(1, 0, 2).reshape(x.shape) @ p["o"]
        x = x + jax.nn.relu(normalized(x) @ p["up"]) @ p["down"]
    return x


def seconds(function: Callable[..., Any], *arguments: Any) -> float:
    start = time.perf_counter()
    jax.block_until_ready(function(*arguments))
    return time.perf_counter() - start


def per_call(functions: list[Callable[..., Any]], *arguments: Any) -> list[float]:
    """The fastest call of each, by turns."""
    taken: list[list[float]] = [[] for _ in functions]
    for _ in range(ROUNDS):
        for each, function in zip(taken, functions, strict=True):
            each.append(seconds(function, *arguments))
    return [min(each) for each in taken]


def main() -> None:
    layers = int(sys.argv[1]) if len(sys.argv) > 1 else 12
    rules, shown = load_rules("stability"), parameters(layers)
    x = jax.random.normal(jax.random.key(1), (32, WIDTH))
    for name, function in (("unchanged", transformer), ("rewritten", partial(transformer, softmax=naive))):
        compiling = seconds(lambda function=function: jax.jit(function).lower(shown, x).compile())
        ratios = []
        for validate in (True, False):
            start = time.perf_counter()
            better = hnfc.jax.optimize(function, shown, x, rules=rules, validate=validate)
            ratios.append((time.perf_counter() - start) / compiling)
        original, again = jax.jit(function), jax.jit(better)
        seconds(original, shown, x), seconds(again, shown, x)
        first, second = per_call([original, again], shown, x)
        count = better.forms[0].outcome.rewrites
        took = f"optimize {ratios[0]:.1f} × jit's compilation ({ratios[1]:.1f} × without comparisons)"
        print(f"{name:10} {layers} layers, {count} rewrites: {took}, a call {second / first:.3f} ×")


if __name__ == "__main__":
    main()
