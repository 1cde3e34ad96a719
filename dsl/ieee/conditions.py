"""Mask of the samples that meet `where`.

Comparisons are those of IEEE 754 on the exact values of the inputs: a NaN meets no comparison but ≠. A literal is compared
exactly; a computed operand is computed in float64.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from hnfc.dsl.core import (
    ALL,
    AllOf,
    AnyOf,
    Capture,
    Comparison,
    Condition,
    Expr,
    Free,
    Literal,
    Not,
    Property,
    Rule,
    SameSize,
    Size,
    condition_parts,
)
from hnfc.dsl.ieee.arithmetic import NotComputed
from hnfc.dsl.ieee.evaluate import Batch, Evaluator
from hnfc.dsl.ieee.formats import BINARY, Array, nearest
from hnfc.dsl.ieee.moves import aligned, places, rank

_ORDER: dict[str, Callable[[Any, Any], Any]] = {
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
}  # fmt: skip
_MIRRORED = {"eq": "eq", "ne": "ne", "lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}


def is_exact(condition: Condition) -> bool:
    """Return whether `meets` decides the condition without rounding: no operand of a comparison is computed."""
    parts = [part for part in condition_parts(condition) if isinstance(part, Comparison)]
    return all(isinstance(x, Capture | Literal | Size) for part in parts for x in (part.x, part.y))


def meets(rule: Rule, batch: Batch) -> Array:
    """A truth value for each sample. Raises ShapeMismatch, Unsupported or Mismatch."""
    evaluator = Evaluator(replace(batch, typing=batch.typing.widened))
    with np.errstate(all="ignore"):
        return np.broadcast_to(_holds(rule.where, evaluator, batch), (batch.size,))


def _holds(condition: Condition, evaluator: Evaluator, batch: Batch) -> Any:
    match condition:
        case AllOf(parts):
            return _combined(np.logical_and, True, parts, evaluator, batch)
        case AnyOf(parts):
            return _combined(np.logical_or, False, parts, evaluator, batch)
        case Not(part):
            return ~_holds(part, evaluator, batch)
        case Comparison(predicate, x, y):
            return _everywhere(_compared(predicate, x, y, evaluator))
        case Free(operand, axes):
            values = evaluator.value(operand)
            return np.array([all(values.shape[at] == 1 for at in places(values, evaluator.places(axes)))])
        case SameSize(left, right, axes) if axes == (ALL,):
            return np.array([evaluator.value(left).shape[1:] == evaluator.value(right).shape[1:]])
        case SameSize(left, right, axes):
            return np.array([all(evaluator.size_of(left, (a,)) == evaluator.size_of(right, (a,)) for a in evaluator.places(axes))])
        case Property(name, operands, arguments):
            return _property(name, operands, arguments, evaluator, batch)
    raise NotComputed(f"the condition {condition}")


def _combined(combine: Any, start: bool, parts: tuple[Condition, ...], evaluator: Evaluator, batch: Batch) -> Any:
    result = np.array([start])
    for part in parts:
        result = combine(result, _holds(part, evaluator, batch))
    return result


def _property(name: str, operands: tuple[Expr, ...], arguments: tuple[Any, ...], evaluator: Evaluator, batch: Batch) -> Any:
    (operand,) = operands[:1]
    if name == "rank":
        predicate, number = arguments
        return np.array([_ORDER[predicate](rank(evaluator.value(operand)), number)])
    if name == "dtype":
        return np.array([batch.typing.of(operand) == arguments[0]])
    if name == "finite":
        return _everywhere(np.isfinite(evaluator.value(operand)))
    if name == "integral":
        x = evaluator.value(operand)
        return _everywhere(np.isfinite(x) & (x == np.trunc(x)))
    raise NotComputed(f"the condition {name}(…)")


def _everywhere(values: Array) -> Array:
    return np.asarray(values.reshape(values.shape[0], -1).all(axis=1))


def _compared(predicate: str, x: Expr, y: Expr, evaluator: Evaluator) -> Array:
    if isinstance(x, Literal) and not isinstance(y, Literal):
        return _compared(_MIRRORED[predicate], y, x, evaluator)
    left = evaluator.value(x)
    if isinstance(y, Literal) and isinstance(y.value, Fraction):
        return _against_number(predicate, left, y.value)
    left, right = aligned([left, evaluator.value(y)])
    return np.asarray(_ORDER[predicate](left, right))


def _against_number(predicate: str, x: Array, number: Fraction) -> Array:
    """x compared with the number itself, which may lie between two of float64."""
    near = nearest(number, BINARY["f64"])
    found = np.asarray(_ORDER[predicate](x, near))
    if math.isinf(near) or Fraction(near) == number:
        return found
    return np.where(x == near, _ORDER[predicate](Fraction(near), number), found)
