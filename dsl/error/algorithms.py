"""The algorithms behind operations that are more than one rounding: `FACTS.steps`, what `FACTS.evaluate` computes, as an expression.

`FACTS.ulps` bounds the error of a function of one number relative to its result. For an operation along axes no such bound holds: the
error of a softmax grows with the number of elements and with x - max x (Blanchard, Higham, Higham: Accurately computing the
log-sum-exp and softmax functions, 2021). Its error is that of its algorithm.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from hnfc.dsl.core import Apply, Axes, Capture, Expr, Literal, Size
from hnfc.dsl.error.expression import call


class _StepExpressions:
    """Steps as expressions."""

    def __call__(self, name: str, *operands: Any, **attributes: Any) -> Expr:
        expressions = (x if isinstance(x, Apply | Capture | Literal | Size) else Literal(Fraction(x)) for x in operands)
        return call(name, *expressions, **attributes)

    def size(self, x: Expr, axes: Axes) -> Expr:
        return Size(x, axes)


def algorithm(node: Apply) -> Expr | None:
    """The operation in terms of smaller ones; None where it is one of those itself."""
    steps = node.facts.steps
    return None if steps is None else steps(_StepExpressions(), *node.operands, **dict(node.attributes))
