"""Comparison of a function with its optimized form: values, gradients in both modes, vmap, jit."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import hnfc.jax
from hnfc.pipeline.rulesets import RuleSet, load_rules


@cache
def rules(group: str = "stability") -> RuleSet:
    return load_rules(group)


def optimized(function: Callable[..., Any], *samples: Any, **options: Any) -> Any:
    return hnfc.jax.optimize(function, *samples, rules=rules(), **options)


def rewrites(better: Any) -> set[str]:
    """The names of the rules that ran, in bodies too."""
    reports = [form.outcome.data for form in better.forms]
    reports += [body for report in reports for body in report["bodies"]]
    return {rewrite["rule"] for report in reports for rewrite in report["rewrites"]}


def assert_close(found: Any, wanted: Any, what: str) -> None:
    """Equal where the original is finite, but for rounding beside the largest element."""
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype), what
        unit = 2.0**-5 if a.dtype.itemsize == 2 else 2e-5
        x, y = (np.asarray(each).astype(np.complex128) for each in (a, b))
        finite = np.isfinite(y)
        largest = np.abs(y[finite]).max(initial=1e-2)
        assert np.all(np.abs(x - y)[finite] <= unit * largest), f"{what}: {x} and {y}"


def _direction(x: Any) -> Any:
    return jnp.cos(jnp.arange(x.size)).reshape(x.shape).astype(x.dtype)


def compare(function: Callable[..., Any], better: Callable[..., Any], arguments: tuple[Any, ...]) -> list[str]:
    """Compares all that JAX does with the function; what it can do."""
    done = ["values", "jit"]
    assert_close(better(*arguments), function(*arguments), "values")
    assert_close(jax.jit(better)(*arguments), jax.jit(function)(*arguments), "jit")
    moving = [i for i, x in enumerate(arguments) if all(jnp.issubdtype(leaf.dtype, jnp.floating) for leaf in jax.tree.leaves(x))]
    axes = tuple(0 if i in moving else None for i in range(len(arguments)))
    several = [jax.tree.map(lambda leaf: jnp.stack([leaf, 2 * leaf]), x) if i in moving else x for i, x in enumerate(arguments)]
    chosen = [arguments[i] for i in moving]

    def at(which: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any) -> Any:
            full = list(arguments)
            for i, x in zip(moving, given, strict=True):
                full[i] = x
            return [leaf for leaf in jax.tree.leaves(which(*full)) if jnp.issubdtype(leaf.dtype, jnp.inexact)]

        return call

    def total(which: Callable[..., Any]) -> Callable[..., Any]:
        weigh = lambda leaf: jnp.sum(jnp.real(leaf).astype(jnp.float32) * jnp.cos(jnp.arange(leaf.size)).reshape(leaf.shape))  # noqa: E731
        return lambda *given: sum(map(weigh, at(which)(*given)), jnp.float32(0))

    places = tuple(range(len(moving)))
    modes: dict[str, Callable[[Any], Any]] = {
        "vmap": lambda f: jax.vmap(f, in_axes=axes)(*several),
        "reverse": lambda f: jax.jit(jax.grad(total(f), places))(*chosen),
        "forward": lambda f: jax.jvp(at(f), tuple(chosen), tuple(jax.tree.map(_direction, chosen)))[1],
        "second": lambda f: jax.jit(
            jax.grad(lambda *xs: sum(jnp.sum(g * _direction(g)) for g in jax.tree.leaves(jax.grad(total(f), places)(*xs))), places)
        )(*chosen),
    }
    for name, run in modes.items():
        try:
            wanted = run(function)
        except (TypeError, ValueError, NotImplementedError):
            continue  # JAX itself cannot
        assert_close(run(better), wanted, name)
        done.append(name)
    return done
