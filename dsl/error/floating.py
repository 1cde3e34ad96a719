"""An expression on NumPy arrays, each operation as `FACTS.evaluate` computes it, in the precision of the arrays."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from hnfc.dsl.core import Apply, Capture, DTypeOf, Expr, Literal, Size
from hnfc.dsl.error.algorithms import algorithm
from hnfc.dsl.error.side import is_constant
from hnfc.dsl.soundness import array_moves
from hnfc.dsl.soundness.balls import ShapeMismatch, positions

Array = np.ndarray[Any, np.dtype[Any]]


class CannotRun(Exception):
    """The expression has no value on these arrays; the message says why."""


def evaluate(expression: Expr, inputs: Mapping[str, Any], axes: Mapping[str, tuple[int, ...]], dtype: Any = np.float64) -> Array:
    """The value; arithmetic on numbers and constants is done in float64 and rounded once to `dtype`.

    Raises CannotRun where an operation has no evaluation, or shapes do not fit.
    """
    run = _Run(inputs, axes, np.dtype(dtype), np.dtype(dtype))
    with np.errstate(all="ignore"):
        try:
            return run.value(expression)
        except (ArithmeticError, AttributeError, IndexError, KeyError, NotImplementedError, ShapeMismatch, TypeError, ValueError) as error:
            raise CannotRun(f"{type(error).__name__}: {error}") from None


class _Run:
    """Values in `dtype`; `element` is the type of the arrays, which arithmetic on constants is rounded to in the end."""

    def __init__(
        self, inputs: Mapping[str, Any], axes: Mapping[str, tuple[int, ...]], dtype: np.dtype[Any], element: np.dtype[Any]
    ) -> None:
        self.inputs, self.axes, self.dtype, self.element = inputs, axes, dtype, element
        self.memo: dict[int, tuple[Expr, Array]] = {}

    def value(self, node: Expr) -> Array:
        # the node is kept so that its id stays its own
        if id(node) not in self.memo:
            self.memo[id(node)] = node, self._compute(node)
        return self.memo[id(node)][1]

    def _compute(self, node: Expr) -> Array:
        match node:
            case Capture(name):
                return np.asarray(self.inputs[name], self.dtype) if node.const else np.asarray(self.inputs[name])
            case Literal(number):
                return np.asarray(float(number), self.dtype)
            case Size(operand, over):
                shape = np.shape(self.value(operand))
                return np.asarray(math.prod(shape[p] for p in positions(self._axes(over), len(shape))), self.dtype)
            case Apply():
                if self.dtype != np.float64 and is_constant(node):
                    return np.asarray(_Run(self.inputs, self.axes, np.dtype(np.float64), self.element)._apply(node)).astype(self.dtype)
                return self._apply(node)
        raise CannotRun(f"no expression: {node!r}")

    def _apply(self, node: Apply) -> Array:
        operands = [self.value(x) for x in node.operands]
        attributes = dict(node.attributes)
        moved = self._moved(node, operands, attributes)
        if moved is not None:
            return np.asarray(moved)
        for key, value in attributes.items():
            if key == "axes":
                attributes[key] = positions(self._axes(value), operands[0].ndim)
            elif key == "axis":
                (attributes[key],) = self._axes((value,))
            elif isinstance(value, DTypeOf):
                if node.name in ("cast", "round_to"):
                    return operands[0].astype(self.element)
                raise CannotRun("an element type as an attribute")
            elif isinstance(value, Expr):
                found = self.value(value)
                attributes[key] = found if found.ndim else float(found)
        if node.name == "conv":
            settings = {key: np.asarray(attributes[key]).astype(int) for key in ("stride", "padding", "dilation")}
            attributes |= {key: tuple(np.broadcast_to(v.reshape(-1), operands[0].ndim - 2).tolist()) for key, v in settings.items()}
            attributes["groups"] = int(attributes["groups"])
        steps = algorithm(node) if any(isinstance(v, np.ndarray) for v in attributes.values()) else None
        if steps is not None:
            # one setting for each sample
            return self.value(steps)
        if node.operation.FACTS.evaluate is None:
            raise CannotRun(f"{node.name} has no evaluation")
        return np.asarray(node.operation.FACTS.evaluate(*operands, **attributes))

    def _moved(self, node: Apply, operands: list[Array], attributes: dict[str, Any]) -> Any:
        """Movement as rules write it, with bounds that are expressions; None for another operation."""
        x: Any = operands[0] if operands else None
        if node.name == "reshape" and len(attributes) == 1:
            ((how, place),) = attributes.items()
            return np.expand_dims(x, place) if how == "unsqueeze" else np.squeeze(x, axis=place)
        if isinstance(attributes.get("shape"), Capture):
            return array_moves.reshape_of(x, self._axes(attributes["axes"]), array_moves.integers(self.value(attributes["shape"])))
        if attributes.get("perm") == "last_two":
            return np.swapaxes(x, -1, -2)
        if isinstance(attributes.get("perm"), Capture | Apply):
            return array_moves.permute_of(x, self._order(attributes["perm"]))
        if not node.facts.moves or "axis" not in attributes:
            return None
        (axis,) = self._axes((attributes["axis"],))
        bounds = {key: self.value(v) for key, v in attributes.items() if isinstance(v, Expr)}
        match node.name:
            case "slice":
                return array_moves.slice_of(x, axis, *(array_moves.integer(bounds[key]) for key in ("start", "stop", "step")))
            case "concat":
                return array_moves.concat_of(operands, axis)
            case "pad":
                low, high = (array_moves.integer(bounds[key]) for key in ("low", "high"))
                return array_moves.pad_of(x, axis, low, high, bounds["value"])
            case "gather":
                return np.take_along_axis(x, operands[1].astype(np.int64), axis=axis)
        return array_moves.repeat_of(x, axis, array_moves.integer(bounds["size"]))

    def _order(self, order: Any) -> list[int]:
        if isinstance(order, Apply):
            first, second = map(self._order, order.operands)
            return [first[place] for place in second]
        return [int(i) for i in self.value(order).reshape(-1)]

    def _axes(self, axes: Any) -> tuple[int, ...]:
        return tuple(place for axis in axes for place in (self.axes[axis] if isinstance(axis, str) else (axis,)))
