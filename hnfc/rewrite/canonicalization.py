"""The canonical form of movement: reshapes that only add or drop axes of size 1 sink below elementwise operations.

    reshape(a) * reshape(b)   →   reshape(a * b)
    x - reshape(m)            →   x - m            where m has leading axes of size 1 more
    log(select(p))            →   select(log(p))   where p may be a softmax

A scalar that meets tensors without its axes stays the scalar that it was: in log(exp(sum(x)) + exp(y)) no reshape separates + and exp.

torch reduces without keeping axes; rules are written with kept axes. Every step is exact, bit by bit, so the torch
value of the old value is the torch value of the new one, and what no rule touches is written as it was read.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Block, Operation, SSAValue

from hnfc.dialects.facts import Access
from hnfc.dialects.num import OPERATIONS
from hnfc.dialects.num.base import BinaryOp, NumOp, UnaryOp
from hnfc.dialects.num.rounding import NUMPY_TYPES
from hnfc.dialects.types import DYNAMIC, ELEMENT_NAMES, FORMATS, IntsAttr, TypeMismatch, broadcast_shapes, tensor

_RESHAPE, _BROADCAST, _TRANSPOSE = OPERATIONS["reshape"], OPERATIONS["broadcast"], OPERATIONS["transpose"]
_WHERE, _CAST, _CONSTANT = OPERATIONS["where"], OPERATIONS["cast"], OPERATIONS["constant"]
_LOG, _RATIOS = OPERATIONS["log"], (OPERATIONS["softmax"], OPERATIONS["div"])
_OF_REDUCTIONS = tuple(
    OPERATIONS[name] for name in ("add", "sub", "mul", "div", "pow", "square", "sqrt", "rsqrt", "log", "maximum", "minimum")
)
"""Operations on reductions that rules have: variance, norm, mean, logsumexp."""
_SELECTING = (*(c for c in OPERATIONS.values() if c.FACTS.access is Access.LOOKUP), OPERATIONS["slice"])
Shape = tuple[int, ...]


def canonicalize(block: Block) -> tuple[dict[SSAValue, SSAValue], dict[Operation, Operation]]:
    """Brings the block into canonical form; returns what each value that changed is now, and what each new operation stands for."""
    renamed: dict[SSAValue, SSAValue] = {}
    origins: dict[Operation, Operation] = {}
    scalars: dict[SSAValue, SSAValue] = {}
    for op in list(block.ops):
        if not isinstance(op, NumOp) or len(op.results) != 1 or not isinstance(op.results[0].type, TensorType):
            continue
        new = None
        if isinstance(op, _RESHAPE):
            new = _reshaped(op)
        elif op.FACTS.access is Access.ELEMENTWISE and isinstance(op, UnaryOp | BinaryOp | _WHERE):
            new = _constant_cast(op) if isinstance(op, _CAST) else _log_of_selection(op) if isinstance(op, _LOG) else None
            new = new or _elementwise(op, scalars)
        if new is None:
            continue
        operations, value = new
        for operation in operations:
            block.insert_op_before(operation, op)
            origins[operation] = op
        old = op.results[0]
        renamed[old] = value
        if not _shape(old) and _loses_axes(value):
            scalars[value] = old
        if value.name_hint is None:
            value.name_hint = old.name_hint
        old.replace_all_uses_with(value)
    return renamed, origins


def _constant_cast(op: NumOp) -> tuple[list[Operation], SSAValue] | None:
    """A number in another element type that holds it exactly is that number."""
    source = op.operands[0].owner
    element = ELEMENT_NAMES.get(_type(op.results[0]).element_type, "")
    if type(source) is not _CONSTANT or element not in FORMATS:
        return None
    number = source.attributes_as_python()["value"]
    formats = {element, ELEMENT_NAMES.get(_type(op.operands[0]).element_type, "")} & FORMATS.keys()
    if not math.isfinite(number) or any(float(np.asarray(number).astype(NUMPY_TYPES[name])) != number for name in formats):
        return None
    constant = _CONSTANT.create(operands=[], result_types=[op.results[0].type], properties=source.properties)
    return [constant], constant.results[0]


def _log_of_selection(op: NumOp) -> tuple[list[Operation], SSAValue] | None:
    """log of chosen probabilities as chosen logarithms, so that the softmax and its logarithm meet. Nothing is computed
    that way unless a rule makes use of it: the torch value of the old form stands for the new one."""
    chain: list[Operation] = []
    source = op.operands[0]
    while isinstance(moved := source.owner, Operation) and isinstance(moved, (_RESHAPE, *_SELECTING)):
        chain.append(moved)
        source = moved.operands[0]
    if not isinstance(source.owner, _RATIOS) or not any(isinstance(part, _SELECTING) for part in chain):
        return None
    logarithm = _LOG.create(operands=[source], result_types=[source.type])
    operations: list[Operation] = [logarithm]
    for part in reversed(chain):
        operands = [operations[-1].results[0], *part.operands[1:]]
        operations.append(type(part).create(operands=operands, result_types=[part.results[0].type], properties=part.properties))
    return operations, operations[-1].results[0]


def _reshaped(op: NumOp) -> tuple[list[Operation], SSAValue] | None:
    """A reshape of a reshape is one; one that moves an axis of size 1 past the last is a transpose; one that does nothing is nothing."""
    if len(op.operands) != 1:
        return None
    source, wanted = op.operands[0], _shape(op.results[0])
    inner = source.owner
    operations: list[Operation] = []
    if isinstance(inner, _RESHAPE) and len(inner.operands) == 1:
        source = inner.operands[0]
    if _shape(source) == wanted:
        return [], source
    shape = _shape(source)
    if len(shape) >= 2 and DYNAMIC not in shape and shape[-1] == 1 and wanted == (*shape[:-2], 1, shape[-2]):
        perm = (*range(len(shape) - 2), len(shape) - 1, len(shape) - 2)
        operations.append(_TRANSPOSE.create(operands=[source], result_types=[op.results[0].type], properties={"perm": IntsAttr(perm)}))
    elif source is not op.operands[0]:
        operations.append(_RESHAPE.create(operands=[source], result_types=[op.results[0].type]))
    return (operations, operations[-1].results[0]) if operations else None


def _elementwise(op: NumOp, scalars: Mapping[SSAValue, SSAValue]) -> tuple[list[Operation], SSAValue] | None:
    seen = list(op.operands)
    for index in range(len(seen)):
        seen[index] = _seen_through(seen, op, index)
    # beside a sum over rows a scalar with an axis would keep it from sinking
    for operands in (seen, list(op.operands)) if any(map(_loses_axes, op.operands)) else (seen,):
        numbers: list[Operation] = []
        operands = [_number(operand, operands, op, numbers) for operand in operands]
        sunk = _sunk(op, operands, scalars)
        if sunk is not None:
            return [*numbers, *sunk[0]], sunk[1]
    numbers = []
    operands = [_exposed(_number(operand, seen, op, numbers), scalars) for operand in seen]
    if all(a is b for a, b in zip(operands, op.operands, strict=True)):
        return None
    new = type(op).create(operands=operands, result_types=[op.results[0].type], properties=op.properties)
    return [*numbers, new], new.results[0]


def _number(operand: SSAValue, operands: Sequence[SSAValue], op: NumOp, made: list[Operation]) -> SSAValue:
    """A splat as a number, where the other operands have the shape of the result without it."""
    source = operand.owner
    if type(source) is not _CONSTANT or not _shape(operand):
        return operand
    others = [_shape(other) for other in operands if other is not operand and type(other.owner) is not _CONSTANT]
    unknown = DYNAMIC in _shape(op.results[0]) and any(size != 1 for size in _shape(operand))
    try:
        if unknown or not others or broadcast_shapes(*others) != _shape(op.results[0]):
            return operand
    except TypeMismatch:
        return operand
    number = _CONSTANT.create(operands=[], result_types=[tensor(_type(operand).element_type, ())], properties=source.properties)
    made.append(number)
    return number.results[0]


def _seen_through(operands: Sequence[SSAValue], op: NumOp, index: int) -> SSAValue:
    """The operand at `index` without a broadcast or leading axes of size 1 that the others beside it would add."""
    operand = operands[index]
    owner = operand.owner
    if not isinstance(owner, _RESHAPE | _BROADCAST) or len(owner.operands) != 1:
        return operand
    source = owner.operands[0]
    result = _shape(op.results[0])
    if len(_shape(source)) > len(result):
        return operand
    if isinstance(owner, _RESHAPE) and _without_leading(_shape(source)) != _without_leading(_shape(operand)):
        return operand
    others = [_shape(o) for i, o in enumerate(operands) if i != index]
    try:
        return source if broadcast_shapes(_shape(source), *others) == result and DYNAMIC not in result else operand
    except TypeMismatch:
        return operand


def _sunk(op: NumOp, operands: Sequence[SSAValue], scalars: Mapping[SSAValue, SSAValue]) -> tuple[list[Operation], SSAValue] | None:
    """The operation above the reshapes of its operands, where all of them drop the same axes; scalars go along."""
    tensors = [operand for operand in operands if _shape(operand)] or [operand for operand in operands if _loses_axes(operand)]
    if not tensors:
        return None
    dropped: set[tuple[int, ...]] = set()
    for operand in tensors:
        owner = operand.owner
        if not isinstance(owner, _RESHAPE) or len(owner.operands) != 1:
            return None
        axes = _dropped_axes(_shape(owner.operands[0]), _shape(operand))
        if axes is None:
            return None
        dropped.add((len(_shape(owner.operands[0])), *axes))
    if len(dropped) != 1 or len({len(_shape(t)) for t in tensors}) != 1:
        return None
    rank = next(iter(dropped))[0]
    sources = [_source(operand, rank, scalars) for operand in operands]
    element = _type(op.results[0]).element_type
    try:
        shape = broadcast_shapes(*(_shape(source) for source in sources))
    except TypeMismatch:
        return None
    above = type(op).create(operands=sources, result_types=[tensor(element, shape)], properties=op.properties)
    below = _RESHAPE.create(operands=[above.results[0]], result_types=[op.results[0].type])
    return [above, below], below.results[0]


def _source(operand: SSAValue, rank: int, scalars: Mapping[SSAValue, SSAValue]) -> SSAValue:
    """The operand above its reshape; of a scalar only where its axes are as many as those of the others, beside which they are all 1."""
    if not _shape(operand) and not _loses_axes(operand):
        return operand
    source: SSAValue = operand.owner.operands[0]  # type: ignore[union-attr]
    return source if _shape(operand) or _shape(source) == (1,) * rank else _exposed(operand, scalars)


def _exposed(value: SSAValue, scalars: Mapping[SSAValue, SSAValue]) -> SSAValue:
    """A scalar as it was before operations sank: these are made of scalars again, but for those on reductions, which rules have with kept
    axes. Its operations are those that it was imported with, which nothing else uses now."""
    old = scalars.get(value)
    if old is None or not isinstance(op := old.owner, NumOp):
        return value
    operands = [_exposed(operand, scalars) for operand in op.operands]
    if isinstance(op, _OF_REDUCTIONS) and any(map(_loses_axes, operands)):
        return value
    for index, operand in enumerate(operands):
        op.operands[index] = operand
    return old


def _loses_axes(value: SSAValue) -> bool:
    """Return whether a scalar is an element of a tensor, as a sum over all axes is."""
    owner = value.owner
    return not _shape(value) and isinstance(owner, _RESHAPE) and len(owner.operands) == 1 and bool(_shape(owner.operands[0]))


def _dropped_axes(source: Shape, target: Shape) -> tuple[int, ...] | None:
    """The axes of size 1 whose removal makes `target` of `source`; None if that is not what happened.

    One unknown size in each is the same one: the other sizes have the same product. Several are those of the source in order.
    """
    if len(source) <= len(target) or 0 in source:
        return None
    axes, position = [], 0
    for axis, size in enumerate(source):
        left = len(source) - axis - 1
        if position < len(target) and size == target[position] and not (size == 1 and left >= len(target) - position):
            position += 1
        elif size == 1:
            axes.append(axis)
        else:
            return None
    return tuple(axes) if position == len(target) else None


def _without_leading(shape: Shape) -> Shape:
    start = next((i for i, size in enumerate(shape) if size != 1), len(shape))
    return shape[start:]


def _type(value: SSAValue) -> TensorType[Attribute]:
    assert isinstance(value.type, TensorType)
    return value.type


def _shape(value: SSAValue) -> tuple[Any, ...]:
    return tuple(value.type.get_shape()) if isinstance(value.type, TensorType) else ()
