"""A counterexample over the reals, step by step: every part of both sides at the inputs that refute the rule."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hnfc.dialects.facts import NoFormula
from hnfc.dsl import core
from hnfc.dsl.description import describe
from hnfc.dsl.soundness.array_moves import ShapeMismatch
from hnfc.dsl.soundness.balls import Balls, Unsupported, evaluate
from hnfc.dsl.soundness.elements import DEFAULT_PRECISION
from hnfc.dsl.soundness.refute import show
from hnfc.dsl.soundness.verdict import Counterexample, Tensor

_MOST = 12
"""Elements of a value that are shown."""


@dataclass(frozen=True)
class EvaluationStep:
    """A part of a side, and its value; the reason in the place of one that has none."""

    part: str
    value: str


def evaluation_steps(side: core.Expr, example: Counterexample) -> list[EvaluationStep]:
    """The parts of a side, operands first, with their values over the reals."""
    inputs, axes = example.fractions(), dict(example.axes)
    steps = []
    for node in core.walk(side):
        if isinstance(node, core.Apply):
            steps.append(EvaluationStep(describe(node), _value(node, inputs, axes)))
    return list(dict.fromkeys(steps)) or [EvaluationStep(describe(side), _value(side, inputs, axes))]


def _value(node: core.Expr, inputs: dict[str, np.ndarray[Any, Any]], axes: dict[str, tuple[int, ...]]) -> str:
    try:
        found = evaluate(node, inputs, axes, 2 * DEFAULT_PRECISION)
    except (Unsupported, NoFormula, ShapeMismatch, ValueError, TypeError, KeyError, IndexError) as error:
        return f"not computed ({error or type(error).__name__})"
    return _text(found)


def _text(value: Balls) -> str:
    elements = [show(x) for x in value.values.reshape(-1)[:_MOST]]
    if value.values.size <= _MOST:
        return str(Tensor(value.shape, tuple(elements)))
    return f"{', '.join(elements)} and {value.values.size - _MOST} more"
