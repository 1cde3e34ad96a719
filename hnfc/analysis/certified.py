"""Certified range, error and error propagation of every value of a model on a box of inputs.

Errors are linear functions of the roundings (see `linear`), so that what cancels on the way to a result is seen. Of each operation alone
there is Φ(ε) = L·ε + Δ: an error that comes in grows by at most L, the Lipschitz constant of the operation on the ranges of its operands,
and its own rounding adds at most Δ. κ is its condition number, the growth of relative errors: Σ|∂f/∂x|·|x| / |f|.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Block, Operation, SSAValue

from hnfc.analysis.linear import LinearTape
from hnfc.analysis.nodes import KleeneTruth, TapeNode, running_error
from hnfc.analysis.ranges import Ranges, interval_of_array
from hnfc.analysis.tape import Tape
from hnfc.analysis.taylor import Forms, Recorder
from hnfc.core.interpreter import WeightReader
from hnfc.dialects.facts import NoFormula
from hnfc.dialects.interval import Interval
from hnfc.dialects.interval_arrays import Array, IntervalArray
from hnfc.dialects.num.base import NumOp
from hnfc.dialects.num.constant import ConstantOp, WeightOp
from hnfc.dialects.types import TypeMismatch


@dataclass(frozen=True)
class Bounds:
    """Of one value, over all of its elements.

    low, high: every element that is a number lies there, rounded or not; nan: whether one may be none.
    error: no element is further from its true value. lipschitz: by how much its operation can make an error of its operands larger (in
    the largest element). rounding: the error of the operation itself.
    condition: the largest growth of a relative error in any element, at the ends of the ranges (infinite where the result may be 0).
    """

    low: float
    high: float
    error: float
    lipschitz: float
    rounding: float
    condition: float
    nan: bool = False
    errors: Array | None = None
    """The bound of each element, or of each place along one axis, where that was requested."""

    @property
    def relative(self) -> float:
        """The error relative to the largest element."""
        size = max(abs(self.low), abs(self.high))
        return self.error / size if size else (0.0 if self.error == 0 else np.inf)


Per: TypeAlias = "int | str"
"""Granularity of bounds: "tensor" (one for all elements), "element", or the number of the axis along which places have their own."""


MOST_KEPT = 2**22
"""Elements of all values together of which a tape keeps everything: some hundred bytes each."""
_CHEAP = 2**20
"""Elements that a sweep may touch for a value that is no result."""


@dataclass
class Certified:
    """The bounds of every value that has any, and why the others have none."""

    bounds: dict[SSAValue, Bounds]
    walls: dict[SSAValue, str]


def certified(
    block: Block, inputs: Mapping[SSAValue, IntervalArray], weights: WeightReader | None = None, per: Per = "tensor"
) -> Certified:
    """One pass over the function, and sweeps backward from its results and where the second order needs them (see `linear`).

    Of a function with more than MOST_KEPT elements a value is dropped when nothing needs it any more, and there are no sweeps: time and
    memory grow with the graph. Errors are carried element by element in any case; `per` says which of them are kept besides the largest.
    """
    tape = tape_for(block)
    ranges = Ranges({value: interval_of_box(box) for value, box in inputs.items()}, weights)
    recorder, unrounded = Recorder(Forms(tape), weights), Recorder(Forms(Tape(recording=False)), weights, rounding=False)
    forms, true = recorder.forms, unrounded.forms
    found: dict[SSAValue, Bounds] = {}
    last = {operand: operation for operation in block.ops for operand in operation.operands}
    with np.errstate(all="ignore"):
        for value, box in inputs.items():
            forms.known[value] = node = tape.input(box)
            true.known[value] = true.tape.input(box)
            found[value] = _with_errors(_summary(node, 1.0, 0.0, 1.0), node, per)
        for operation in block.ops:
            recorder.record(operation)
            if not isinstance(tape, LinearTape):
                unrounded.record(operation)
            for value in operation.results:
                node_or_truth = forms.known.get(value)
                if isinstance(node_or_truth, TapeNode):
                    if not isinstance(tape, LinearTape):
                        _sharpen(node_or_truth, true.known.get(value))
                    elif tape.work_of(node_or_truth) < _CHEAP or last.get(value) is block.last_op:
                        tape.tighten(node_or_truth)
                    own = _measured(recorder, operation, node_or_truth)
                    found[value] = _with_errors(_with_infinities(own, node_or_truth, ranges, value), node_or_truth, per)
            for value in {*operation.operands, *operation.results} if not isinstance(tape, LinearTape) else ():
                if last.get(value, operation) is operation:
                    forms.known.pop(value, None)
                    true.known.pop(value, None)
    return Certified(found, forms.walls)


def tape_for(block: Block) -> Tape:
    """A tape that keeps what sweeps need, or for a large function one that keeps nothing."""
    shapes = [value.type.get_shape() for operation in block.ops for value in operation.results if isinstance(value.type, TensorType)]
    elements = sum(math.prod(max(size, 1) for size in shape) for shape in shapes)
    return LinearTape() if elements <= MOST_KEPT else Tape(recording=False)


def interval_of_box(box: IntervalArray) -> Interval:
    """The interval that holds all elements."""
    if not box.lo.size or not box.hi.size:
        return Interval(0.0, 0.0)
    ends = interval_of_array(box.lo).hull(interval_of_array(box.hi))
    return Interval(ends.lo, ends.hi, ends.nan, ends.minus or ends.lo == 0)


def _with_infinities(bounds: Bounds, node: TapeNode, ranges: Ranges, value: SSAValue) -> Bounds:
    """Range that holds infinite elements and NaN too, and whether NaN may be among them."""
    if node.lost is None:
        return bounds
    interval = ranges.of(value)
    return replace(bounds, low=interval.lo, high=interval.hi, nan=interval.nan)


def _with_errors(bounds: Bounds, node: TapeNode, per: Per) -> Bounds:
    if per == "tensor":
        return bounds
    errors = np.max(running_error(node), axis=0) if running_error(node).size else np.zeros(node.shape)
    if isinstance(per, int):
        if not -errors.ndim <= per < errors.ndim:
            return bounds
        others = tuple(axis for axis in range(errors.ndim) if axis != per % errors.ndim)
        errors = np.max(errors, axis=others, initial=0.0)
    return replace(bounds, errors=np.where(np.isnan(errors), np.inf, errors))


def _sharpen(node: TapeNode, true: TapeNode | KleeneTruth | None) -> None:
    """Range of computed values from the true range and the error: for narrow inputs tighter than intervals."""
    if isinstance(true, TapeNode) and node.error is not None and node.lost is None and true.value.shape == node.value.shape:
        error = np.where(np.isfinite(node.error), node.error, np.inf)
        near = true.value.widened(error)
        node.value = node.value.meet(near.lo, near.hi)


def _measured(recorder: Recorder, operation: Operation, node: TapeNode) -> Bounds:
    if isinstance(operation, ConstantOp | WeightOp) or not isinstance(operation, NumOp):
        return _summary(node, 0.0, _largest(running_error(node)), 1.0)
    growth = _local(recorder, operation, lambda x: np.ones((1,) * (len(x.shape) + 1)), rounding=False)
    sizes = _local(recorder, operation, lambda x: x.value.magnitude, rounding=False)
    own = _local(recorder, operation, lambda x: None, rounding=True)
    condition = np.where(sizes == 0, 0.0, sizes / node.value.smallest)
    return _summary(node, _largest(growth), _largest(own), _largest(condition))


def _local(recorder: Recorder, operation: NumOp, seed: Callable[[TapeNode], Array | None], *, rounding: bool) -> Array:
    """The error of the result where the operands have the errors `seed`; infinite where there is no formula."""
    tape = Tape(recording=False)
    plain = replace(recorder, forms=Forms(tape), rounding=rounding)
    made: dict[SSAValue, TapeNode | KleeneTruth] = {}
    for operand in operation.operands:
        known = recorder.forms.known[operand]
        if operand not in made:
            made[operand] = (
                TapeNode(tape, known.value, exact=False, lost=known.lost, error=seed(known)) if isinstance(known, TapeNode) else known
            )
    try:
        result = plain.recorded(operation, [made[operand] for operand in operation.operands])
    except (NoFormula, TypeMismatch):
        return np.full((), np.inf)
    return running_error(result) if isinstance(result, TapeNode) else np.zeros(())


def _summary(node: TapeNode, lipschitz: float, rounding: float, condition: float) -> Bounds:
    value = node.value
    if 0 in value.shape:
        return Bounds(0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    return Bounds(float(value.lo.min()), float(value.hi.max()), _largest(running_error(node)), lipschitz, rounding, condition)


def _largest(x: Array) -> float:
    return float(np.max(np.where(np.isnan(x), np.inf, x), initial=0.0))
