"""The search for better forms: rules are tried where error arises, and what is best at some point is kept.

Best first over whole programs. Error arises at a subterm if its own operation, on the correctly rounded real values of its operands,
is far from its real value (Panchekha and others, PLDI 2015, section 4.3); only there rules are tried.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hnfc.accuracy.evaluation import TermEvaluator, apply
from hnfc.accuracy.harm import costs
from hnfc.accuracy.ordinals import Floats, bits_of_error
from hnfc.accuracy.points import Sample
from hnfc.accuracy.reach import Reach
from hnfc.accuracy.reference import LEVELS, Columns
from hnfc.accuracy.rules import RuleTable, RuleUse
from hnfc.accuracy.terms import Term, subterms
from hnfc.dialects.facts import Result
from hnfc.dialects.num import OPERATIONS
from hnfc.dsl.soundness.balls import precision


@dataclass(frozen=True)
class SearchLimits:
    """expansions: how many candidates are rewritten; candidates: how many are measured; size: nodes of one; enough: mean bits at which
    the search ends; seconds: a last resort, since results should not depend on the machine."""

    expansions: int = 60
    candidates: int = 1500
    size: int = 80
    enough: float = 0.05
    seconds: float = 2.0


@dataclass(eq=False)
class Candidate:
    """A form of the program, its error at each training point, and how it came about: rewriting steps, or `origin` (a series)."""

    term: Term
    errors: Floats
    steps: tuple[RuleUse, ...] = ()
    origin: Any = None
    plateau: int = 0
    reach: Reach | None = None
    """Of a series: the arguments where its remainder is proved; None where it is not needed."""
    guard: Term | None = None
    """Comparison that the term makes before it uses the steps; None where it uses them everywhere."""

    @property
    def mean(self) -> float:
        return float(self.errors.mean())


def errors_of(candidate: Candidate, evaluator: TermEvaluator, exact: Floats) -> Floats:
    """Its errors in bits; 64 where the `where` of a rule that it came by does not hold or a series is not proved, whatever it computes."""
    errors = costs(evaluator.values(candidate.term), exact)
    unused = False if candidate.guard is None else ~evaluator.truth(candidate.guard)
    for step in candidate.steps:
        if step.condition is not None:
            errors = np.where(evaluator.truth(step.condition) | unused, errors, 64.0)
    if candidate.reach is not None:
        x = evaluator.inputs[candidate.origin.place.variable.value]
        errors = np.where((x >= candidate.reach[0]) & (x <= candidate.reach[1]), errors, 64.0)
    return errors


@dataclass
class Pool:
    """All candidates measured so far; `best` is the least error at each point."""

    sample: Sample
    evaluator: TermEvaluator = field(init=False)
    found: dict[Term, Candidate] = field(default_factory=dict)
    best: Floats = field(init=False)

    def __post_init__(self) -> None:
        self.evaluator = TermEvaluator(self.sample.inputs)
        self.best = np.full(len(self.sample), 64.0)

    def add(
        self, term: Term, steps: tuple[RuleUse, ...] = (), origin: Any = None, plateau: int = 0, reach: Reach | None = None
    ) -> tuple[Candidate | None, float]:
        """The candidate, and by how many bits it lowers the mean of the least errors; None for a term that was seen."""
        if term in self.found:
            return None, 0.0
        candidate = Candidate(term, self.best, steps, origin, plateau, reach)
        candidate.errors = errors = errors_of(candidate, self.evaluator, self.sample.exact)
        self.found[term] = candidate
        better = np.minimum(self.best, errors)
        gain = float((self.best - better).mean())
        self.best = better
        return candidate, gain


def cover(
    found: Sequence[Candidate], errors: Floats, price: Callable[[Candidate], float], most: int = 14, least: float = 0.02
) -> list[Candidate]:
    """Few candidates with which the least error at each point is almost that of all, the best single one first; a candidate's price is
    added to its errors (candidates × points)."""
    priced = errors + np.array([price(c) for c in found])[:, None]
    means = priced.mean(axis=1)
    order = sorted(range(len(found)), key=lambda i: (round(float(means[i]), 3), found[i].term.size))
    rest, priced = [found[i] for i in order], priced[order]
    chosen: list[Candidate] = []
    reached = np.full(errors.shape[1], 64.0)
    while rest and len(chosen) < most:
        gains = np.maximum(reached - priced, 0).mean(axis=1)
        largest = float(gains.max())
        if largest < least:
            break
        near = np.flatnonzero(gains > largest - 0.01 - 0.01 * largest)
        pick = min((int(i) for i in near), key=lambda i: (rest[i].term.size, rest[i].term.index))
        chosen.append(rest[pick])
        reached = np.minimum(reached, priced[pick])
    return chosen


class Localizer:
    """Local error of terms, at a few of the training points."""

    def __init__(self, sample: Sample, count: int = 48) -> None:
        # the points that are easy to compute and those that are hard, in proportion
        order = np.argsort(sample.level, kind="stable")
        self.sample = sample.part(np.sort(order[:: max(1, len(sample) // count)]))
        self.groups = []
        for level in np.unique(self.sample.level):
            places = np.flatnonzero(self.sample.level == level)
            inputs = {name: x[places].tolist() for name, x in self.sample.inputs.items()}
            self.groups.append((places, Columns(inputs, len(places), LEVELS[min(int(level), len(LEVELS) - 1)])))
        self._exact: dict[Term, Floats] = {}
        self._local: dict[Term, float] = {}

    def exact(self, term: Term) -> Floats:
        """The rounded real values of a subterm."""
        found = self._exact.get(term)
        if found is None:
            found = np.full(len(self.sample), np.nan)
            for places, columns in self.groups:
                balls = columns.of(term)
                with precision(columns.bits):
                    found[places] = [float(ball) for ball in balls]
            self._exact[term] = found
        return found

    def local(self, term: Term) -> float:
        """The mean error, in bits, that the term's own operation makes."""
        found = self._local.get(term)
        if found is None:
            with np.errstate(all="ignore"):
                computed = apply(term, [self.exact(a) for a in term.args])
            exact = self.exact(term)
            errors = bits_of_error(computed, exact)
            known = ~np.isnan(exact)
            found = self._local[term] = float(errors[known].mean()) if known.any() else 0.0
        return found

    def hot(self, term: Term, most: int = 4, least: float = 0.1) -> list[Term]:
        """The subterms whose operations err most, the worst first."""
        places = [t for t in subterms(term) if t.args and t.op not in NO_NUMBERS]
        ranked = sorted(((self.local(t), t) for t in places), key=lambda pair: -pair[0])
        return [t for error, t in ranked[:most] if error >= least]


