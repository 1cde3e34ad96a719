"""The search by equality saturation: beside what greedy found, everything that the rules make equal, and the cheapest of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from xdsl.ir import Block, Operation, SSAValue

from hnfc.core.dead_code import erase_dead
from hnfc.core.interpreter import WeightReader
from hnfc.core.verdicts import backwards, verdicts
from hnfc.dialects.interval import Interval
from hnfc.dsl import core
from hnfc.egraph.cost_model import Pricing
from hnfc.egraph.extraction import extract
from hnfc.egraph.graph import EGraph, ENode, Reason
from hnfc.egraph.local_search import Walk
from hnfc.egraph.matching import Direction, directions
from hnfc.egraph.problem import Choice
from hnfc.egraph.program import Program
from hnfc.egraph.saturation import Saturation
from hnfc.egraph.search import Search
from hnfc.egraph.values import ClassValues
from hnfc.rewrite.record import Rewrite, RewriteOutcome

Array: TypeAlias = "np.ndarray[Any, Any]"
LEAST_GAIN = 0.02
"""The part of the cost that a program must save to take the place of greedy's."""
GAP = 1e-3
"""The part by which a choice may cost more than the cheapest one."""
_MENDING = ("stability", "cancellation")
"""Groups of rules whose left side loses digits or leaves the format earlier than the right side."""
Found: TypeAlias = "tuple[Choice | None, float, str]"
"""A choice, if one is cheaper; how much of the cost it has; and how it was found."""


def both_ways(rules: Sequence[core.Rule]) -> list[Direction]:
    """Every way to read the rules in an e-graph; a rule written `=>` is read backwards too where that is proved.

    Rules that are there for the accuracy of their right side are not: no search makes a form that they would mend.
    """
    rules = [rule for rule in rules if not rule.parameters]
    reversible = verdicts(backwards(rules))
    return [
        direction
        for rule in rules
        if rule.within is None
        for direction in directions(rule, reversible[rule.name].proved and (rule.both_ways or rule.group not in _MENDING))
    ]


@dataclass
class Explorer:
    """A program as it was before the greedy search, to which that one's result is added: what is found is never dearer than it."""

    search: Search
    block: Block
    program: Program
    rules: Sequence[core.Rule]
    """Rules of all phases, and equal forms."""
    place: Callable[[Operation], str]
    assume: frozenset[str] = frozenset()
    weights: WeightReader | None = None
    samples: Sequence[Mapping[SSAValue, Array]] = ()
    truth: Sequence[Mapping[SSAValue, Array]] = ()
    """Exact values of the program on the samples, of those that are known."""
    taken: Sequence[SSAValue] = ()
    """The values that the roots were before the greedy search."""
    first: Choice = field(default_factory=dict)
    """The program before the greedy search."""

    @staticmethod
    def of(block: Block, search: Search, intervals: Mapping[SSAValue, Interval], **options: Any) -> Explorer:
        program = Program.of(block, intervals, options.get("weights"))
        taken = tuple(operation.operands[index] for operation, index, _ in program.roots)
        return Explorer(search, block, program, first=program.standing(), taken=taken, **options)

    def run(self, outcome: RewriteOutcome, origins: dict[Operation, Operation]) -> None:
        """Searches on from the result of the greedy search, and puts what is cheaper than it into the block and the outcome."""
        program, graph = self.program, self.program.graph
        made = {operation: rewrite for rewrite in outcome.rewrites for operation in rewrite.made}
        program.add(self.block.ops, reason=lambda operation: _reason(made.get(operation)))
        # what is only near is no equal: it may stand at the outputs, as greedy has it, and says nothing of ranges
        exact = all(rewrite.rule.within is None for rewrite in outcome.rewrites)
        for old, new in ((old, outcome.final(old)) for old in list(outcome.replaced) if exact):
            if old in program.inside and new in program.inside:
                graph.put_instead(program.class_of(old), program.class_of(new))
        program.join()
        graph.rebuild()
        values = ClassValues(graph, [self._inside(sample) for sample in self.samples], self.weights)
        values.truth.update(self._known_roots())
        names = {rule.name: rule for rule in self.rules}
        ways = both_ways(list(names.values()))
        found = self._saturated(values, ways) if self.search.kind == "egraph" else self._walked(values, ways)
        chosen, gain, note = found
        result = f"{gain:.3g} times the cost of the greedy search's" if chosen is not None else "no cheaper than the greedy search's"
        outcome.notes.append(f"{note}; the result is {result}")
        if chosen is None:
            return
        written = program.write(chosen)
        outcome.rewrites[:] = [rewrite for rewrite in outcome.rewrites if outcome.final(rewrite.after) not in written.replaced]
        for old, new in written.replaced.items():
            if isinstance(old.owner, Operation) and isinstance(new.owner, Operation) and new.owner in written.made:
                origins[new.owner] = old.owner
        for old, new in written.replaced.items():
            outcome.replaced[old] = new
            origin = written.made.get(new.owner) if isinstance(new.owner, Operation) else None
            start = graph.home[program.inside[old]] if old in program.inside else -1
            if origin is None and start >= 0:
                # what was there before stands for it now
                origin = written.roots.get(old, chosen.get(graph.find(start)))
            for reason in because(graph, start, origin, chosen) if origin is not None and start >= 0 else ():
                if reason.rule in names:
                    place = self.place(_origin(old.owner, origins))
                    outcome.rewrites.append(Rewrite(names[reason.rule], place, old, new, reason.given, backwards=reason.backwards))
            if new.name_hint is None:
                new.name_hint = old.name_hint
        erase_dead([op for op in self.block.ops if op.results and not any(result.uses for result in op.results)])

    def _known_roots(self) -> dict[int, list[Array]]:
        """Root values by their e-classes."""
        if len(self.truth) != len(self.samples):
            return {}
        pairs = zip(self.program.roots, self.taken, strict=True)
        return {n: [known[v] for known in self.truth] for (_, _, n), v in pairs if all(v in known for known in self.truth)}

    def _inside(self, sample: Mapping[SSAValue, Array]) -> dict[SSAValue, Array]:
        return {self.program.inside[value]: array for value, array in sample.items() if value in self.program.inside}

    def _saturated(self, values: ClassValues, rules: Sequence[Direction]) -> Found:
        """The cheapest of all that the rules make equal, as far as the limits let them."""
        graph, roots, limits = self.program.graph, self.program.needed(), self.search.limits
        saturation = Saturation(graph, rules, limits, self.assume)
        saturation.run()
        standing = self.program.standing()
        now = needed(graph, roots, standing)
        pricing = Pricing(self.search, values, list(dict.fromkeys(now.values())))
        best, least, optimal = None, pricing.of(now, roots), not pricing.measures
        start = least
        surrogates = pricing.surrogates()
        for cost in surrogates:
            found = extract(graph, roots, cost, limits.seconds / 2 / len(surrogates), [standing], GAP)
            optimal = optimal and found.optimal
            price = pricing.of(found.chosen, roots)
            if price < least * (1 - LEAST_GAIN):
                best, least = found.chosen, price
        how = f"stopped after {saturation.stopped}" if saturation.stopped else "nothing more was to be found"
        exact = f", the cheapest in it to {GAP:.1%}" if optimal else ""
        note = f"equality saturation: {graph.nodes} operations in {saturation.rounds} rounds ({how}){exact}"
        return best, least / start if start > 0 else 1.0, note

    def _walked(self, values: ClassValues, rules: Sequence[Direction]) -> Found:
        """The cheapest of what single steps lead to, from the program as it was and from what greedy made of it."""
        graph, roots = self.program.graph, self.program.needed()
        standing = needed(graph, roots, self.program.standing())
        pricing = Pricing(self.search, values, list(dict.fromkeys(standing.values())))
        start = pricing.of(standing, roots)
        walk = Walk(graph, rules, pricing, roots, self.search.limits, self.assume)
        best = (walk.beam if self.search.kind == "beam" else walk.restarts)([standing, needed(graph, roots, self.first)])
        note = f"{self.search.kind}: {walk.looked} programs looked at" + (f" (stopped after {walk.stopped})" if walk.stopped else "")
        if best.price < start * (1 - LEAST_GAIN):
            return best.chosen, best.price / start, note
        return None, 1.0, note


