"""A choice as it runs: in the model's own precision on samples, beside what the classes of its roots are."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from hnfc.analysis.cost import LOST
from hnfc.dialects.num.base import NumOp
from hnfc.dialects.num.constant import WeightOp
from hnfc.dialects.num.rounding import NUMPY_TYPES
from hnfc.dialects.types import ELEMENT_NAMES, FORMATS, Format
from hnfc.egraph.graph import Node
from hnfc.egraph.values import ClassValues
from hnfc.evaluate import compute

Array: TypeAlias = "np.ndarray[Any, Any]"


def lost_bits(values: ClassValues, chosen: Mapping[int, Node], roots: Sequence[int]) -> float | None:
    """log₂(1 + relative error / unit roundoff) of the worst root on the samples, to halves of bits; `LOST` where one is not finite though
    it should be. The error is the one that at most one element in a hundred exceeds: of many some lie near 0 by chance.

    None without samples, or where a root cannot be computed. The truth is what `values` knows of it, or takes it to be.
    """
    if not values.samples:
        return None
    worst = 0.0
    for index in range(len(values.samples)):
        found = _run(values, chosen, roots, index)
        for root in roots:
            truth = values.truth.get(root) or values.arrays(values.graph.of(root).leader)
            if truth is None or root not in found:
                return None
            kind = values.graph.of(root).leader.type
            form = FORMATS.get(ELEMENT_NAMES.get(getattr(kind, "element_type", None), ""))  # type: ignore[arg-type]
            if form is not None:
                worst = max(worst, _bits(found[root], truth[index], form))
    return round(2 * worst) / 2


def _bits(found: Array, truth: Array, form: Format) -> float:
    got, want = np.broadcast_arrays(found.astype(np.float64), np.asarray(truth, np.float64))
    representable = np.abs(want) <= form.largest
    if not np.isfinite(got[representable | np.isnan(want)]).all():
        return LOST
    with np.errstate(all="ignore"):
        # in full below the normal numbers too: of two programs the one that keeps them is better
        error = (np.abs(got - want) / np.maximum(np.abs(want), form.tiny))[representable]
    return math.log2(1 + float(np.quantile(error, 0.99, method="higher")) / form.unit_roundoff) if error.size else 0.0


def _run(values: ClassValues, chosen: Mapping[int, Node], roots: Sequence[int], index: int) -> dict[int, Array]:
    """The arrays of the classes that were chosen on one sample, operands first."""
    graph = values.graph
    found: dict[int, Array] = {}
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
        array = _computed(values, node, [found.get(graph.find(child)) for child in node.children], index)
        if array is not None:
            found[current] = array
    return found


def _computed(values: ClassValues, node: Node, operands: Sequence[Array | None], index: int) -> Array | None:
    operation = node.operation
    if operation is None:
        sample = values.samples[index].get(node.result)
        element = ELEMENT_NAMES.get(getattr(node.result.type, "element_type", None), "")  # type: ignore[arg-type]
        return sample.astype(NUMPY_TYPES[element]) if sample is not None and element in NUMPY_TYPES else sample
    if isinstance(operation, WeightOp):
        return values.weights(operation.weight_name) if values.weights else None
    if not isinstance(operation, NumOp) or any(operand is None for operand in operands):
        return None
    made = compute(operation, list(operands))
    return None if made is None else made[0]
