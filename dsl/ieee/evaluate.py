"""The value of a side of a rule on many samples at once, in IEEE arithmetic.

A value is an array whose first axis counts samples (1 where it is the same for all). Floating-point elements are held in
float64; their element type follows from the captures' (see types.py).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np

from hnfc.dsl.core import Apply, Axis, Capture, Expr, Literal, Size
from hnfc.dsl.ieee import moves
from hnfc.dsl.ieee.arithmetic import INTEGERS, NotComputed, along_axes, cast, in_working_precision, is_pointwise, pointwise, round_to
from hnfc.dsl.ieee.convolution import convolved
from hnfc.dsl.ieee.formats import BINARY, Array, nearest
from hnfc.dsl.ieee.moves import aligned
from hnfc.dsl.movement import ON_BOUNDS
from hnfc.dsl.soundness import array_moves
from hnfc.dsl.soundness.array_moves import ShapeMismatch
from hnfc.dsl.soundness.typing import Typing


@dataclass
class Batch:
    """Samples: the captures' values, what each axis variable stands for, and the captures' element types.

    fixed: captures that stand in attributes, which are the same number in all samples.
    """

    inputs: dict[str, Array]
    axes: dict[str, tuple[int, ...]]
    typing: Typing
    fixed: frozenset[str] = frozenset()

    @property
    def elements(self) -> Mapping[str, str]:
        return self.typing.captures

    @property
    def size(self) -> int:
        return max((x.shape[0] for x in self.inputs.values()), default=1)

    def take(self, chosen: Any) -> Batch:
        """The samples that an index or a mask picks."""
        picked = {name: x[chosen] if x.shape[0] > 1 or self.size == 1 else x for name, x in self.inputs.items()}
        return replace(self, inputs=picked)


class Evaluator:
    """Evaluates expressions on one batch; what both sides share is computed once."""

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        self._memo: dict[tuple[int, str], tuple[Expr, Array]] = {}

    def value(self, node: Expr, wanted: str | None = None) -> Array:
        """Raises ShapeMismatch, Unsupported or Mismatch. wanted: the type of a number without one of its own."""
        element = self.batch.typing.of(node) or wanted or self.batch.typing.form
        key = (id(node), element)
        if key not in self._memo:
            self._memo[key] = (node, self._compute(node, element))
        return self._memo[key][1]

    def _compute(self, node: Expr, element: str) -> Array:
        match node:
            case Capture(name):
                return self.batch.inputs[name]
            case Literal(number):
                return constant(number, element)
            case Size(operand, axes):
                return constant(Fraction(self.size_of(operand, axes)), element)
        if node.name == "cast":
            source = self._common(node.operands) or self.batch.typing.form
            return cast(self.value(node.operands[0], source), source, element)
        if node.name == "round_to":
            to = self.batch.typing.target(dict(node.attributes)["format"])
            if to not in BINARY or element not in BINARY:
                raise NotComputed(f"rounding {element} to {to}")
            return round_to(self.value(node.operands[0], element), to, BINARY[element])
        moved: Array | None = self._moved(node, element)
        if moved is not None:
            return moved
        operands = self._operands(node, element)
        kind = self._kind(node, element)
        if is_pointwise(node.operation):
            return pointwise(node.operation, kind, _broadcast(aligned(operands)), self._attributes(node, operands))
        return self._along(node, kind, operands)

    def _kind(self, node: Apply, element: str) -> str:
        """The element type that the operation computes in."""
        return (self._common(node.operands) or self.batch.typing.form) if element == "i1" and node.name != "where" else element

    def _operands(self, node: Apply, element: str) -> list[Array]:
        inner = self._kind(node, element)
        if node.name == "where":
            return [self.value(node.operands[0], "i1"), *(self.value(x, element) for x in node.operands[1:])]
        return [self.value(x, inner) for x in node.operands]

    def _along(self, node: Apply, kind: str, operands: list[Array]) -> Array:
        if node.facts.real is None and "axes" not in dict(node.attributes):
            # its axes count from the left
            return self._each_sample(node, kind, operands)
        if node.name in ("matmul", "affine"):
            a, b, row, column = moves.product_operands(*operands[:2])
            # the result of a vector lacks the axis that was added
            drop = tuple(axis for axis, added in ((-2, row), (-1, column)) if added)
            if node.name == "affine" and drop:
                raise ShapeMismatch("affine of a vector")
            rest = aligned([a, b, *operands[2:]])
            return np.squeeze(along_axes(node.operation, kind, rest, {}), axis=drop)
        if node.name == "conv":
            settings = [self.integer(dict(node.attributes)[key]) for key in ("stride", "padding", "dilation", "groups")]
            return in_working_precision(kind, lambda x, weight: convolved(x, weight, *settings), operands)
        if node.name == "cumsum":
            axis = array_moves.place(operands[0], self._one_axis(dict(node.attributes)["axis"]), 1)
            return along_axes(node.operation, kind, operands, {"axis": axis})
        return along_axes(node.operation, kind, aligned(operands), self._attributes(node, operands))

    def _each_sample(self, node: Apply, kind: str, operands: list[Array]) -> Array:
        count = max(x.shape[0] for x in operands)
        attributes = self._attributes(node, operands)
        rows = [along_axes(node.operation, kind, [x[i if x.shape[0] > 1 else 0] for x in operands], attributes) for i in range(count)]
        return np.stack(rows)

    def _moved(self, node: Apply, element: str) -> Any:
        """The result of an operation that moves elements, or None."""
        attributes = dict(node.attributes)
        name = node.name
        if not node.facts.moves or (node.facts.real is None and name != "reshape"):
            return None
        x = self.value(node.operands[0], element)
        if name == "transpose":
            perm = attributes["perm"]
            return array_moves.swap_of(x, 1) if perm == "last_two" else array_moves.permute_of(x, self.order(perm), 1)
        if name == "reshape":
            if "shape" in attributes:
                return array_moves.reshape_of(x, self.places(attributes["axes"]), self.order(attributes["shape"]), 1)
            ((how, axis),) = attributes.items()
            return array_moves.resize_of(x, how, axis, 1)
        if name == "reverse":
            return array_moves.reverse_of(x, self.places(attributes["axes"]), 1)
        axis = self._one_axis(attributes["axis"])
        if name == "slice":
            start, stop, step = (self.integer(attributes[key]) for key in ("start", "stop", "step"))
            return array_moves.slice_of(x, axis, start, stop, step, 1)
        if name == "concat":
            return array_moves.concat_of([self.value(part, element) for part in node.operands], axis, 1)
        if name == "pad":
            value = self.value(attributes["value"], element).reshape(-1)[0]
            return array_moves.pad_of(x, axis, self.integer(attributes["low"]), self.integer(attributes["high"]), value, 1)
        if name == "broadcast":
            return array_moves.repeat_of(x, axis, self.integer(attributes["size"]), 1)
        return array_moves.gather_of(x, self.value(node.operands[1], "si64"), axis, 1)

    def _one_axis(self, axis: Axis) -> int:
        found = self.places((axis,))
        if len(found) != 1:
            raise ShapeMismatch(f"{axis} is more than one axis")
        return found[0]

    def order(self, value: Expr | tuple[int, ...]) -> list[int]:
        """A list of integers: sizes, or an order of axes; `p @ q` takes p[q[j]] to place j."""
        match value:
            case tuple():
                return list(value)
            case Capture(name):
                return [int(v) for v in self.batch.inputs[name].reshape(-1)]
            case Apply(_, (first, second)):
                p, q = self.order(first), self.order(second)
                if len(p) != len(q) or not set(q) <= set(range(len(p))):
                    raise ShapeMismatch("orders of different length")
                return [p[place] for place in q]
        raise NotComputed(f"{value} as a list of integers")

    def _common(self, nodes: tuple[Expr, ...]) -> str | None:
        return self.batch.typing.common(nodes)

    def places(self, axes: tuple[Axis, ...]) -> tuple[int, ...]:
        return tuple(place for axis in axes for place in (self.batch.axes[axis] if isinstance(axis, str) else (axis,)))

    def size_of(self, operand: Expr, axes: tuple[Axis, ...]) -> int:
        x = self.value(operand)
        return math.prod(x.shape[at] for at in moves.places(x, self.places(axes)))

    def integer(self, bound: Expr | float) -> int:
        """A bound or size of a movement. Raises ShapeMismatch where it is no integer."""
        exact = self.exact(bound)
        if exact.denominator != 1:
            raise ShapeMismatch(f"{exact} is no integer")
        return int(exact)

    def exact(self, bound: Expr | float) -> Fraction:
        match bound:
            case int() | float():
                return _finite(bound)
            case Literal(number):
                return _finite(number)
            case Size(operand, axes):
                return Fraction(self.size_of(operand, axes))
            case Capture(name):
                return _finite(float(self.batch.inputs[name].reshape(-1)[0]))
        function = ON_BOUNDS.get(bound.name)
        if function is None:
            raise NotComputed(f"{bound.name} in a bound")
        result: Fraction = function(*map(self.exact, bound.operands))
        return result

    def _attributes(self, node: Apply, operands: list[Array]) -> dict[str, Any]:
        """The attributes as `FACTS.evaluate` takes them; captures are the same number in all samples."""
        attributes: dict[str, Any] = {}
        for key, value in node.attributes:
            if key == "axes":
                attributes[key] = moves.places(operands[0], self.places(value))
                if any(operands[0].shape[at] == 0 for at in attributes[key]):
                    raise ShapeMismatch("a reduction over no elements")
            elif isinstance(value, Expr):
                attributes[key] = float(self.exact(value))
            else:
                attributes[key] = value
        return attributes


def _finite(number: Fraction | float) -> Fraction:
    if not math.isfinite(number):
        raise NotComputed(f"{number} in an attribute")
    return Fraction(number)


@cache
def constant(number: Fraction | float, element: str) -> Array:
    """One sample of a number in the element type, rounded once."""
    if element in BINARY:
        return np.array([nearest(number, BINARY[element])])
    if element == "i1":
        return np.array([number != 0])
    if element in INTEGERS and math.isfinite(number) and number == int(number):
        try:
            return np.array([int(number)], INTEGERS[element])
        except OverflowError:
            raise NotComputed(f"{number} in {element}") from None
    raise NotComputed(f"{number} in {element}")


def _broadcast(arrays: list[Array]) -> list[Array]:
    """The arrays, if their shapes broadcast. Raises ShapeMismatch."""
    try:
        np.broadcast_shapes(*(x.shape for x in arrays))
    except ValueError:
        raise ShapeMismatch(f"shapes {' and '.join(str(list(x.shape[1:])) for x in arrays)}") from None
    return arrays


def sides(pattern: Expr, replacement: Expr, batch: Batch) -> tuple[Array, Array]:
    """Both sides in one shape, with all samples. Raises ShapeMismatch, Unsupported or Mismatch."""
    evaluator = Evaluator(batch)
    wanted = batch.typing.common((pattern, replacement))
    with np.errstate(all="ignore"):
        left, right = aligned([evaluator.value(pattern, wanted), evaluator.value(replacement, wanted)])
    left, right = _broadcast([left, right])
    shape = np.broadcast_shapes(left.shape, right.shape, (batch.size, *(1,) * moves.rank(left)))
    return np.broadcast_to(left, shape), np.broadcast_to(right, shape)
