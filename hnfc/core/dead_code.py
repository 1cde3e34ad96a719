"""Dead code elimination."""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.ir import Operation

from hnfc.dialects.num import COMPUTING


def erase_dead(operations: Iterable[Operation]) -> None:
    """Erases pure operations that nothing uses, and what only they used."""
    stack = list(operations)
    while stack:
        op = stack.pop()
        if op.parent is None or type(op) not in COMPUTING or any(result.uses for result in op.results):
            continue
        owners = [operand.owner for operand in op.operands]
        op.detach()  # type: ignore[no-untyped-call]
        op.drop_all_references()
        stack += [owner for owner in owners if isinstance(owner, Operation)]
