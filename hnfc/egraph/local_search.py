"""Local search by single rewrites: a beam of the cheapest programs, and descents from random ones.

A program is a choice of one node for each class that it needs. A step makes new nodes and lets them stand for a class in this program
only, so that programs share everything else.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from hnfc.egraph.cost_model import Pricing
from hnfc.egraph.graph import EGraph, ENode, Reason
from hnfc.egraph.matching import ClassMatch, ClassMatching, Direction
from hnfc.egraph.problem import Choice
from hnfc.egraph.saturation import given_at, replacement
from hnfc.egraph.search import Limits
from hnfc.rewrite.bindings import Bindings
from hnfc.rewrite.nary_terms import Item, Root
from hnfc.rewrite.pattern import OperationPattern

REACH = 5
"""Greatest height of a pattern's root above a change that it sees."""
PATIENCE = 4
"""Steps that may go by without a cheaper program."""
_STEPS = 40
_LOOKED_AT = 4
"""Steps that are priced, as a multiple of the beam's width, those first that change the price most at their place."""


class _ChosenMatching(ClassMatching):
    """Fits patterns to what one program computes."""

    def __init__(self, graph: EGraph, chosen: Choice) -> None:
        super().__init__(graph)
        self.chosen = chosen

    def operation(self, pattern: OperationPattern, item: Item, bindings: Bindings) -> Iterator[Bindings]:
        if not isinstance(item, Root):
            node = self.chosen.get(self.graph.class_of(item))
            if node is not None:
                yield from self.node(pattern, node, bindings)


@dataclass(frozen=True)
class LocalStep:
    """At a class: another class stands for it. gain: what that saves at the place, by the cost of operations."""

    place: int
    built: int
    gain: float


@dataclass
class SearchState:
    """A program, its price, and the steps that can be taken from it."""

    chosen: Choice
    price: float
    steps: dict[int, list[LocalStep]] = field(default_factory=dict)


