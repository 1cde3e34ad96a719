"""Branches: which of several forms is used where, as a tree of comparisons with thresholds.

The tree is grown on one half of a sample and cut back on the other, so that a branch stays only if it pays on points it was not
chosen for. A threshold is then moved by bisection, on fresh points between the two sampled ones that it separates.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial, reduce
from typing import TypeAlias

import numpy as np

from hnfc.accuracy.cascade import in_order, spread
from hnfc.accuracy.evaluation import TermEvaluator
from hnfc.accuracy.harm import worse
from hnfc.accuracy.leaving import LARGEST, LEAST, border, extremes, leaving
from hnfc.accuracy.ordinals import Floats, from_ordinal, to_ordinal
from hnfc.accuracy.points import Domain, Sample, draw, joined
from hnfc.accuracy.search import Candidate, errors_of
from hnfc.accuracy.splitting import LEAST_POINTS, ErrorTable, best_split
from hnfc.accuracy.terms import Term, Terms, subterms

_FORBIDDEN = 2000.0
"""Bits that count for a point at which a form must not be used."""
_DEPTH = 7
_BITS_OF_A_NODE = 0.005


def price_of(candidate: Candidate, arguments: int) -> float:
    """Least gain of a form in bits: a series in one of several arguments has no bound, and is wrong far from its place."""
    return 0.0 if candidate.origin is None else 0.02 if arguments == 1 else 2.0


@dataclass(eq=False)
class Leaf:
    choice: Candidate


@dataclass(eq=False)
class Split:
    """low where feature < threshold, else high; the threshold may be anywhere in (gap[0], gap[1]]."""

    feature: Term
    gap: tuple[float, float]
    threshold: float
    low: Tree
    high: Tree


Tree: TypeAlias = "Leaf | Split"


class Regimes:
    """Trees over the candidates, from a sample that was not searched on."""

    def __init__(
        self, terms: Terms, candidates: Sequence[Candidate], original: Term, even: Sample, daily: Sample, least: float, lost: float
    ) -> None:  # fmt: skip
        """least: mean bits over all points that a branch must gain. lost: bits that a form may lose at an everyday point."""
        self.terms = terms
        self.candidates = list(candidates)
        self.sample = sample = joined(even, daily)
        self.evaluator = TermEvaluator(sample.inputs)
        parts = leaving(terms, original, self.evaluator, sample.exact)
        self.ends = extremes(terms, parts) if parts else None
        self.leaving = dict.fromkeys([*parts, *(self.ends or ())])
        features = dict.fromkeys([*self._features(list(sample.inputs)), *self.leaving])
        of_everyday = np.arange(len(sample)) >= len(even)
        # however many everyday points there are, they count as much as the others
        weight = np.where(of_everyday, min(1.0, len(even) / max(len(daily), 1)), 1.0)

        def cost(c: Candidate) -> Floats:
            bad = worse(c.term, original, self.evaluator, sample.exact, of_everyday, lost)
            return np.asarray(weight * errors_of(c, self.evaluator, sample.exact) + _FORBIDDEN * bad)

        errors = np.stack([cost(c) for c in candidates], axis=1)
        prices = np.array([price_of(c, len(sample.inputs)) for c in candidates])
        sizes = np.array([_BITS_OF_A_NODE * c.term.size for c in candidates])
        # what is no number is not below any threshold
        values = [(f, np.where(np.isnan(v), np.inf, v)) for f in features for v in (self.evaluator.values(f),)]
        made = [None if c.origin or c.guard else spread(terms, c.term, self.evaluator) for c in candidates]
        spreads = [None if s is None else (s, self.evaluator.values(s)) for s in made]
        self.table = ErrorTable(errors, values, spreads, least * (len(even) // 2), prices, sizes)

    def _features(self, names: Sequence[str]) -> list[Term]:
        """Quantities that thresholds are set on: arguments, their sizes, the largest of these, and what rules compare with 0."""
        own = [self.terms.var(name) for name in names]
        sizes = [self.terms.make("abs", x) for x in own]
        largest = reduce(partial(self.terms.make, "maximum"), sizes)
        compared: list[Term] = []
        for candidate in self.candidates:
            for step in candidate.steps:
                for part in subterms(step.condition) if step.condition is not None else ():
                    if part.op == "compare" and part.args[1] is self.terms.zero and part.value not in ("eq", "ne"):
                        feature = part.args[0]
                        if feature.args and feature not in compared and feature not in sizes:
                            compared.append(feature)
        return [*own, *sizes, *([largest] if len(own) > 1 else []), *sorted(compared, key=lambda t: t.size)[:4]]

    def tree(self) -> Tree:
        """The tree for this sample; a single leaf where no branch pays."""
        order = np.arange(len(self.sample))
        first, second = (self.table.part(order % 2 == i) for i in (0, 1))
        tree, cost = self._cut(self._grow(first, _DEPTH), second)
        others = [] if self.ends is None else [self._by_format(first, self.ends)]
        for grown in [*others, *self._cascade(first)]:
            other, its_cost = self._cut(grown, second)
            # for the same number of leaves the ends of the format are the better reason
            if its_cost + second.added() * (len(list(leaves(other))) - len(list(leaves(tree)))) < cost:
                tree, cost = other, its_cost
        return tree

    def _cascade(self, table: ErrorTable) -> list[Tree]:
        """A chain of forms, each where its spread is below the largest number; none where no form has one."""
        within = np.stack([np.zeros(len(table.errors), bool) if s is None else s[1] < LARGEST for s in table.spreads], axis=1)
        if not within.any():
            return []
        last = table.best()
        tree: Tree = Leaf(self.candidates[last])
        for i in reversed(in_order(table.errors + table.prices, within, last, table.least + table.added())):
            known = table.spreads[i]
            assert known is not None
            tree = Split(known[0], (LARGEST / 2, LARGEST), LARGEST, Leaf(self.candidates[i]), tree)
        return [] if isinstance(tree, Leaf) else [tree]

    def _by_format(self, table: ErrorTable, ends: tuple[Term, Term]) -> Tree:
        """A tree that first asks whether parts of the program leave the format: whether the least of them underflows, or the largest
        overflows."""
        least, largest = map(table.values, ends)
        small, large = least < LEAST, (least >= LEAST) & (largest >= LARGEST)
        below, beyond, between = (self._grow(table.part(chosen), _DEPTH - 2) for chosen in (small, large, ~small & ~large))
        return Split(ends[0], (LEAST / 2, LEAST), LEAST, below, Split(ends[1], (LARGEST / 2, LARGEST), LARGEST, between, beyond))

    def _grow(self, table: ErrorTable, depth: int) -> Tree:
        cost, least = float(table.costs().min()), table.least + table.added()
        leaf = Leaf(self.candidates[table.best()])
        if depth == 0 or len(table.errors) < 2 * LEAST_POINTS or len(self.candidates) == 1:
            return leaf
        found = best_split(table)
        if found is None or cost - found[0] < least:
            # signs of two arguments may matter only together
            found = self._sign_pair(table, cost) or found
        if found is None or cost - found[0] < least:
            return leaf
        _, place, gap = found
        feature, values = table.features[place]
        threshold = _between(*gap)
        low = values < threshold
        return Split(feature, gap, threshold, self._grow(table.part(low), depth - 1), self._grow(table.part(~low), depth - 1))

    def _sign_pair(self, table: ErrorTable, cost: float) -> tuple[float, int, tuple[float, float]] | None:
        best: tuple[float, int, tuple[float, float]] | None = None
        for place, (feature, values) in enumerate(table.features):
            low = values < 0
            if feature.op != "var" or min(low.sum(), (~low).sum()) < 2 * LEAST_POINTS:
                continue
            total = 0.0
            for part in (table.part(low), table.part(~low)):
                found = best_split(part)
                whole = float(part.costs().min())
                total += min(whole, found[0]) if found is not None else whole
            if best is None or total < best[0]:
                best = total, place, (float(values[low].max()), float(values[~low].min()))
        return best if best is not None and cost - best[0] > 2 * table.least else None

    def _cut(self, tree: Tree, table: ErrorTable) -> tuple[Tree, float]:
        """The tree without the branches that do not pay on these points, and its cost there."""
        index = {id(c): i for i, c in enumerate(self.candidates)}
        costs = table.costs()
        if isinstance(tree, Leaf):
            return tree, float(costs[index[id(tree.choice)]])
        below = table.values(tree.feature) < tree.threshold
        low, low_cost = self._cut(tree.low, table.part(below))
        high, high_cost = self._cut(tree.high, table.part(~below))
        choices = {id(leaf.choice): leaf.choice for leaf in leaves(tree)}
        sized = costs + table.sizes * len(table.errors)
        single = min(choices.values(), key=lambda c: sized[index[id(c)]])
        if costs[index[id(single)]] <= low_cost + high_cost + table.least / 2 or _same(low, high):
            return Leaf(single), float(costs[index[id(single)]])
        return Split(tree.feature, tree.gap, tree.threshold, low, high), low_cost + high_cost

    # thresholds -----------------------------------------------------------------------------------------------------

    def refine(self, tree: Tree, original: Term, domain: Domain, rng: np.random.Generator, rounds: int = 3) -> None:
        """Moves thresholds within their gaps to where the forms are equally good."""
        for split, within in splits(tree):
            if split.feature in self.leaving:
                split.threshold = border(split.threshold)
            argument = split.feature.args[0] if split.feature.op == "abs" else split.feature
            if argument.op != "var" or split.threshold == 0:
                continue
            for _ in range(rounds):
                lo, hi = split.gap
                ends = to_ordinal(np.array([lo, hi]))
                if ends[1] - ends[0] < 2**50:
                    break
                sample = _between_points(split, argument, within, original, domain, rng)
                if len(sample) < 8:
                    break
                self._move(split, sample)
            _bring_within_reach(split)

    def _move(self, split: Split, sample: Sample) -> None:
        evaluator = TermEvaluator(sample.inputs)
        values = evaluator.values(split.feature)
        order = np.argsort(values, kind="stable")
        low, high = (errors_of_tree(side, evaluator, sample.exact)[order] for side in (split.low, split.high))
        # all points before the place take the lower form, all others the higher
        totals = np.concatenate([[0.0], np.cumsum(low)]) + np.concatenate([np.cumsum(high[::-1])[::-1], [0.0]])
        places = np.flatnonzero(totals <= totals.min() + 1e-9)
        ends = np.concatenate([[split.gap[0]], values[order], [split.gap[1]]])
        place = int(places[len(places) // 2])
        lo, hi = float(ends[int(places[0])]), float(ends[int(places[-1]) + 1])
        split.gap = (lo, hi) if len(places) == 1 else (float(ends[place]), float(ends[place + 1]))
        if split.gap[0] < split.gap[1]:
            split.threshold = _between(*split.gap)


def _bring_within_reach(split: Split) -> None:
    """Moves the threshold within its gap so that a series next to it is used only where its remainder is proved."""
    lo, hi = split.gap
    for side, low in ((split.low, True), (split.high, False)):
        reached = side.choice.reach if isinstance(side, Leaf) else None
        if reached is None:
            continue
        if split.feature.op == "abs":
            end = min(-reached[0], reached[1]) if low else min(abs(reached[0]), abs(reached[1]))
        else:
            end = reached[1] if low else reached[0]
        if (low and lo < end < split.threshold) or (not low and split.threshold < end <= hi):
            split.threshold = end


def _between_points(
    split: Split, argument: Term, within: tuple[Bound, ...], original: Term, domain: Domain, rng: np.random.Generator
) -> Sample:
    """Fresh points with the feature in the gap, where the split is decided."""
    lo, hi = split.gap
    name = str(argument.value)
    count = 40 if not within else 100
    if split.feature.op == "var":
        sample = draw(original, domain.within(name, lo, hi), count, rng, 6)
    else:
        first = draw(original, domain.within(name, lo, hi), count // 2, rng, 4)
        sample = joined(first, draw(original, domain.within(name, -hi, -lo), count // 2, rng, 4))
    evaluator = TermEvaluator(sample.inputs)
    kept = np.ones(len(sample), bool)
    for bound in within:
        values = evaluator.values(bound.feature)
        kept &= (values >= bound.lo) & (values < bound.hi)
    return sample.part(kept)


def _between(lo: float, hi: float) -> float:
    """A number t with lo < t ≤ hi, as short as can be near the middle of the doubles between; 0 where that is one, or lo."""
    if lo <= 0 <= hi:
        return 0.0
    ends = to_ordinal(np.array([lo, hi]))
    middle = float(from_ordinal(np.array([int(ends[0]) + (int(ends[1]) - int(ends[0]) + 1) // 2]))[0])
    for digits in range(17):
        short = float(f"{middle:.{digits}e}")
        if lo < short <= hi:
            return short
    return middle


def merged(tree: Tree) -> Tree:
    """Without comparisons on which nothing depends."""
    if isinstance(tree, Leaf):
        return tree
    low, high = merged(tree.low), merged(tree.high)
    return low if _same(low, high) else Split(tree.feature, tree.gap, tree.threshold, low, high)


def _same(x: Tree, y: Tree) -> bool:
    return isinstance(x, Leaf) and isinstance(y, Leaf) and x.choice is y.choice


def leaves(tree: Tree) -> Iterator[Leaf]:
    if isinstance(tree, Leaf):
        yield tree
    else:
        yield from leaves(tree.low)
        yield from leaves(tree.high)


def splits(tree: Tree, within: tuple[Bound, ...] = ()) -> Iterator[tuple[Split, tuple[Bound, ...]]]:
    """Each comparison, with those before it that lead there; the last ones first."""
    if isinstance(tree, Split):
        yield from splits(tree.low, narrowed(within, tree.feature, float("-inf"), tree.threshold))
        yield from splits(tree.high, narrowed(within, tree.feature, tree.threshold, float("inf")))
        yield tree, within


def errors_of_tree(tree: Tree, evaluator: TermEvaluator, exact: Floats) -> Floats:
    if isinstance(tree, Leaf):
        return errors_of(tree.choice, evaluator, exact)
    below = evaluator.values(tree.feature) < tree.threshold
    return np.where(below, errors_of_tree(tree.low, evaluator, exact), errors_of_tree(tree.high, evaluator, exact))


def assembled(terms: Terms, tree: Tree) -> Term:
    """The tree as one term."""
    if isinstance(tree, Leaf):
        return tree.choice.term
    low, high = assembled(terms, tree.low), assembled(terms, tree.high)
    if low is high:
        return low
    condition = terms.make("compare", tree.feature, terms.const(Fraction(repr(tree.threshold))), value="lt")
    return terms.make("where", condition, low, high)


@dataclass(frozen=True)
class Bound:
    """lo ≤ feature < hi."""

    feature: Term
    lo: float
    hi: float


def paths(tree: Tree, within: tuple[Bound, ...] = ()) -> Iterator[tuple[tuple[Bound, ...], Candidate]]:
    """Each leaf's form, and the conditions under which it is used."""
    if isinstance(tree, Leaf):
        yield within, tree.choice
        return
    yield from paths(tree.low, narrowed(within, tree.feature, float("-inf"), tree.threshold))
    yield from paths(tree.high, narrowed(within, tree.feature, tree.threshold, float("inf")))


def narrowed(within: tuple[Bound, ...], feature: Term, lo: float, hi: float) -> tuple[Bound, ...]:
    for i, bound in enumerate(within):
        if bound.feature is feature:
            return (*within[:i], Bound(feature, max(lo, bound.lo), min(hi, bound.hi)), *within[i + 1 :])
    return (*within, Bound(feature, lo, hi))