def needed(graph: EGraph, roots: Sequence[int], standing: Mapping[int, ENode]) -> Choice:
    """Part of a choice that the roots need. A root that the choice knows by another name has the node of the first that it stands for."""
    found: Choice = {}
    waiting = list(roots)
    while waiting:
        number = graph.find(waiting.pop())
        if number not in found:
            node = standing.get(number)
            found[number] = node if node is not None else standing[next(n for n in graph.standing(number) if n in standing)]
            waiting += found[number].children
    return found


def _reason(rewrite: Rewrite | None) -> Reason | None:
    return None if rewrite is None else Reason(rewrite.rule.name, rewrite.given, (), rewrite.backwards)


def because(graph: EGraph, start: int, node: ENode, chosen: Mapping[int, ENode]) -> list[Reason]:
    """The rules by which a node, with what was chosen below it, equals the class `start`: those of the unions between them, those that
    made the nodes, and those of what their left sides were found in; the first ones first.

    A rule that did no more than make one class of what a name stood for twice may not be among them.
    """
    found: dict[str, Reason] = {}
    waiting: list[tuple[int, ENode, bool]] = [(start, node, True)]
    """Nodes, the classes that they are to be equal to, and whether they were chosen."""
    seen: set[tuple[int, ENode, bool]] = set()

    def add(reason: Reason) -> None:
        if reason.rule not in found:
            found[reason.rule] = reason
        waiting.extend((premise.home, premise, False) for premise in reason.premises)
        for child in dict.fromkeys(child for premise in reason.premises for child in premise.born):
            waiting.extend((child, premise, False) for premise in reason.premises if graph.find(premise.home) == graph.find(child))

    def join(a: int, b: int) -> None:
        """Adds what makes b equal to a, or lets it stand for a."""
        pairs = [(a, b)]
        for first, second in pairs:
            if graph.find(first) != graph.find(second):
                for reason in graph.stand_in(first, second):
                    add(reason)
                continue
            for why in graph.path(first, second):
                if isinstance(why, Reason):
                    add(why)
                elif why is not None:
                    one, other = (list(node.born) for node in why)
                    # of a commutative operation the operands may be in another order
                    alike = all(graph.find(x) == graph.find(y) for x, y in zip(one, other, strict=True))
                    pairs += [p for p in zip(one, other if alike else other[::-1], strict=True) if p not in pairs]

    while waiting:
        place, current, is_chosen = entry = waiting.pop()
        if entry in seen:
            continue
        seen.add(entry)
        join(place, current.home)
        if current.reason is not None:
            add(current.reason)
            # what a name of the rule stands for may have been one class with what the new node takes
            taken = dict.fromkeys(child for premise in current.reason.premises for child in premise.born)
            for child in current.born:
                for other in taken:
                    if other != child and graph.find(other) == graph.find(child):
                        join(other, child)
        if is_chosen:
            waiting.extend((child, chosen[graph.find(child)], True) for child in current.born)
    return list(found.values())[::-1]


def _origin(operation: object, origins: Mapping[Operation, Operation]) -> Operation:
    assert isinstance(operation, Operation)
    while operation in origins:
        operation = origins[operation]
    return operation
