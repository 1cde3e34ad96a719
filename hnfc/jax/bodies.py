"""Functions that an equation calls: bodies of loops, branches, regions that are computed again. Each is rewritten by itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias

import jax.extend.core as jex

from hnfc.core.errors import ModelError
from hnfc.jax.steps import Equations, EquationStep

_HELD = {"scan": ("jaxpr",), "while": ("cond_jaxpr", "body_jaxpr"), "cond": ("branches",), "checkpoint": ("jaxpr",), "remat2": ("jaxpr",),
         "jit": ("jaxpr",), "pjit": ("jaxpr",)}  # fmt: skip
"""Primitives whose functions may be replaced by equal ones, and the parameters that hold these."""


Rewrite: TypeAlias = Callable[[Any, str], Any]
"""Function of a closed jaxpr and a name to an outcome, whose `function` is a closed jaxpr, or None where nothing changed."""


def with_bodies(program: Equations, rewrite: Rewrite) -> tuple[Equations, list[tuple[str, Any]]]:
    """The program with rewritten bodies, and the record of each that changed."""
    steps, records = [], list[tuple[str, Any]]()
    for step in program.steps:
        steps.append(_with_bodies(step, rewrite, records) if not step.parts else step)
    return (replace(program, steps=steps) if records else program), records


def _with_bodies(step: EquationStep, rewrite: Rewrite, records: list[tuple[str, Any]]) -> EquationStep:
    equation = step.equation
    params, before = dict(equation.params), len(records)
    for name in _HELD.get(equation.primitive.name, ()):
        held = params[name]
        if isinstance(held, tuple):
            params[name] = tuple(_better(body, equation, rewrite, records) for body in held)
        else:
            params[name] = _better(held, equation, rewrite, records)
    return replace(step, equation=equation.replace(params=params)) if len(records) > before else step


def _better(held: Any, equation: Any, rewrite: Rewrite, records: list[tuple[str, Any]]) -> Any:
    """The function in the form that its equation holds it in; the same where nothing changed."""
    closed = held if isinstance(held, jex.ClosedJaxpr) else jex.ClosedJaxpr(held, ())
    if closed.jaxpr.effects:
        return held
    title = equation.primitive.name
    try:
        body = rewrite(closed, title)
    except ModelError:
        return held
    if body.function is None or body.function.consts:
        return held
    records.append((f"the {'body' if title in _LOOPS else 'function'} of `{title}`", body))
    return body.function if isinstance(held, jex.ClosedJaxpr) else body.function.jaxpr


_LOOPS = ("scan", "while")
