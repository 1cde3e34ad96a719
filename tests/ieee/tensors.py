"""Another evaluation of rules on tensors: one operation after the other on arrays of NumPy's and ml_dtypes' own types."""

from __future__ import annotations

from typing import Any

import numpy as np

from hnfc.dialects.num.comparison import PREDICATES
from hnfc.dialects.num.rounding import NUMPY_TYPES
from hnfc.dialects.types import FORMATS
from hnfc.dsl.core import Apply, Capture, Expr, Literal, Rule, Size
from hnfc.dsl.ieee import IeeeExample
from tests.ieee.reference import rounded

NARROW = FORMATS.keys() - {"f32", "f64"}


class NotHere(Exception):
    """An operation that this evaluation does not have."""


def replayed(rule: Rule, example: IeeeExample) -> tuple[Any, Any]:
    """Both sides at the example's index, in float64."""
    inputs = {name: tensor.to_numpy().astype(NUMPY_TYPES[tensor.element]) for name, tensor in example.inputs}
    with np.errstate(all="ignore"):
        tensors = Tensors(inputs, dict(example.axes), example.element)
        sides = [tensors.value(side) for side in (rule.pattern, rule.replacement)]
        shape = np.broadcast_shapes(*(side.shape for side in sides))
        left, right = (np.broadcast_to(side, shape)[example.index].astype(np.float64) for side in sides)
    return left, right


class Tensors:
    def __init__(self, inputs: dict[str, Any], axes: dict[str, tuple[int, ...]], form: str) -> None:
        self.inputs, self.axes, self.form = inputs, axes, form

    def places(self, axes: tuple[Any, ...]) -> tuple[int, ...]:
        return tuple(place for axis in axes for place in (self.axes[axis] if isinstance(axis, str) else (axis,)))

    def value(self, node: Expr) -> Any:
        match node:
            case Capture(name):
                return self.inputs[name]
            case Literal(number):
                return np.array(rounded(number, self.form)).astype(NUMPY_TYPES[self.form])
            case Size(operand, axes):
                x = self.value(operand)
                count = np.prod([x.shape[a] for a in self.places(axes) if -x.ndim <= a], dtype=int)
                return np.array(float(count)).astype(NUMPY_TYPES[self.form])
        assert isinstance(node, Apply)
        attributes = dict(node.attributes)
        operands = [self.value(x) for x in node.operands]
        if node.name == "transpose" and attributes["perm"] == "last_two":
            return np.swapaxes(operands[0], -1, -2)
        if node.name == "reshape" and "unsqueeze" in attributes:
            return np.expand_dims(operands[0], attributes["unsqueeze"])
        if node.name == "reshape" and "squeeze" in attributes:
            return np.squeeze(operands[0], attributes["squeeze"])
        if node.name in ("slice", "concat", "pad", "broadcast", "gather", "reshape", "transpose", "reverse", "conv", "cast", "round_to"):
            raise NotHere(node.name)
        if node.name == "compare":
            return PREDICATES[attributes["predicate"]](*operands)
        return self.computed(node, operands, attributes)

    def computed(self, node: Apply, operands: list[Any], attributes: dict[str, Any]) -> Any:
        working = np.float64 if self.form == "f64" else np.float32
        floats = [x if x.dtype.kind in "bi" else x.astype(working) for x in operands]
        if "axes" in attributes:
            rank = floats[0].ndim
            attributes["axes"] = tuple(sorted({a % rank for a in self.places(attributes["axes"]) if -rank <= a < rank}))
        settings = {k: float(self.inputs[v.name]) if isinstance(v, Capture) else v for k, v in attributes.items()}
        assert node.operation.FACTS.evaluate is not None
        result = np.asarray(node.operation.FACTS.evaluate(*floats, **settings))
        return result if result.dtype.kind in "bi" else result.astype(NUMPY_TYPES[self.form])
