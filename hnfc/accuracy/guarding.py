"""The last word on branches: a form stays only where no point speaks against it.

Fresh points are drawn, even over the doubles and everyday ones. A form is replaced on its branch by the next best one, at last by the
program itself, if it is worse than the program at one of them, if the `where` of one of its rules fails at one, or if the remainder of
its series is not proved on the whole branch.
"""

from __future__ import annotations

import operator
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from hnfc.accuracy.branches import branch_ranges, taken
from hnfc.accuracy.evaluation import TermEvaluator
from hnfc.accuracy.everyday import everyday, short_numbers
from hnfc.accuracy.harm import costs, worse
from hnfc.accuracy.leaving import LARGEST, LEAST, extremes, leaving
from hnfc.accuracy.ordinals import bits_of_error
from hnfc.accuracy.points import Domain, Sample, draw, joined, measured, neighbours
from hnfc.accuracy.reach import proved
from hnfc.accuracy.reference import holds
from hnfc.accuracy.regimes import Bound, Leaf, Split, Tree, assembled, merged, narrowed, paths, splits
from hnfc.accuracy.search import Candidate, errors_of
from hnfc.accuracy.terms import Term, Terms

_ROUNDS = 8
_GROWN = 3
_FEWEST = 64
"""Rounds in all, rounds in which trees are grown anew, and points that a branch must keep when it is narrowed."""
_CLIMBS, _WORST, _NEIGHBOURS = 3, 40, 12
"""Rounds of the search around the worst points of a tree, points kept in each, and neighbours of each point."""


