"""The searches beyond greedy: what they may spend, what they minimise, and how their result gets back into the program."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
from xdsl.ir import Block, Operation, SSAValue

from hnfc.analysis.cost import Cost, CurvatureBits, Deepening, Flops, LostBits, Mix, Overflow, Time
from hnfc.analysis.ranges import WeightReader
from hnfc.dialects.interval import Interval
from hnfc.dsl import core
from hnfc.dsl.targets import Target
from hnfc.egraph.extraction import Choice, NodeCost, cost_of, extract
from hnfc.egraph.graph import Node, Reason
from hnfc.egraph.matching import Direction, directions
from hnfc.egraph.program import Program
from hnfc.egraph.running import lost_bits
from hnfc.egraph.saturation import Limits, Saturation
from hnfc.egraph.values import ClassValues
from hnfc.errors import UsageError
from hnfc.rewrite.greedy import erase_dead
from hnfc.rewrite.record import Outcome, Rewrite
from hnfc.verdicts import verdicts

Array: TypeAlias = "np.ndarray[Any, Any]"
SEARCHES = ("greedy", "beam", "restarts", "egraph")
COSTS = ("error", "curvature", "time", "flops")
MAX_SAMPLES = 3
"""Samples on which costs are estimated."""


@dataclass(frozen=True)
class Search:
    """kind: one of SEARCHES. costs: weights by name, each part taken relative to what the program costs before. growth: how much more
    the operations at the outputs count than those at the inputs. algebra: equal forms that saturation may go through."""

    kind: str = "greedy"
    costs: tuple[tuple[float, str], ...] = ((1.0, "error"), (0.01, "flops"))
    target: Target | None = None
    growth: float = 0.0
    algebra: tuple[core.Rule, ...] = ()
    limits: Limits = field(default_factory=Limits)
    width: int = 10
    """States that the beam keeps."""

    def part(self, name: str) -> Cost:
        match name:
            case "error":
                return LostBits()
            case "curvature":
                return CurvatureBits()
            case "time":
                if self.target is None:
                    raise UsageError("the cost `time` needs a target: --target h100")
                return Time(self.target)
        return Flops()


def parse_costs(text: str) -> tuple[tuple[float, str], ...]:
    """`error`, or `error + 0.1*time`. Raises UsageError."""
    parts = []
    for term in text.split("+"):
        weight, _, name = term.strip().rpartition("*")
        try:
            number = float(weight) if weight else 1.0
        except ValueError:
            number = math.nan
        if not (math.isfinite(number) and number >= 0) or name.strip() not in COSTS:
            raise UsageError(f"cannot read the cost `{term.strip()}`; write {', '.join(COSTS)}, or a mix such as error+0.1*flops")
        parts.append((number, name.strip()))
    return tuple(parts)


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
        rules = list(dict.fromkeys((*self.rules, *self.search.algebra)))
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
        for cost in pricing.surrogates():
            found = extract(program.graph, roots, cost, self.search.limits.seconds / 2, [standing])
            optimal = optimal and found.optimal
            price = pricing.of(found.chosen, roots)
            if price < least * (1 - 1e-9):
                best, least = found.chosen, price
        return best, least / start if start > 0 else 1.0, optimal and not pricing.measures


@dataclass
class Pricing:
    """What choices cost: each part of the mix relative to what the program that stands costs.

    Costs by operation add up, so that an integer program can minimise them. The error does not: the choices that are cheapest by what
    foretells it are run, and the one that errs least is taken.
    """

    search: Search
    values: ClassValues
    standing: Sequence[Node]
    _bits: float | None = None
    _whole: dict[str, float] = field(default_factory=dict)

    @property
    def measures(self) -> bool:
        return any(name == "error" for _, name in self.search.costs) and bool(self.values.samples)

    def surrogates(self) -> list[NodeCost]:
        """Costs by operation to choose by."""
        if not self.measures:
            return [self._price([(w, self.search.part(n)) for w, n in self.search.costs if n != "error"])]
        foretelling: tuple[tuple[Cost, ...], ...] = ((Overflow(),), (Overflow(), LostBits()), (Overflow(), CurvatureBits()))
        others = [(w, self.search.part(n)) for w, n in self.search.costs if n != "error"]
        weight = sum(w for w, n in self.search.costs if n == "error")
        return [self._price([*((weight, part) for part in parts), *others]) for parts in foretelling]

    def of(self, chosen: Choice, roots: Sequence[int]) -> float:
        """The cost of a choice as a whole."""
        others = [(w, self.search.part(n)) for w, n in self.search.costs if n != "error"]
        total = cost_of(chosen, self._price(others))
        if not self.measures:
            return total
        bits = lost_bits(self.values, chosen, roots)
        if self._bits is None:
            self._bits = bits
        return total + sum(w for w, n in self.search.costs if n == "error") * ((bits or 0.0) / (self._bits or 1.0))

    def _price(self, parts: Sequence[tuple[float, Cost]]) -> NodeCost:
        known: dict[Node, float] = {}
        mix: Cost = Mix(tuple((weight / (self._total(part) or 1.0), part) for weight, part in parts))
        if self.search.growth:
            mix = Deepening(mix, self.search.growth)

        def price(node: Node) -> float:
            if node not in known:
                known[node] = mix.of(node.operation, self.values) if node.operation is not None else 0.0
            return known[node]

        return price

    def _total(self, part: Cost) -> float:
        name = repr(part)
        if name not in self._whole:
            self._whole[name] = math.fsum(part.of(node.operation, self.values) for node in self.standing if node.operation is not None)
        return self._whole[name]


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
