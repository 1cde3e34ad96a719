"""Rewriting keeps the function over the reals, the types and the order of definitions, on random graphs.

Wherever the old value is defined, the new one is defined and equal: in ball arithmetic, on special values.
"""

from __future__ import annotations

from io import StringIO

import numpy as np
import pytest
from xdsl.ir import Block
from xdsl.printer import Printer

from hnfc.analysis.ranges import Ranges, interval_of_array
from hnfc.dialects.interval import Interval
from hnfc.dsl.rulebook import shipped
from hnfc.evaluate import evaluate
from hnfc.pipelines import LEVELS
from hnfc.rewrite.conditions import Observations
from hnfc.rewrite.greedy import Greedy, compile_rules, erase_dead
from hnfc.rewrite.lift import lift
from hnfc.rewrite.matcher import Matcher
from hnfc.rewrite.numbering import share
from hnfc.rewrite.record import Outcome
from tests.rewrite.random_graphs import Maker, difference, exactly

BOOK = shipped()
PLANS = {name: [Matcher(compile_rules(BOOK.only(groups).rules)) for groups in phases] for name, phases in LEVELS.items() if phases}
PLANS["every rule at once"] = [Matcher(compile_rules(BOOK.rules))]
SAMPLES = 3


def text(block: Block) -> str:
    stream = StringIO()
    Printer(stream=stream).print_block(block)
    return stream.getvalue()


def check(seed: int) -> int:
    """The number of rewrites of the graph of this seed; fails where one of them changes something."""
    element = "f16" if seed % 7 == 0 else "f32"
    maker = Maker(seed, BOOK.rules, element=element)
    graph = maker.graph
    block, arguments = graph.block, graph.args
    samples = [dict(zip(arguments, maker.arrays(seed * 10 + i), strict=True)) for i in range(SAMPLES)]
    before_text = text(block)
    old = [exactly(block, sample) for sample in samples]
    observed = [evaluate(block, sample) for sample in samples]
    intervals = {}
    for argument in arguments:
        found = [interval_of_array(sample[argument]) for sample in samples]
        intervals[argument] = Interval(min(i.lo for i in found), max(i.hi for i in found))
    for values in observed:
        known = Ranges(intervals)
        for value, array in values.items():
            interval = known.of(value)
            wide = np.asarray(array).astype(np.float64)
            inside = ((wide >= interval.lo) & (wide <= interval.hi)) | (np.isnan(wide) & interval.nan)
            assert inside.all(), f"seed {seed}: {value} = {wide} is not in {interval}\n{before_text}"
    results = list(block.last_op.operands)
    types = [value.type for value in results]
    name = sorted(PLANS)[seed % len(PLANS)]
    _, origins = lift(block)
    graph.verify()
    erase_dead([op for op in block.ops if not any(r.uses for r in op.results)])
    lifted_text = text(block)
    outcome = Outcome()
    for matcher in PLANS[name]:
        seen = [evaluate(block, sample) for sample in samples] if seed % 3 else []
        Greedy(matcher, Ranges(intervals if seed % 5 else {}), Observations(seen), origins=origins, outcome=outcome).run(block)
    share(block, origins.keys(), outcome.replaced)
    graph.verify()
    report = f"seed {seed}, {name}: {[r.rule.name for r in outcome.rewrites]}\n{before_text}\nlifted {lifted_text}\nis now {text(block)}"
    now = list(block.last_op.operands)
    assert [v.type for v in now] == types, report
    for sample, values in zip(samples, old, strict=True):
        new = exactly(block, sample)
        for a, b in zip(results, now, strict=True):
            if a in values and b in new:
                wrong = difference(values[a], new[b])
                assert not wrong, f"{wrong}, {report}\nfor {[v.tolist() for v in sample.values()]}"
    return len(outcome.rewrites)


def test_rewriting_keeps_the_function():
    assert sum(map(check, range(200))) > 100


@pytest.mark.slow
@pytest.mark.parametrize("start", range(1000, 41000, 1000))
def test_rewriting_keeps_the_function_of_many_graphs(start):
    assert sum(map(check, range(start, start + 1000))) > 500