@dataclass
class Guard:
    """Objections to the candidates. lost: bits that a form may lose at an everyday point. unproved: whether conditions that fail and
    remainders without a proof are none. deadline: the processor time at which the program itself is the answer; a last resort."""

    terms: Terms
    domain: Domain
    original: Candidate
    candidates: list[Candidate]
    lost: float
    unproved: bool = False
    deadline: float = float("inf")
    sample: Sample | None = None
    of_everyday: Any = field(default_factory=lambda: np.zeros(0, bool))
    _evaluator: TermEvaluator | None = None
    _conditions: dict[Term, Any] = field(default_factory=dict)

    def see(self, even: Sample, daily: Sample) -> None:
        """Adds points."""
        fresh = joined(even, daily)
        kinds = np.arange(len(fresh)) >= len(even)
        self.sample = fresh if self.sample is None else joined(self.sample, fresh)
        self.of_everyday = np.concatenate([self.of_everyday, kinds])
        self._evaluator = TermEvaluator(self.sample.inputs)
        self._conditions = {}

    def guarded(self, grow: Callable[[Sample, Any], Tree], points: int, rng: np.random.Generator) -> Tree:
        """A tree of forms that nothing speaks against; the program itself where points go on to speak against them.

        grow: a tree for the usual points and those given besides, with whether they are everyday ones.
        """
        short = short_numbers(self.original.term, self.domain)
        self.see(short.part(slice(0, 0)), short)
        tree = grow(*self._counterexamples())
        for attempt in range(_ROUNDS):
            if time.process_time() > self.deadline:
                break
            self.see(draw(self.original.term, self.domain, points // 2, rng), everyday(self.original.term, self.domain, points, rng))
            if not self._refused(tree) and not self._refused_nearby(tree, rng):
                return merged(tree)
            tree = grow(*self._counterexamples()) if attempt < _GROWN else self.mended(tree)
        return Leaf(self.original)

    def _refused(self, tree: Tree) -> bool:
        return any(form is not self.original and not self._allowed(form, where, self._taken(where)) for where, form in paths(tree))

    def _refused_nearby(self, tree: Tree, rng: np.random.Generator) -> bool:
        """Return whether something speaks against the tree next to the everyday points where it loses most."""
        for _ in range(_CLIMBS):
            assert self.sample is not None and self._evaluator is not None
            before, after = (self._evaluator.values(t) for t in (self.original.term, assembled(self.terms, tree)))
            lost = bits_of_error(after, self.sample.exact) - bits_of_error(before, self.sample.exact)
            order = np.argsort(-np.where(self.of_everyday, lost, -64.0), kind="stable")[:_WORST]
            worst = order[lost[order] > 1]
            if not len(worst):
                return False
            places = np.repeat(worst, _NEIGHBOURS)
            moved = neighbours(self.domain, {name: x[places] for name, x in self.sample.inputs.items()}, rng)
            found = measured(self.original.term, self.domain, moved, len(places))
            self.see(found.part(slice(0, 0)), found)
            if self._refused(tree):
                return True
        return False

    def _counterexamples(self) -> tuple[Sample, Any]:
        """The points seen at which one of the candidates must not be used, and which of them are everyday ones."""
        assert self.sample is not None and self._evaluator is not None
        found = np.zeros(len(self.sample), bool)
        for candidate in self.candidates:
            found |= worse(candidate.term, self.original.term, self._evaluator, self.sample.exact, self.of_everyday, self.lost)
        return self.sample.part(found), self.of_everyday[found]

    def passes(self, tree: Tree, even: Sample, daily: Sample | None = None) -> bool:
        """Return whether nothing speaks against the tree at these points either, which are seen from now on."""
        self.see(even, even.part(slice(0, 0)) if daily is None else daily)
        return not self._refused(tree)

    def mended(self, tree: Tree) -> Tree:
        """The tree without forms that something speaks against: their branches are narrowed, or have other forms."""
        for split, within in splits(tree):
            for low, bound in ((True, (-np.inf, split.threshold)), (False, (split.threshold, np.inf))):
                leaf = split.low if low else split.high
                where = narrowed(within, split.feature, *bound)
                if isinstance(leaf, Leaf) and leaf.choice is not self.original:
                    other = self._narrowed(split, leaf, where) or self._other(leaf, where)
                    split.low, split.high = (other, split.high) if low else (split.low, other)
        return merged(self._other(tree, ()) if isinstance(tree, Leaf) and tree.choice is not self.original else tree)

    def _other(self, leaf: Leaf, where: tuple[Bound, ...]) -> Tree:
        here = self._taken(where)
        if self._allowed(leaf.choice, where, here):
            return leaf
        return self._where_parts_leave(leaf, where, here) or Leaf(self._next(leaf.choice, where, here))

    def _where_parts_leave(self, leaf: Leaf, where: tuple[Bound, ...], here: Any) -> Tree | None:
        """The form where parts of the program leave the format, and the program elsewhere; None where that is no better."""
        assert self.sample is not None and self._evaluator is not None
        exact, original = self.sample.exact, self.original.term
        parts = leaving(self.terms, original, self._evaluator, exact)
        if not parts:
            return None
        least, largest = extremes(self.terms, parts)
        inside = (self._evaluator.values(least) >= LEAST) & (self._evaluator.values(largest) < LARGEST)
        harm = here & worse(leaf.choice.term, original, self._evaluator, exact, self.of_everyday, self.lost)
        outside = here & ~inside
        before, after = (costs(self._evaluator.values(t), exact)[outside] for t in (original, leaf.choice.term))
        if not (harm & inside).any() or len(before) < _FEWEST or after.mean() > before.mean() - 1:
            return None
        if not self._allowed(leaf.choice, where, outside):
            return None
        within = Split(largest, (LARGEST / 2, LARGEST), LARGEST, Leaf(self.original), Leaf(leaf.choice))
        return Split(least, (LEAST / 2, LEAST), LEAST, Leaf(leaf.choice), within)

    def _narrowed(self, split: Split, leaf: Leaf, where: tuple[Bound, ...]) -> Tree | None:
        """The form where no point at which it is worse is near, and the program next to it; None where too few points would be left."""
        assert self.sample is not None and self._evaluator is not None
        here = self._taken(where)
        harm = here & worse(leaf.choice.term, self.original.term, self._evaluator, self.sample.exact, self.of_everyday, self.lost)
        if not harm.any() or leaf.choice.origin is not None:
            return None
        values = self._evaluator.values(split.feature)
        low = leaf is split.low
        nearest = float(values[harm].min()) / 2 if low else 2 * float(values[harm].max())
        kept = values[here] < nearest if low else values[here] >= nearest
        if not 0 < nearest < np.inf or kept.sum() < _FEWEST:
            return None
        threshold, beside = float(f"{nearest:.1e}"), split.high if low else split.low
        if isinstance(beside, Leaf) and beside.choice is self.original:
            split.threshold = threshold
            return leaf
        both = (leaf, Leaf(self.original)) if low else (Leaf(self.original), leaf)
        return Split(split.feature, (threshold, threshold), threshold, *both)

    def _next(self, refused: Candidate, where: tuple[Bound, ...], here: Any) -> Candidate:
        """The best candidate on a branch that nothing speaks against."""
        assert self.sample is not None and self._evaluator is not None
        others = [c for c in self.candidates if c is not refused]
        exact = self.sample.exact
        means = [float(errors_of(c, self._evaluator, exact)[here].mean()) if here.any() else 0.0 for c in others]
        for index in sorted(range(len(others)), key=lambda i: means[i]):
            if others[index] is self.original or self._allowed(others[index], where, here):
                return others[index]
        return self.original

    def _allowed(self, candidate: Candidate, where: tuple[Bound, ...], here: Any) -> bool:
        assert self.sample is not None and self._evaluator is not None
        harm = worse(candidate.term, self.original.term, self._evaluator, self.sample.exact, self.of_everyday, self.lost)
        if (harm & here).any():
            return False
        if self.unproved:
            return True
        if candidate.origin is not None and not self._proved(candidate, where):
            return False
        used = here if candidate.guard is None else here & self._evaluator.truth(candidate.guard)
        return all(self._holds(step.condition)[used].all() for step in candidate.steps if step.condition is not None)

    def _proved(self, candidate: Candidate, where: tuple[Bound, ...]) -> bool:
        if len(self.domain.names) > 1:
            return False
        place = branch_ranges(self.domain, where)[candidate.origin.place.variable.value]
        return proved(self.original.term, candidate.origin, place.lo, place.hi)

    def _holds(self, condition: Term) -> Any:
        assert self.sample is not None
        found = self._conditions.get(condition)
        if found is None:
            found = self._conditions[condition] = holds(condition, self.sample.inputs)
        return found

    def _taken(self, where: tuple[Bound, ...]) -> Any:
        assert self.sample is not None and self._evaluator is not None
        return taken(self._evaluator, where, len(self.sample))


def asking(terms: Terms, candidate: Candidate, original: Term) -> Candidate | None:
    """The form where the conditions of its rules hold as floating point computes them, and the program elsewhere."""
    parts = [part for step in candidate.steps if step.condition is not None for part in _parts(step.condition)]
    conditions = [part for part in dict.fromkeys(parts) if _settled(part) is not True]
    if candidate.guard is not None or not conditions or any(_settled(part) is False for part in conditions):
        return None
    guard = conditions[0]
    for condition in conditions[1:]:
        guard = terms.make("logical_and", guard, condition)
    return replace(candidate, term=terms.make("where", guard, candidate.term, original), guard=guard)


def _parts(condition: Term) -> list[Term]:
    """Conditions that hold together if it does."""
    return [part for arg in condition.args for part in _parts(arg)] if condition.op == "logical_and" else [condition]


def _settled(condition: Term) -> bool | None:
    """Compare two constants; None for anything else."""
    if condition.op != "compare" or any(arg.op != "const" for arg in condition.args):
        return None
    x, y = (arg.value for arg in condition.args)
    return bool(getattr(operator, condition.value)(x, y))
