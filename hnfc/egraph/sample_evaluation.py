"""A choice as it runs: in the model's own precision on samples, beside what the classes of its roots are; or what can be proved of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from xdsl.ir import SSAValue

from hnfc.analysis.cost import LOST
from hnfc.analysis.nodes import TapeNode as FormNode
from hnfc.analysis.nodes import running_error
from hnfc.analysis.tape import Tape
from hnfc.analysis.taylor import Forms, Recorder
from hnfc.core.interpreter import compute
from hnfc.dialects.facts import NoFormula
from hnfc.dialects.interval_arrays import IntervalArray
from hnfc.dialects.num.base import NumOp
from hnfc.dialects.num.constant import WeightOp
from hnfc.dialects.num.rounding import NUMPY_TYPES
from hnfc.dialects.types import ELEMENT_NAMES, ElementFormat, TypeMismatch, format_of
from hnfc.egraph.graph import ENode
from hnfc.egraph.values import ClassValues

Array: TypeAlias = "np.ndarray[Any, Any]"


def lost_bits(values: ClassValues, chosen: Mapping[int, ENode], roots: Sequence[int]) -> float | None:
    """log₂(1 + relative error / unit roundoff) of the worst root on the samples, to halves of bits; `LOST` where one is not finite though
    it should be. The error is the one that at most one element in a hundred exceeds: of many some lie near 0 by chance.

    None without samples, or where a root cannot be computed. The truth is what `values` knows of it, or takes it to be.
    """
    worst = 0.0
    for index in range(len(values.samples)):
        found = _followed(values, chosen, roots, partial(_computed, values, index))
        for root in roots:
            truth, form = _truth(values, root), _format(values, root)
            if truth is None or root not in found:
                return None
            if form is not None:
                worst = max(worst, _bits(found[root], truth[index], form))
    return round(2 * worst) / 2 if values.samples else None


def bound_bits(values: ClassValues, chosen: Mapping[int, ENode], roots: Sequence[int]) -> float | None:
    """The same of certified bounds of the errors at the samples: no implementation errs more. `LOST` where there is no bound."""
    worst = 0.0
    for index, sample in enumerate(values.samples):
        recorder = Recorder(Forms(Tape(recording=False)), values.weights)
        with np.errstate(all="ignore"):
            found = _followed(values, chosen, roots, partial(_bounded, recorder, sample))
        for root in roots:
            truth, form = _truth(values, root), _format(values, root)
            if form is None:
                continue
            node = found.get(root)
            if truth is None or not isinstance(node, FormNode):
                return LOST
            size = np.maximum(np.abs(np.asarray(truth[index], np.float64)), form.tiny)
            error = np.broadcast_to(running_error(node)[0], np.shape(size)) / size
            most = float(np.quantile(error, _MOST, method="higher")) if error.size else 0.0
            worst = max(worst, math.log2(1 + most / form.unit_roundoff) if math.isfinite(most) else LOST)
    return round(2 * worst) / 2 if values.samples else None


_MOST = 0.99


def _truth(values: ClassValues, root: int) -> list[Array] | None:
    return values.truth.get(root) or values.arrays(values.graph.of(root).leader)


def _format(values: ClassValues, root: int) -> ElementFormat | None:
    return format_of(values.graph.of(root).leader.type)


def _bits(found: Array, truth: Array, form: ElementFormat) -> float:
    got, want = np.broadcast_arrays(found.astype(np.float64), np.asarray(truth, np.float64))
    representable = np.abs(want) <= form.largest
    if not np.isfinite(got[representable | np.isnan(want)]).all():
        return LOST
    with np.errstate(all="ignore"):
        # in full below the normal numbers too: of two programs the one that keeps them is better
        error = (np.abs(got - want) / np.maximum(np.abs(want), form.tiny))[representable]
    return math.log2(1 + float(np.quantile(error, _MOST, method="higher")) / form.unit_roundoff) if error.size else 0.0


Evaluate: TypeAlias = Callable[[ENode, "list[Any]"], Any]
"""Value of a node from those of its operands; None where that is not known."""


def _followed(values: ClassValues, chosen: Mapping[int, ENode], roots: Sequence[int], evaluate: Evaluate) -> dict[int, Any]:
    """Values of the chosen classes, operands first."""
    graph = values.graph
    found: dict[int, Any] = {}
    done: set[int] = set()
    stack = list(roots)
    while stack:
        current = stack[-1]
        if current in done:
            stack.pop()
            continue
        node = chosen[current]
        missing = [child for child in map(graph.find, node.children) if child not in done and node.operation is not None]
        if missing:
            stack += missing
            continue
        stack.pop()
        done.add(current)
        operands = [found.get(graph.find(child)) for child in node.children]
        made = evaluate(node, operands) if node.operation is None or all(o is not None for o in operands) else None
        if made is not None:
            found[current] = made
    return found


def _computed(values: ClassValues, index: int, node: ENode, operands: list[Array]) -> Array | None:
    operation = node.operation
    if operation is None:
        sample = values.samples[index].get(node.result)
        element = ELEMENT_NAMES.get(getattr(node.result.type, "element_type", None), "")  # type: ignore[arg-type]
        return sample.astype(NUMPY_TYPES[element]) if sample is not None and element in NUMPY_TYPES else sample
    if isinstance(operation, WeightOp):
        return values.weights(operation.weight_name) if values.weights else None
    made = compute(operation, list(operands)) if isinstance(operation, NumOp) else None
    return None if made is None else made[0]


def _bounded(recorder: Recorder, sample: Mapping[SSAValue, Array], node: ENode, operands: list[Any]) -> Any:
    operation = node.operation
    if operation is None:
        array = sample.get(node.result)
        return None if array is None else recorder.tape.input(IntervalArray.of(np.asarray(array).astype(np.float64)[None]))
    if not isinstance(operation, NumOp):
        return None
    try:
        return recorder.recorded(operation, operands)
    except (NoFormula, TypeMismatch, NotImplementedError, MemoryError):
        return None