@dataclass
class Walk:
    """looked: how many programs were priced. stopped: the limit that ended the search, if one did."""

    graph: EGraph
    rules: Sequence[Direction]
    pricing: Pricing
    roots: Sequence[int]
    limits: Limits
    assume: frozenset[str] = frozenset()
    looked: int = 0
    stopped: str = ""
    _rules: dict[type, list[Direction]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._deadline = time.monotonic() + self.limits.seconds
        self._cost = self.pricing.surrogates()[-1]
        for rule in self.rules:
            self._rules.setdefault(rule.pattern.operation, []).append(rule)

    def beam(self, starts: Sequence[Choice]) -> SearchState:
        """Keeps the `width` cheapest programs, takes every step from each, and goes on until none has become cheaper for some steps."""
        states = [self._begun(chosen) for chosen in starts]
        best = min(states, key=lambda state: state.price)
        seen = {_name(state.chosen) for state in states}
        waited = 0
        while waited < PATIENCE and not self._late():
            following: list[SearchState] = []
            for state in states:
                for step in self._promising(state, _LOOKED_AT * self.limits.width):
                    new = self._after(state, step)
                    if new is not None and (name := _name(new.chosen)) not in seen:
                        seen.add(name)
                        following.append(new)
            if not following:
                break
            states = sorted(following, key=lambda state: state.price)[: self.limits.width]
            waited += 1
            if states[0].price < best.price * (1 - 1e-9):
                best, waited = states[0], 0
        return best

    def restarts(self, starts: Sequence[Choice]) -> SearchState:
        """Goes down to where no step is cheaper, then takes some steps at random and goes down again, as often as the limit says."""
        draw = random.Random(0)
        best = min((self._descended(self._begun(chosen)) for chosen in starts), key=lambda state: state.price)
        for _ in range(self.limits.restarts):
            state = best
            for _ in range(draw.randint(1, PATIENCE)):
                steps = [step for steps in state.steps.values() for step in steps]
                new = self._after(state, draw.choice(steps)) if steps else None
                state = new if new is not None else state
            if self._late():
                break
            state = self._descended(state)
            if state.price < best.price * (1 - 1e-9):
                best = state
        return best

    def _descended(self, state: SearchState) -> SearchState:
        for _ in range(_STEPS):
            following = [self._after(state, step) for step in self._promising(state, self.limits.width)]
            cheapest = min((new for new in following if new is not None), key=lambda new: new.price, default=state)
            if cheapest.price >= state.price * (1 - 1e-9) or self._late():
                return state
            state = cheapest
        return state

    def _late(self) -> bool:
        if time.monotonic() > self._deadline:
            self.stopped = f"{self.limits.seconds:g} seconds"
        return bool(self.stopped)

    def _begun(self, chosen: Choice) -> SearchState:
        self.looked += 1
        state = SearchState(chosen, self.pricing.of(chosen, self.roots))
        self._find_steps(state, list(chosen))
        return state

    def _promising(self, state: SearchState, most: int) -> list[LocalStep]:
        steps = [step for steps in state.steps.values() for step in steps]
        return sorted(steps, key=lambda step: -step.gain)[:most]

    def _after(self, state: SearchState, step: LocalStep) -> SearchState | None:
        """The program after a step; None where a value would need itself, or the time is up."""
        if self._late():
            return None
        chosen = dict(state.chosen)
        new = self._complete(chosen, step.built)
        chosen[step.place] = chosen[self.graph.find(step.built)]
        chosen = self._reachable(chosen)
        if not chosen:
            return None
        self.looked += 1
        steps = {place: known for place, known in state.steps.items() if place in chosen}
        after = SearchState(chosen, self.pricing.of(chosen, self.roots), steps)
        self._find_steps(after, [*(number for number in new if number in chosen), *self._above(chosen, step.place)])
        return after

    def _complete(self, chosen: Choice, number: int) -> list[int]:
        """Chooses a node for each class that `number` needs and that has none."""
        new, waiting = [], [number]
        while waiting:
            current = self.graph.find(waiting.pop())
            if current not in chosen:
                chosen[current] = min(self.graph.of(current).nodes, key=lambda node: (len(node.children), node.serial))
                new.append(current)
                waiting += chosen[current].children
        return new

    def _reachable(self, chosen: Choice) -> Choice:
        """Part of a choice that the roots need; empty where it has a cycle."""
        graph = self.graph
        found: Choice = {}
        open_: set[int] = set()
        stack = [graph.find(root) for root in self.roots]
        while stack:
            current = stack[-1]
            if current in found:
                stack.pop()
                open_.discard(current)
                continue
            open_.add(current)
            missing = [child for child in map(graph.find, chosen[current].children) if child not in found]
            if any(child in open_ for child in missing):
                return {}
            if missing:
                stack += dict.fromkeys(missing)
                continue
            stack.pop()
            open_.discard(current)
            found[current] = chosen[current]
        return found

    def _above(self, chosen: Choice, place: int) -> list[int]:
        """The place and the classes above it that a pattern which sees it can begin at."""
        users: dict[int, list[int]] = {}
        for number, node in chosen.items():
            for child in node.children:
                users.setdefault(self.graph.find(child), []).append(number)
        found = {place: None} if place in chosen else {}
        layer = [place]
        for _ in range(REACH):
            layer = [user for number in layer for user in users.get(number, ()) if user not in found]
            found.update(dict.fromkeys(layer))
        return list(found)

    def _find_steps(self, state: SearchState, places: Sequence[int]) -> None:
        for place in dict.fromkeys(places):
            state.steps[place] = [] if self._late() else list(self._steps_at(state, place))

    def _steps_at(self, state: SearchState, place: int) -> Iterator[LocalStep]:
        node = state.chosen[place]
        if node.operation is None:
            return
        built: set[int] = set()
        for rule in self._rules.get(type(node.operation), ()):
            matching = _ChosenMatching(self.graph, state.chosen)
            for bindings in matching.node(rule.pattern, node, {}):
                found = ClassMatch(rule, node, bindings, tuple(matching.used))
                given = given_at(self.graph, found, self.assume)
                compiled = rule.compiled
                reason = Reason(compiled.rule.name, given or "", found.premises, compiled.backwards)
                new = None if given is None else replacement(self.graph, found, reason)
                self.graph.rebuild()
                if new is not None and self.graph.find(new) != place and new not in built:
                    built.add(new)
                    yield LocalStep(place, new, self._gain(state.chosen, node, new))

    def _gain(self, chosen: Choice, old: ENode, new: int) -> float:
        added = dict(chosen)
        return self._cost(old) - sum(self._cost(added[number]) for number in self._complete(added, new))


def _name(chosen: Choice) -> frozenset[int]:
    """Key of a program."""
    return frozenset(node.serial for node in chosen.values())
