"""Numbers in place of NaN where numbers left the domain of an operation: there no number is right, and a NaN is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue

from hnfc.dialects.facts import Access
from hnfc.dialects.num.base import NumOp
from hnfc.dialects.num.comparison import WhereOp
from hnfc.dialects.types import ELEMENT_NAMES, FORMATS
from hnfc.dsl.ieee.undefined import NEIGHBOURS, nearby

Array: TypeAlias = "np.ndarray[Any, Any]"
Run: TypeAlias = "Callable[[Sequence[Array]], Mapping[SSAValue, Array]]"
"""Computes the values of a program, in float64, from arrays of its inputs."""


def invented(run: Run, operations: Sequence[Operation], inputs: Sequence[tuple[SSAValue, Array]], root: SSAValue, lost: Array) -> bool:
    """Return whether an element that is lost is NaN here and all around, since numbers leave the domain of an operation.

    At a single point, as x/x at 0, a number may be the limit. lost: the elements of the root that were NaN and are numbers now.
    """
    if not lost.any() or not all(np.isfinite(array.astype(np.float64)).all() for _, array in inputs):
        return False
    random = np.random.default_rng(0)
    for draw in range(NEIGHBOURS + 1):
        found = run([nearby(array, random).astype(array.dtype) if draw and is_number(value) else array for value, array in inputs])
        if root not in found:
            return False
        lost = lost & _left_domain(operations, found, root) & np.isnan(found[root])
        if not lost.any():
            return False
    return True


def is_number(value: SSAValue) -> bool:
    """Return whether a value has elements of a floating-point format."""
    return isinstance(value.type, TensorType) and ELEMENT_NAMES.get(value.type.element_type, "") in FORMATS


def is_pointwise(operation: Operation) -> bool:
    """Return whether each element of the result depends on one element of each operand, up to broadcasting."""
    return isinstance(operation, NumOp) and operation.FACTS.access in (Access.ELEMENTWISE, Access.SOURCE)


def _left_domain(operations: Iterable[Operation], values: Mapping[SSAValue, Array], wanted: SSAValue) -> Array:
    """The elements of a value that depend on a NaN which an operation made of numbers. Zeros may have underflowed, as in 0/0."""
    born: dict[SSAValue, Array] = {}
    for operation in operations:
        operands = [values[x] for x in operation.operands if x in values]
        before = [born[x] for x in operation.operands if x in born]
        for result in operation.results:
            if result not in values or not is_number(result):
                continue
            nan = np.isnan(values[result])
            if is_pointwise(operation):
                of_numbers = np.full(nan.shape, bool(operands))
                for x in operands:
                    of_numbers &= np.isfinite(x) & (x != 0)
                born[result] = nan & np.logical_or.reduce(np.broadcast_arrays(of_numbers, *before))
            else:
                born[result] = nan & any(x.any() for x in before)
    return born.get(wanted, np.zeros((), np.bool_))


def selects(value: SSAValue, inputs: Iterable[SSAValue]) -> bool:
    """Return whether a value is computed from inputs with a `where`, which may leave NaN out."""
    seen, stack = {*inputs}, [value]
    while stack:
        current = stack.pop()
        if current not in seen:
            seen.add(current)
            if isinstance(current.owner, WhereOp):
                return True
            stack += current.owner.operands if isinstance(current.owner, Operation) else ()
    return False
