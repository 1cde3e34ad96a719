"""The search by equality saturation: beside what greedy found, everything that the rules make equal, and the cheapest of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from xdsl.ir import Block, Operation, SSAValue

from hnfc.analysis.ranges import WeightReader
from hnfc.dialects.interval import Interval
from hnfc.dsl import core
from hnfc.egraph.extraction import Choice, extract
from hnfc.egraph.graph import Node, Reason
from hnfc.egraph.matching import Direction, directions
from hnfc.egraph.pricing import Pricing
from hnfc.egraph.program import Program
from hnfc.egraph.saturation import Saturation
from hnfc.egraph.values import ClassValues
from hnfc.rewrite.greedy import erase_dead
from hnfc.rewrite.record import Outcome, Rewrite
from hnfc.search import Search
from hnfc.verdicts import verdicts

Array: TypeAlias = "np.ndarray[Any, Any]"
MAX_SAMPLES = 3
"""Samples on which costs are estimated."""


def both_ways(rules: Sequence[core.Rule]) -> list[Direction]:
    """Every way to read the rules in an e-graph; a rule written `=>` is read backwards too where that is proved."""
    reversible = verdicts([replace(rule, both_ways=True) for rule in rules if rule.within is None])
    return [d for rule in rules if rule.within is None for d in directions(rule, reversible[rule.name].proved)]


@dataclass
class Explorer:
    """A program as it was before the greedy search, to which that one's result is added: what is found is never dearer than it."""

    search: Search
    block: Block
    program: Program
    rules: Sequence[core.Rule]
    """Those of all phases; the equal forms of the search come besides."""
    place: Callable[[Operation], str]
    assume: frozenset[str] = frozenset()
    weights: WeightReader | None = None
    samples: Sequence[Mapping[SSAValue, Array]] = ()

    @staticmethod
    def of(block: Block, search: Search, intervals: Mapping[SSAValue, Interval], **options: Any) -> Explorer:
        return Explorer(search, block, Program.of(block, intervals, options.get("weights")), **options)

    def run(self, outcome: Outcome, origins: dict[Operation, Operation]) -> None:
        """Searches on from the result of the greedy search, and puts what is cheaper than it into the block and the outcome."""
        program, graph = self.program, self.program.graph
        made = {operation: rewrite for rewrite in outcome.rewrites for operation in rewrite.made}
        program.add(self.block.ops, reason=lambda operation: _reason(made.get(operation)))
        for old, new in ((old, outcome.final(old)) for old in list(outcome.replaced)):
            if old in program.inside and new in program.inside:
                graph.put_instead(program.class_of(old), program.class_of(new))
        program.join()
        graph.rebuild()
        values = ClassValues(graph, [self._inside(sample) for sample in self.samples[:MAX_SAMPLES]], self.weights)
        rules = list(dict.fromkeys((*self.rules, *self.search.forms)))
        names = {rule.name: rule for rule in rules}
        saturation = Saturation(graph, both_ways(rules), self.search.limits, self.assume)
        saturation.run()
        standing = program.standing()
        chosen, gain, optimal = self._cheapest(values, standing)
        outcome.notes.append(_told(saturation, gain, optimal))
        if chosen is None:
            return
        written = program.write(chosen)
        outcome.rewrites[:] = [rewrite for rewrite in outcome.rewrites if outcome.final(rewrite.after) not in written.replaced]
        for operation, node in written.made.items():
            origin = next((v.owner for v, new in written.replaced.items() if new is operation.results[0]), None)
            if isinstance(origin, Operation):
                origins[operation] = origin
        for old, new in written.replaced.items():
            outcome.replaced[old] = new
            node = written.made.get(new.owner) if isinstance(new.owner, Operation) else None
            for reason in _because(node) if node is not None else ():
                if reason.rule in names:
                    outcome.rewrites.append(Rewrite(names[reason.rule], self.place(_origin(old.owner, origins)), old, new, reason.given))
            if new.name_hint is None:
                new.name_hint = old.name_hint
        erase_dead([op for op in self.block.ops if op.results and not any(result.uses for result in op.results)])

    def _inside(self, sample: Mapping[SSAValue, Array]) -> dict[SSAValue, Array]:
        return {self.program.inside[value]: array for value, array in sample.items() if value in self.program.inside}

    def _cheapest(self, values: ClassValues, standing: Choice) -> tuple[Choice | None, float, bool]:
        """The cheapest choice that was found, None where it is the one that stands; how much of that one's cost it has; is it the best?"""
        program = self.program
        roots = program.needed()
        now = _needed(program, standing)
        pricing = Pricing(self.search, values, list(dict.fromkeys(now.values())))
        best, least, optimal = None, pricing.of(now, roots), True
        start = least
        surrogates = pricing.surrogates()
        for cost in surrogates:
            found = extract(program.graph, roots, cost, self.search.limits.seconds / 2 / len(surrogates), [standing])
            optimal = optimal and found.optimal
            price = pricing.of(found.chosen, roots)
            if price < least * (1 - 1e-9):
                best, least = found.chosen, price
        return best, least / start if start > 0 else 1.0, optimal and not pricing.measures


def _needed(program: Program, standing: Mapping[int, Node]) -> dict[int, Node]:
    found: dict[int, Node] = {}
    waiting = program.needed()
    while waiting:
        number = program.graph.find(waiting.pop())
        if number not in found:
            found[number] = standing[number]
            waiting += standing[number].children
    return found


def _reason(rewrite: Rewrite | None) -> Reason | None:
    return None if rewrite is None else Reason(rewrite.rule.name, rewrite.given, ())


def _because(node: Node) -> list[Reason]:
    """The rules that led to a node, the last one last."""
    found: dict[str, Reason] = {}
    waiting, seen = [node], {node}
    while waiting:
        current = waiting.pop()
        if current.reason is None:
            continue
        found.setdefault(current.reason.rule, current.reason)
        for premise in current.reason.premises:
            if premise not in seen:
                seen.add(premise)
                waiting.append(premise)
    return list(found.values())[::-1]


def _origin(operation: object, origins: Mapping[Operation, Operation]) -> Operation:
    assert isinstance(operation, Operation)
    while operation in origins:
        operation = origins[operation]
    return operation


def _told(saturation: Saturation, gain: float, optimal: bool) -> str:
    how = f"stopped after {saturation.stopped}" if saturation.stopped else "nothing more was to be found"
    result = f"{gain:.3g} times the cost of the greedy search's" if gain < 1 else "no cheaper than the greedy search's"
    exact = ", the least there is in it" if optimal else ""
    return f"equality saturation: {saturation.graph.nodes} operations in {saturation.rounds} rounds ({how}); the result is {result}{exact}"
