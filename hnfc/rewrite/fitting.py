"""Do the operands of a replacement fit where sizes are not known when compiling? Types that agree in `?` do not say so.

What the program does already is taken to fit: sizes that it combines are equal, or 1; sizes that it contracts are equal. Nothing else is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue

from hnfc.dialects.types import DYNAMIC
from hnfc.rewrite.extents import MATMUL, Source, is_elementwise, sources

_MAX_OPERATIONS = 200

Sizes = tuple[frozenset[Source], ...]
"""Of operands that meet along an axis: where the size of each comes from."""


def fit(root: Operation, made: Iterable[Operation]) -> bool:
    """Return whether the operations that were made have a type at run time, since what the root is computed from has one."""
    made = [op for op in made if any(DYNAMIC in _shape(operand) for operand in op.operands)]
    if not made:
        return True
    joined: list[frozenset[Source]] = []
    contracted: set[frozenset[frozenset[Source]]] = set()
    for op in _above(root):
        joined += [frozenset().union(*sizes) for sizes in _meeting(op)]
        contracted |= {frozenset(sizes) for sizes in _contracted(op)}
    for op in made:
        if any(len(set(sizes)) > 1 and not any(whole.issuperset(frozenset().union(*sizes)) for whole in joined) for sizes in _meeting(op)):
            return False
        if any(len(set(sizes)) > 1 and frozenset(sizes) not in contracted for sizes in _contracted(op)):
            return False
    return True


def _meeting(op: Operation) -> Iterator[Sizes]:
    """The axes along which operands are combined and at least one of the sizes is not known."""
    if not is_elementwise(op) and not isinstance(op, MATMUL):
        return
    shapes = [_shape(operand) for operand in op.operands]
    first = 3 if isinstance(op, MATMUL) else 1
    for place in range(first, max(map(len, shapes), default=0) + 1):
        sizes = [shape[-place] if place <= len(shape) else 1 for shape in shapes]
        if DYNAMIC in sizes:
            yield tuple(sources((operand, -place)) for operand, size in zip(op.operands, sizes, strict=True) if size != 1)


def _contracted(op: Operation) -> Iterator[Sizes]:
    if isinstance(op, MATMUL) and all(len(_shape(operand)) >= 2 for operand in op.operands):
        a, b = op.operands
        if DYNAMIC in (_shape(a)[-1], _shape(b)[-2]):
            yield sources((a, -1)), sources((b, -2))


def _above(root: Operation) -> Iterator[Operation]:
    """The root and what it is computed from, nearest first."""
    seen, waiting = {root}, [root]
    while waiting and len(seen) < _MAX_OPERATIONS:
        op = waiting.pop(0)
        yield op
        for operand in op.operands:
            if isinstance(operand.owner, Operation) and operand.owner not in seen:
                seen.add(operand.owner)
                waiting.append(operand.owner)


def _shape(value: SSAValue) -> tuple[int, ...]:
    return tuple(value.type.get_shape()) if isinstance(value.type, TensorType) else ()
