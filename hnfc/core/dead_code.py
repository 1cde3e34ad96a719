"""Dead code elimination."""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.ir import Operation
from xdsl.pattern_rewriter import PatternRewriter
from xdsl.rewriter import Rewriter

from hnfc.dialects.num import COMPUTING


def erase_dead(operations: Iterable[Operation], rewriter: PatternRewriter | None = None) -> None:
    """Erases pure operations that nothing uses, and what only they used; the listeners of the rewriter see it."""
    erase = Rewriter.erase_op if rewriter is None else rewriter.erase
    stack = list(operations)
    while stack:
        op = stack.pop()
        if op.parent is None or type(op) not in COMPUTING or any(result.uses for result in op.results):
            continue
        owners = [operand.owner for operand in op.operands]
        erase(op)
        stack += [owner for owner in owners if isinstance(owner, Operation)]