NO_NUMBERS = frozenset(name for name, operation in OPERATIONS.items() if operation.FACTS.result is Result.TRUTH or name == "where")


def search(pool: Pool, start: Sequence[Candidate], rules: RuleTable, localizer: Localizer, limits: SearchLimits) -> int:
    """Fills the pool with rewritten forms of the candidates given; how many were rewritten."""
    deadline = time.process_time() + limits.seconds
    queue: list[tuple[float, int, Candidate]] = []
    for candidate in start:
        heapq.heappush(queue, (candidate.mean, candidate.term.index, candidate))
    expanded = 0
    while queue and expanded < limits.expansions and len(pool.found) < limits.candidates:
        if pool.best.mean() <= limits.enough or time.process_time() > deadline:
            break
        _, _, candidate = heapq.heappop(queue)
        expanded += 1
        for place in _places(localizer.hot(candidate.term)):
            for step in rules.steps(place):
                term = rebuilt(candidate.term, place, step.after, rules)
                if term.size > limits.size:
                    continue
                new, gain = pool.add(term, (*candidate.steps, step), candidate.origin, candidate.plateau + 1, candidate.reach)
                if new is None:
                    continue
                if gain > 0.05:
                    new.plateau = 0
                key = new.mean - 8 * min(gain, 4.0) + 1.5 * new.plateau + 0.15 * new.term.size
                heapq.heappush(queue, (key, new.term.index, new))
    return expanded


def _places(hot: Sequence[Term]) -> list[Term]:
    """The subterms given and their operands: what cancels is often of the operands' making."""
    return list(dict.fromkeys([*hot, *(a for place in hot for a in place.args if a.args)]))


def rebuilt(term: Term, old: Term, new: Term, rules: RuleTable) -> Term:
    """The term with `new` for `old`, tidied along the way."""
    made: dict[Term, Term] = {old: new}

    def visit(node: Term) -> Term:
        found = made.get(node)
        if found is None:
            if not node.args or node.index < old.index:
                found = node
            else:
                args = tuple(visit(a) for a in node.args)
                found = node if args == node.args else rules.arithmetic.make(node.op, *args, value=node.value)
            made[node] = found
        return found

    return visit(term)
