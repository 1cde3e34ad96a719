"""Value numbers: two values have the same number if they are computed by the same operations from the same inputs."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from xdsl.ir import Attribute, Block, Operation, SSAValue

from hnfc.dialects.num import COMMUTATIVE, OPERATIONS
from hnfc.dialects.num.base import NumOp

_NEVER_EQUAL = (OPERATIONS["opaque"],)


class Numbering:
    """Numbers values on demand, operands first; what was numbered once keeps its number."""

    def __init__(self) -> None:
        self._numbers: dict[SSAValue, int] = {}
        self._keys: dict[tuple[Any, ...], int] = {}

    def of(self, value: SSAValue) -> int:
        known = self._numbers.get(value)
        if known is not None:
            return known
        stack = [value]
        while stack:
            current = stack[-1]
            if current in self._numbers:
                stack.pop()
                continue
            owner = current.owner
            missing = [v for v in owner.operands if v not in self._numbers] if isinstance(owner, Operation) else []
            if missing:
                stack += missing
                continue
            stack.pop()
            self._numbers[current] = self._fresh(current, owner if isinstance(owner, Operation) else None)
        return self._numbers[value]

    def _fresh(self, value: SSAValue, owner: Operation | None) -> int:
        if not isinstance(owner, NumOp) or isinstance(owner, _NEVER_EQUAL):
            return len(self._numbers)
        operands = [self._numbers[operand] for operand in owner.operands]
        if type(owner) in COMMUTATIVE:
            operands.sort()
        position = owner.results.index(value) if len(owner.results) > 1 else 0
        # what the operands do not tell is in the result's type
        type_ = value.type if owner.FROM_TYPE or not operands else None
        key = (owner.name, position, type_, properties_of(owner), *operands)
        return self._keys.setdefault(key, len(self._numbers))


def properties_of(op: Operation) -> tuple[tuple[str, Attribute], ...]:
    """The properties in an order that does not depend on how the operation was made."""
    found = tuple(op.properties.items())
    return found if len(found) < 2 else tuple(sorted(found, key=lambda item: item[0]))


def eliminate_common(block: Block, made: Collection[Operation], replaced: dict[SSAValue, SSAValue]) -> None:
    """Drops each operation of `made` that computes again what one before it computes; notes in `replaced` what stands for it."""
    numbering = Numbering()
    first: dict[int, SSAValue] = {}
    for op in list(block.ops):
        if not isinstance(op, NumOp) or len(op.results) != 1:
            continue
        result = op.results[0]
        known = first.setdefault(numbering.of(result), result)
        if known is not result and op in made and known.type == result.type:
            replaced[result] = known
            result.replace_all_uses_with(known)
            op.detach()  # type: ignore[no-untyped-call]
            op.drop_all_references()
