"""Operations a second: the whole library over generated modules, beside xDSL's own applier with the same rules one by one.

    python benchmarks/rewrite_speed.py [--peer 1000]

The module is a row of transformer blocks (attention, layer norm written out, a gated feed-forward part). In one block of
ten the softmax has no shift and silu is written as x/(1+exp(-x)); layer norms are written out in all of them.
"""

from __future__ import annotations

import argparse
import gc
import time
from typing import Any

from xdsl.dialects.builtin import FloatAttr, FunctionType, ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region, SSAValue
from xdsl.pattern_rewriter import GreedyRewritePatternApplier, PatternRewriteWalker

from hnfc.dialects.num import OPERATIONS
from hnfc.dialects.types import tensor
from hnfc.dsl import core
from hnfc.dsl.rulebook import shipped
from hnfc.rewrite.greedy import Greedy, RulePattern, compile_rules
from hnfc.rewrite.matcher import Matcher

SHAPE = (8, 64, 64)


class _Writer:
    def __init__(self, block: Block) -> None:
        self.block = block
        self.count = 0

    def add(self, name: str, *operands: Any, **attributes: Any) -> SSAValue:
        values = [o if isinstance(o, SSAValue) else self.number(o) for o in operands]
        operation = OPERATIONS[name].make(*values, **attributes)
        self.block.add_op(operation)
        self.count += 1
        return operation.results[0]

    def number(self, value: float) -> SSAValue:
        operation = OPERATIONS["constant"].create(result_types=[tensor("f32", ())], properties={"value": FloatAttr(value, 64)})
        self.block.add_op(operation)
        self.count += 1
        return operation.results[0]


def generate(operations: int) -> tuple[ModuleOp, Block, int]:
    """A module of about so many operations."""
    kind = tensor("f32", SHAPE)
    block = Block(arg_types=[kind, kind, kind])
    w = _Writer(block)
    x, weight, bias = block.args
    index = 0
    while w.count < operations:
        naive = index % 10 == 0
        index += 1
        mean = w.add("mean", x, axes=(2,))
        centered = w.add("sub", x, mean)
        variance = w.add("mean", w.add("square", centered), axes=(2,))
        h = w.add("div", centered, w.add("sqrt", w.add("add", variance, 1e-5)))
        q, k, v = (w.add("add", w.add("matmul", h, weight), bias) for _ in range(3))
        scores = w.add("div", w.add("matmul", q, w.add("transpose", k, perm=(0, 2, 1))), 8.0)
        if naive:
            weights = w.add("exp", scores)
            probabilities = w.add("div", weights, w.add("sum", weights, axes=(2,)))
        else:
            probabilities = w.add("softmax", scores, axes=(2,))
        attended = w.add("matmul", probabilities, v)
        x = w.add("add", x, w.add("matmul", attended, weight))
        gate = w.add("matmul", x, weight)
        if naive:
            gate = w.add("div", gate, w.add("add", w.add("exp", w.add("neg", gate)), 1.0))
        else:
            gate = w.add("silu", gate)
        up = w.add("mul", w.add("add", gate, bias), w.add("matmul", x, weight))
        x = w.add("add", x, w.add("matmul", up, weight))
    block.add_op(ReturnOp(x))
    function = FuncOp("main", FunctionType.from_lists([kind] * 3, [kind]), Region(block))
    return ModuleOp([function]), block, w.count


def ours(rules: list[core.Rule], operations: int) -> tuple[float, int, int]:
    """Seconds, operations, rewrites."""
    _, block, count = generate(operations)
    matcher = Matcher(compile_rules(rules))
    gc.collect()
    started = time.perf_counter()
    outcome = Greedy(matcher).run(block)
    return time.perf_counter() - started, count, len(outcome.rewrites)


def peer(rules: list[core.Rule], operations: int) -> tuple[float, int]:
    """xDSL's walker and applier over one pattern a rule."""
    module, _, count = generate(operations)
    walker = PatternRewriteWalker(GreedyRewritePatternApplier([RulePattern(rule) for rule in rules]))
    gc.collect()
    started = time.perf_counter()
    walker.rewrite_module(module)
    return time.perf_counter() - started, count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer", type=int, default=1000, help="operations for the comparison with xDSL's applier")
    options = parser.parse_args()
    rules = [
        rule for rule in shipped().rules if rule.group in ("canonical", "stability", "cancellation", "fusion", "movement", "reassociation")
    ]
    print(f"{len(rules)} rules\n{'operations':>10} {'seconds':>8} {'ops/s':>8} {'rewrites':>8}")
    for operations in (1_000, 10_000, 100_000):
        seconds, count, rewrites = ours(rules, operations)
        print(f"{count:>10} {seconds:>8.2f} {count / seconds:>8.0f} {rewrites:>8}")
    seconds, count, _ = ours(rules, options.peer)
    theirs, _ = peer(rules, options.peer)
    print(
        f"xDSL's applier, one pattern a rule, {count} operations: {theirs:.2f} s, {count / theirs:.0f} ops/s; ratio {theirs / seconds:.0f}"
    )


if __name__ == "__main__":
    main()
