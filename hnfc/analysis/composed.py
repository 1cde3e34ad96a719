"""Operations that are no formula over the interface of facts, because places matter in them, by smaller ones on a tape.

A cumulative sum is a product with a triangle of ones; pooling is a sum or a maximum over windows; a group norm is a layer norm between
two reshapes; attention that hides keys is a softmax in which their scores are far below the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from xdsl.ir import Operation

from hnfc.analysis.contraction import reshaped
from hnfc.analysis.nodes import KleeneTruth, TapeNode
from hnfc.analysis.rounding import other_algorithm
from hnfc.analysis.tape import Tape
from hnfc.dialects.facts import NoFormula
from hnfc.dialects.interval_arrays import IntervalArray
from hnfc.dialects.num import OPERATIONS
from hnfc.dialects.num.base import NumOp, as_tensor
from hnfc.dialects.num.convolution import pooled
from hnfc.dialects.types import BOOL, FORMATS
from hnfc.dsl.core import Apply, Capture, Expr
from hnfc.dsl.error.algorithms import algorithm

_LONGEST = 4096
"""Of a cumulative sum: the triangle has the square of it."""
_FAR_BELOW = 1000.0
"""By how much the score of a hidden key is below the least of the others: e to the minus that is 0 in float64, and below _NOTHING."""
_NOTHING = 1e-280


class StepRecorder(Protocol):
    """A recorder (see `taylor`) of operations that are steps of one."""

    rounding: bool

    @property
    def tape(self) -> Tape: ...
    def applied(
        self, kind: type[NumOp], operands: list[Any], attributes: dict[str, Any], working: str, origin: Operation
    ) -> TapeNode | KleeneTruth: ...
    def steps(
        self, expression: Expr, named: Mapping[str, TapeNode | KleeneTruth], working: str, origin: Operation
    ) -> TapeNode | KleeneTruth: ...


def composed(
    recorder: StepRecorder, operation: NumOp, operands: Sequence[TapeNode | KleeneTruth], attributes: dict[str, Any], working: str
) -> TapeNode | None:
    """Result of the operation before a rounding to its storage; None for one that is not of these. Raises NoFormula."""
    build = _COMPOSED.get(operation.name.removeprefix("num."))
    if build is None:
        return None
    return build(_Steps(recorder, working, operation), operands, attributes)


class _Steps:
    """Operations that round in one format, on behalf of one operation of the program."""

    def __init__(self, recorder: StepRecorder, working: str, origin: Operation) -> None:
        self.recorder, self.working, self.origin, self.tape = recorder, working, origin, recorder.tape

    def apply(self, name: str, *operands: Any, **attributes: Any) -> TapeNode:
        found = self.recorder.applied(OPERATIONS[name], [self.tape.node(o) for o in operands], attributes, self.working, self.origin)
        assert isinstance(found, TapeNode)
        return found

    def algorithm(self, name: str, x: TapeNode, **attributes: Any) -> TapeNode:
        steps = algorithm(Apply(OPERATIONS[name], (Capture("x"),), tuple(attributes.items())))
        assert steps is not None
        found = self.recorder.steps(steps, {"x": x}, self.working, self.origin)
        assert isinstance(found, TapeNode)
        return found


def _cumsum(steps: _Steps, operands: Sequence[Any], attributes: dict[str, Any]) -> TapeNode:
    x, axis = steps.tape.node(operands[0]), attributes["axis"]
    size = x.shape[axis]
    if size > _LONGEST:
        raise NoFormula(f"a cumulative sum of more than {_LONGEST} elements")
    last = steps.tape.moved([x], lambda parts: np.moveaxis(parts[0], axis, -1))
    rows = reshaped(steps.tape, last, (-1, size)) if len(x.shape) == 1 else last
    sums = steps.apply("matmul", rows, np.triu(np.ones((size, size))))
    shape = last.shape
    return steps.tape.moved([sums], lambda parts: np.moveaxis(parts[0].reshape(shape), -1, axis))


def _windows(steps: _Steps, x: TapeNode, attributes: dict[str, Any], filling: float) -> TapeNode:
    """The windows of a pooling, the elements of each along the last axis."""
    return steps.tape.moved([x], lambda parts: _pooled(parts[0], -1, attributes), IntervalArray.of(filling))


def _pooled(x: Any, filling: float, attributes: dict[str, Any]) -> Any:
    kernel, stride, padding = (attributes[key] for key in ("kernel", "stride", "padding"))
    return pooled(x, filling, kernel, stride, padding, attributes.get("dilation", (1,) * len(kernel)), attributes["ceil"])


def _max_pool(steps: _Steps, operands: Sequence[Any], attributes: dict[str, Any]) -> TapeNode:
    x = steps.tape.node(operands[0])
    least = np.min(x.value.lo, initial=0.0)
    # a window lies in the padding only in part, so that what fills it is never the greatest
    found = _windows(steps, x, attributes, float(least) - 1.0 if np.isfinite(least) else -np.inf)
    return _without_last(steps, steps.tape.amax(found, (len(found.shape) - 1,)))


def _avg_pool(steps: _Steps, operands: Sequence[Any], attributes: dict[str, Any]) -> TapeNode:
    x = steps.tape.node(operands[0])
    found = _windows(steps, x, attributes, 0.0)
    sums = _without_last(steps, steps.apply("sum", found, axes=(len(found.shape) - 1,)))
    evaluate = OPERATIONS["avg_pool"].FACTS.evaluate
    assert evaluate is not None
    ones = np.ones(x.shape)
    counts = np.rint(_pooled(ones, 0, attributes).sum(axis=-1) / evaluate(ones, **attributes))
    return steps.apply("div", sums, counts)


def _without_last(steps: _Steps, x: TapeNode) -> TapeNode:
    return steps.tape.moved([x], lambda parts: parts[0][..., 0])


def _group_norm(steps: _Steps, operands: Sequence[Any], attributes: dict[str, Any]) -> TapeNode:
    x, *parameters = (steps.tape.node(o) for o in operands)
    grouped = reshaped(steps.tape, x, (x.shape[0], attributes["groups"], -1))
    norm = algorithm(Apply(OPERATIONS["layer_norm"], (Capture("x"),), (("axes", (-1,)), ("eps", attributes["eps"]))))
    assert norm is not None
    normed = steps.recorder.steps(norm, {"x": grouped}, steps.working, steps.origin)
    assert isinstance(normed, TapeNode)
    if steps.recorder.rounding:
        more = other_algorithm("layer_norm", [grouped], {"axes": (2,), "eps": attributes["eps"]}, FORMATS[steps.working])
        assert more is not None
        normed = steps.tape.round(steps.tape.copy(normed), np.broadcast_to(more, normed.value.shape), steps.origin)
    result = reshaped(steps.tape, normed, x.shape)
    for name, parameter in zip(("mul", "add"), parameters, strict=False):
        result = steps.apply(name, result, reshaped(steps.tape, parameter, (x.shape[1], *(1,) * (len(x.shape) - 2))))
    if len(parameters) > 1 and steps.recorder.rounding:
        # a kernel computes x·α + (β - mean·α)
        bias = np.max(parameters[1].value.magnitude, initial=0.0) * 4 * FORMATS[steps.working].unit_roundoff
        result = steps.tape.round(steps.tape.copy(result), np.full(result.value.shape, bias), steps.origin)
    return result


def _attention(steps: _Steps, operands: Sequence[Any], attributes: dict[str, Any]) -> TapeNode | None:
    hiding = [as_tensor(o.type).element_type == BOOL for o in steps.origin.operands[3:]]
    masks = [steps.tape.condition(mask) if hides else mask for mask, hides in zip(operands[3:], hiding, strict=True)]
    if not attributes["causal"] and not any(hiding):
        return None
    q, k, v = (steps.tape.node(o) for o in operands[:3])
    scores = steps.apply("matmul", q, steps.tape.transpose(k, "last_two"))
    if attributes["scale"] != 1:
        scores = steps.apply("mul", scores, attributes["scale"])
    seen = np.ones(scores.shape, bool)
    for mask in masks:
        if isinstance(mask, KleeneTruth):
            if np.any(mask.may & mask.may_not) or mask.may.shape[0] != 1 or mask.unsure is not None:
                raise NoFormula("a mask that is not known")
            seen = seen & mask.may[0]
        else:
            scores = steps.apply("add", scores, mask)
    if attributes["causal"]:
        seen = seen & np.tri(*scores.shape[-2:], dtype=np.bool_)
    if not seen.any(axis=-1).all():
        raise NoFormula("a query that sees no key")
    least, greatest = np.min(scores.value.lo), np.max(v.value.magnitude)
    if not (np.isfinite(least) and np.isfinite(greatest)):
        raise NoFormula("scores or values without a bound")
    below = float(least) - _FAR_BELOW
    scores = steps.tape.moved([scores], lambda parts: np.where(seen, parts[0], -1), IntervalArray.of(below))
    result = steps.apply("matmul", steps.algorithm("softmax", scores, axes=(-1,)), v)
    if steps.recorder.rounding:
        # what a hidden key weighs here and not there
        stray = np.full(result.value.shape, _NOTHING * (1.0 + float(greatest)) * seen.shape[-1])
        result = steps.tape.round(steps.tape.copy(result), stray, steps.origin)
    return result


def _picked(steps: _Steps, operands: Sequence[Any], attributes: dict[str, Any]) -> TapeNode:
    """Rows of a table, or elements along an axis, at places that are known."""
    table, index = (steps.tape.node(o) for o in operands)
    places = index.value.lo
    if places.shape[0] != 1 or not np.array_equal(places, index.value.hi) or not np.isfinite(places).all():
        raise NoFormula("indices that are not known")
    whole, axis = places[0].astype(np.int64), attributes.get("axis", 0)
    if whole.size and not (-table.shape[axis] <= whole.min() and whole.max() < table.shape[axis]):
        raise NoFormula("an index that is outside")
    return steps.tape.moved([table], lambda parts: np.take(parts[0], whole, axis=axis))


_COMPOSED: dict[str, Callable[[_Steps, Sequence[Any], dict[str, Any]], TapeNode | None]] = {
    "cumsum": _cumsum, "max_pool": _max_pool, "avg_pool": _avg_pool, "group_norm": _group_norm, "attention": _attention,
    "embedding": _picked, "index_select": _picked,
}  # fmt: skip
