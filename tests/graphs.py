"""Small `num` functions for tests, written as Python: `g.exp(x)` adds an operation and returns its value."""

from __future__ import annotations

from typing import Any

import numpy as np
from xdsl.dialects.builtin import FloatAttr
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Block, SSAValue

from hnfc.analysis.ranges import Ranges, interval_of_array
from hnfc.core.interpreter import evaluate
from hnfc.dialects.num import OPERATIONS
from hnfc.dialects.types import tensor
from hnfc.dsl import core
from hnfc.rewrite.conditions import Observations
from hnfc.rewrite.greedy import Greedy, compile_rules
from hnfc.rewrite.matcher import Matcher
from hnfc.rewrite.record import RewriteOutcome
from tests.soundness.reading import rules_of


class Graph:
    """A block under construction. Arguments are given as shapes, or as (element type, *shape)."""

    def __init__(self, *shapes: tuple[Any, ...]) -> None:
        types = [tensor(s[0], s[1:]) if s and isinstance(s[0], str) else tensor("f32", s) for s in shapes]
        self.block = Block(arg_types=types)

    @property
    def args(self) -> tuple[SSAValue, ...]:
        return tuple(self.block.args)

    def constant(self, number: float, element: str = "f32", shape: tuple[int, ...] = ()) -> SSAValue:
        op = OPERATIONS["constant"].create(result_types=[tensor(element, shape)], properties={"value": FloatAttr(float(number), 64)})
        self.block.add_op(op)
        return op.results[0]

    def __getattr__(self, name: str) -> Any:
        def add(*operands: Any, **attributes: Any) -> SSAValue:
            values = [o if isinstance(o, SSAValue) else self.constant(o) for o in operands]
            op = OPERATIONS[name.rstrip("_")].make(*values, **attributes)
            self.block.add_op(op)
            return op.results[0]

        return add

    def returns(self, *values: SSAValue) -> Graph:
        self.block.add_op(ReturnOp(*values))
        return self

    def rewrite(self, text: str | list[core.Rule], *inputs: Any) -> RewriteOutcome:
        """Runs the rules greedily; `inputs` become ranges and samples."""
        given = rules_of(text) if isinstance(text, str) else text
        arrays = {a: np.asarray(x) for a, x in zip(self.block.args, inputs, strict=False)}
        ranges = Ranges({a: interval_of_array(x) for a, x in arrays.items()})
        samples = [evaluate(self.block, arrays)] if arrays else []
        outcome = Greedy(Matcher(compile_rules(given)), ranges, Observations(samples)).run(self.block)
        self.verify()
        return outcome

    def verify(self) -> None:
        """Every operation's types, and that values are defined before they are used."""
        seen = set(self.block.args)
        for op in self.block.ops:
            assert all(operand in seen for operand in op.operands), op
            seen.update(op.results)
            if not isinstance(op, ReturnOp):
                op.verify()

    def names(self) -> list[str]:
        """The operations that are left, without constants and the return."""
        return [op.name.removeprefix("num.") for op in self.block.ops if op.name not in ("num.constant", "func.return")]

    def run(self, *inputs: Any) -> list[Any]:
        found = evaluate(self.block, {a: np.asarray(x) for a, x in zip(self.block.args, inputs, strict=True)})
        assert self.block.last_op is not None
        return [found[operand] for operand in self.block.last_op.operands]
