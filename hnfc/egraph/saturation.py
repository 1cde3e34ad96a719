"""Equality saturation: rules are applied everywhere, nothing is thrown away, until nothing new comes or a limit is met."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from hnfc.dsl import core
from hnfc.dsl.description import describe
from hnfc.egraph.graph import EGraph, Reason
from hnfc.egraph.matching import ClassMatch, Direction, key_of, matches
from hnfc.egraph.search import Limits
from hnfc.rewrite.bindings import Binding
from hnfc.rewrite.builder import DoesNotFit, ReplacementBuilder
from hnfc.rewrite.conditions import ConditionChecker, Observations
from hnfc.rewrite.record import Statistics


@dataclass
class Saturation:
    """One run. assume: names of rules whose `where` the user asserts. `when` is advice that the cost makes needless."""

    graph: EGraph
    directions: Sequence[Direction]
    limits: Limits = field(default_factory=Limits)
    assume: frozenset[str] = frozenset()
    statistics: dict[str, Statistics] = field(default_factory=dict)
    stopped: str = ""
    """Limit that ended it; empty where it was saturated."""
    rounds: int = 0
    _most: int = 0
    _seen: set[tuple[Any, ...]] = field(default_factory=set)
    _banned_until: dict[int, int] = field(default_factory=dict)
    _bans: dict[int, int] = field(default_factory=dict)
    _looked: dict[int, int] = field(default_factory=dict)
    """The round from which on a direction has to look at what changed."""

    def run(self) -> None:
        self._most = max(self.limits.nodes, 6 * self.graph.nodes)
        deadline = time.monotonic() + self.limits.seconds
        graph = self.graph
        while True:
            found = self._search(deadline)
            graph.round += 1
            self.rounds += 1
            changed = self._apply(found, deadline)
            graph.rebuild()
            if self._stop(deadline):
                return
            if not changed and not any(until > graph.round for until in self._banned_until.values()):
                return

    def _stop(self, deadline: float) -> bool:
        if time.monotonic() > deadline:
            self.stopped = f"{self.limits.seconds:g} seconds"
        elif self.graph.nodes >= self._most:
            self.stopped = f"{self._most} nodes"
        elif self.rounds >= self.limits.rounds:
            self.stopped = f"{self.limits.rounds} rounds"
        return bool(self.stopped)

    def _search(self, deadline: float) -> list[ClassMatch]:
        graph, found = self.graph, []
        for index, direction in enumerate(self.directions):
            if self._banned_until.get(index, 0) > graph.round or time.monotonic() > deadline:
                continue
            since = self._looked.get(index, -1)
            nodes = [n for n in graph.by_operation.get(direction.pattern.operation, ()) if n.alive and graph.of(n.home).changed[0] >= since]
            limit = self.limits.matches << self._bans.get(index, 0)
            mine: list[ClassMatch] = []
            for each in matches(graph, direction, nodes):
                key = key_of(graph, each)
                if key not in self._seen:
                    mine.append(each)
                    if len(mine) > limit:
                        break
            if len(mine) > limit:
                self._bans[index] = self._bans.get(index, 0) + 1
                self._banned_until[index] = graph.round + (1 << self._bans[index])
                continue
            self._looked[index] = graph.round
            found += mine
        return found

    def _apply(self, found: Sequence[ClassMatch], deadline: float) -> bool:
        changed = False
        for each in found:
            key = key_of(self.graph, each)
            if key in self._seen or not each.node.alive:
                continue
            if self.graph.nodes >= self._most or time.monotonic() > deadline:
                break
            self._seen.add(key)
            changed |= self._one(each)
        return changed

    def _one(self, found: ClassMatch) -> bool:
        rule, graph = found.direction.compiled.rule, self.graph
        statistics = self.statistics.setdefault(rule.name, Statistics())
        statistics.matched += 1
        given = given_at(graph, found, self.assume)
        if given is None:
            statistics.blocked["where"] += 1
            # what is not known now may be known once intervals are narrower
            self._seen.discard(key_of(graph, found))
            return False
        reason = Reason(rule.name, given, found.premises, found.direction.compiled.backwards)
        built = replacement(graph, found, reason)
        if built is None:
            statistics.blocked["types"] += 1
            return False
        join = graph.union if found.direction.both else graph.put_instead
        changed = join(found.node.home, built, reason)
        statistics.applied += changed
        return changed


def given_at(graph: EGraph, found: ClassMatch, assume: frozenset[str]) -> str | None:
    """Facts from which the rule's `where` was shown; empty where it has none, None where it is not known to hold."""
    rule = found.direction.compiled.rule
    if rule.where is core.TRUE:
        return ""
    judge = ConditionChecker(found.match, graph.ranges, Observations())
    holds = judge.judge(rule.where).holds
    judge.close()
    if not holds and rule.name not in assume:
        return None
    return describe(rule.where) + (" (on your word)" if rule.name in assume else "")


def replacement(graph: EGraph, found: ClassMatch, reason: Reason) -> int | None:
    """The class of the right side at a match; None where it does not fit."""
    match = found.match
    bindings: dict[str, Binding] = dict(match.bindings)
    kind = match.root.results[0].type
    builder = ReplacementBuilder(bindings, kind.element_type)  # type: ignore[attr-defined]
    try:
        value = builder.finish(match)
    except DoesNotFit:
        builder.discard()
        return None
    for operation in builder.operations:
        graph.add(operation, reason)
    return graph.home[value]
