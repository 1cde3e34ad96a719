"""Both sides of a rule at one point: do they agree, and does the point meet the conditions?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from flint import arb

from hnfc.dsl.core import (
    ALL,
    ORTHOGONAL,
    AllOf,
    AnyOf,
    Capture,
    Comparison,
    Condition,
    Free,
    Not,
    Property,
    Rule,
    SameSize,
    condition_parts,
)
from hnfc.dsl.soundness import balls
from hnfc.dsl.soundness.array_moves import OutOfBounds
from hnfc.dsl.soundness.balls import (
    MATH,
    OF_MATRICES,
    UNDECIDED,
    UNDEFINED,
    Balls,
    NoMatrix,
    ShapeMismatch,
    evaluate,
    positions,
    surely_different,
)
from hnfc.dsl.soundness.element_roundings import is_number_of
from hnfc.dsl.soundness.sampling import F, Point
from hnfc.dsl.soundness.scan import EXPLICIT, VALUES, orthogonal_captures

DECIDED = ("integral", "rank", ORTHOGONAL)

REAL = (*DECIDED, "dtype", "finite", VALUES, EXPLICIT.name)
"""Properties that are decided here, or that every real number has."""


def floating_properties(condition: Condition) -> bool:
    """The condition speaks of what only floating-point numbers do, so that no sample shows whether it holds."""
    return any(isinstance(part, Property) and part.name not in REAL for part in condition_parts(condition))


def holds(condition: Condition, point: Point, tensors: dict[str, Balls]) -> bool | None:
    """Return whether the inputs surely meet the condition (None: unsure). Undefined operands do not meet it."""
    match condition:
        case Comparison(predicate, x, y):
            left, right = (evaluate(e, tensors, point.axes, 0) for e in (x, y))
            values = set(MATH.compare(predicate, left, right).values.reshape(-1).tolist())
            return False if False in values or UNDEFINED in values else None if UNDECIDED in values else True
        case Free(operand, axes):
            shape = evaluate(operand, tensors, point.axes, 0).shape
            return all(shape[p] == 1 for p in positions(balls.resolve(axes, point.axes), len(shape)))
        case SameSize(x, y, axes):
            shapes = [evaluate(e, tensors, point.axes, 0).shape for e in (x, y)]
            if axes == (ALL,):
                return shapes[0] == shapes[1]
            return all(size_at(shapes[0], a) == size_at(shapes[1], a) for a in balls.resolve(axes, point.axes))
        case AllOf(parts):
            found = [holds(part, point, tensors) for part in parts]
            return False if False in found else None if None in found else True
        case AnyOf(parts):
            found = [holds(part, point, tensors) for part in parts]
            return True if True in found else None if None in found else False
        case Not(Property(name)) if name not in DECIDED:
            return True
        case Not(part):
            value = holds(part, point, tensors)
            return None if value is None else not value
        case Property("integral", (Capture(name),)):
            return all(F(v).denominator == 1 for v in point.inputs[name].reshape(-1).tolist())
        case Property("values", (Capture(name),), elements):
            given = point.inputs[name].reshape(-1).tolist()
            return any(all(is_number_of(F(v), element) for v in given) for element in elements)
        case Property(name, (Capture(matrix),)) if name == ORTHOGONAL:
            return is_orthogonal(point.inputs[matrix])
        case Property("rank", (operand,), (predicate, number)):
            rank = len(evaluate(operand, tensors, point.axes, 0).shape)
            order = (rank > number) - (rank < number)
            return order in {"eq": (0,), "ne": (-1, 1), "lt": (-1,), "le": (-1, 0), "gt": (1,), "ge": (0, 1)}[predicate]
    return True


def is_orthogonal(matrices: np.ndarray[Any, Any]) -> bool:
    """Return whether the last two axes hold square matrices h with h·hᵀ = 1, exactly."""
    if matrices.ndim < 2 or matrices.shape[-1] != matrices.shape[-2]:
        return False
    size = matrices.shape[-1]
    for h in matrices.reshape(-1, size, size).tolist():
        for i in range(size):
            for j in range(i, size):
                if sum((F(h[i][k]) * F(h[j][k]) for k in range(size)), F(0)) != int(i == j):
                    return False
    return True


def _may_enlarge(rule: Rule, name: str, point: Point, left: Balls) -> bool:
    """Return whether it may be due to the shape of this parameter that the right side has more elements or axes."""
    value = point.inputs[name]
    return value.ndim > 2 if name in orthogonal_captures(rule) else value.size > 1 or value.ndim > len(left.shape)


def first_defined(values: Balls) -> tuple[int, ...]:
    return next(place for place in np.ndindex(values.shape) if values.values[place] not in (UNDEFINED, UNDECIDED))


def broadcasts_to(shape: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    try:
        return np.broadcast_shapes(shape, wanted) == wanted
    except ValueError:
        return False


def size_at(shape: tuple[int, ...], axis: int) -> int:
    return shape[axis] if -len(shape) <= axis < len(shape) else 1


@dataclass
class PointOutcome:
    """Both sides at one point. index: where they differ. typed: whether the right side has a type for these shapes."""

    left: Balls
    right: Balls
    index: tuple[int, ...] | None
    agreed: bool
    defined: bool
    typed: bool = True


def outcome(rule: Rule, point: Point, flipped: bool = False) -> PointOutcome | None:
    """None where the point does not meet `where`, or a side has no type."""
    try:
        tensors = point.tensors()
        if holds(rule.where, point, tensors) is not True:
            return None
        left = evaluate(rule.replacement if flipped else rule.pattern, tensors, point.axes, 0, OF_MATRICES)
        if all(v is UNDEFINED or v is UNDECIDED for v in left.values.reshape(-1).tolist()):
            return PointOutcome(left, left, None, False, False)
        try:
            right = evaluate(rule.pattern if flipped else rule.replacement, tensors, point.axes, 0, OF_MATRICES)
        except OutOfBounds:
            right = Balls(UNDEFINED)
        except ERRORS:
            return PointOutcome(left, Balls(UNDEFINED), first_defined(left), False, True, typed=False)
        if not broadcasts_to(right.shape, left.shape) and any(_may_enlarge(rule, name, point, left) for name in rule.parameters):
            # no value for the parameters that leaves the result its type
            return PointOutcome(left, Balls(UNDEFINED), first_defined(left), False, True, typed=False)
        if not broadcasts_to(right.shape, left.shape):
            right = Balls(UNDEFINED)  # it has another shape
        right = Balls(np.broadcast_to(right.values, left.shape))
    except (*ERRORS, NoMatrix):
        return None
    agreed, defined, index = True, False, None
    for place in np.ndindex(left.shape):
        x: Any = left.values[place]
        y: Any = right.values[place]
        if x is UNDEFINED or x is UNDECIDED:
            continue
        defined = True
        if y is UNDEFINED or surely_different(x, y):
            index = index if index is not None else place
        elif y is UNDECIDED:
            agreed = False
    return PointOutcome(left, right, index, agreed and index is None, defined)


def difference(found: PointOutcome) -> float:
    """The largest |left - right| where both are defined; inf where only the left is."""
    worst = 0.0
    for x, y in zip(found.left.values.reshape(-1), found.right.values.reshape(-1), strict=True):
        if isinstance(x, balls.Mark) or y is UNDECIDED:
            continue
        if y is UNDEFINED:
            return float("inf")
        worst = max(worst, float(abs(arb(x) - arb(y)).abs_lower()))
    return worst


ERRORS = (ShapeMismatch, ValueError, IndexError)
