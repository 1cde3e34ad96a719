"""Sources of sizes that are not known when compiling: two values whose types agree in `?` may still differ in size."""

from __future__ import annotations

from typing import TypeAlias

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue

from hnfc.dialects.facts import Access
from hnfc.dialects.num import OPERATIONS
from hnfc.dialects.num.base import AlongAxesOp, NumOp, ReductionOp
from hnfc.dialects.types import DYNAMIC

Source: TypeAlias = tuple[SSAValue, int]
"""A value and one of its axes, counted from the right."""

_TRANSPOSE, MATMUL, _RESHAPE = OPERATIONS["transpose"], OPERATIONS["matmul"], OPERATIONS["reshape"]
_MAX_STEPS = 400


def unknown_sizes(value: SSAValue) -> list[frozenset[Source]]:
    """For each axis whose size is not known: the axes that it is broadcast from. Equal sources are equal sizes."""
    shape = _shape(value)
    return [sources((value, axis)) for axis in range(-len(shape), 0) if shape[axis] == DYNAMIC]


def sources(start: Source) -> frozenset[Source]:
    """The axes that the axis is broadcast from, as far up as they can be followed."""
    found: set[Source] = set()
    seen: set[Source] = {start}
    stack = [start]
    while stack:
        source = stack.pop()
        before = _before(*source) if len(seen) < _MAX_STEPS else None
        if before is None:
            found.add(source)
            continue
        for value, axis in before:
            shape = _shape(value)
            if -axis <= len(shape) and shape[axis] != 1 and (value, axis) not in seen:
                seen.add((value, axis))
                stack.append((value, axis))
    return frozenset(found)


def _before(value: SSAValue, axis: int) -> list[Source] | None:
    """The axes of operands that the axis is broadcast from; None where it is one of its own."""
    op = value.owner
    if not isinstance(op, Operation):
        return None
    if isinstance(op, _TRANSPOSE):
        perm = op.attributes_as_python()["perm"]
        return [(op.operands[0], perm[axis] - len(perm))]
    if is_elementwise(op):
        return [(operand, axis) for operand in op.operands]
    if isinstance(op, AlongAxesOp):
        return [(op.operands[0], axis)]
    if isinstance(op, MATMUL) and all(len(_shape(operand)) >= 2 for operand in op.operands):
        a, b = op.operands
        return [(b, -1)] if axis == -1 else [(a, -2)] if axis == -2 else [(a, axis), (b, axis)]
    if isinstance(op, _RESHAPE) and len(op.operands) == 1:
        return _through_reshape(op.operands[0], _shape(value), axis)
    shapes = [_shape(operand) for operand in op.operands]
    if isinstance(op, ReductionOp) and op.FACTS.access is Access.REDUCTION and shapes and len(shapes[0]) == len(_shape(value)):
        return [(op.operands[0], axis)]
    return None


def is_elementwise(op: Operation) -> bool:
    return isinstance(op, NumOp) and op.FACTS.access is Access.ELEMENTWISE


def _through_reshape(source: SSAValue, shape: tuple[int, ...], axis: int) -> list[Source] | None:
    """The place of the axis before axes of size 1 came or went."""
    old = [i for i, size in enumerate(_shape(source)) if size != 1]
    new = [i for i, size in enumerate(shape) if size != 1]
    if shape[axis] == 1 or [_shape(source)[i] for i in old] != [shape[i] for i in new]:
        return None
    return [(source, old[new.index(axis + len(shape))] - len(_shape(source)))]


def _shape(value: SSAValue) -> tuple[int, ...]:
    return tuple(value.type.get_shape()) if isinstance(value.type, TensorType) else ()
