"""Points at which a program is measured: drawn evenly over the doubles that its precondition admits.

A point counts if the real result there is known to round to a finite double (PLDI 2015, section 4.1).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hnfc.accuracy.evaluation import TermEvaluator
from hnfc.accuracy.ordinals import Floats, from_ordinal, to_ordinal
from hnfc.accuracy.reference import exact_values, holds
from hnfc.accuracy.terms import Term

_TRIES = 24
"""Number of batches that are drawn, each larger than the one before, until there are enough points."""
_BATCH = 1 << 19


@dataclass(frozen=True)
class Sample:
    """inputs: an array per variable; exact: the correctly rounded real result; level: the precision it took (see reference.LEVELS)."""

    inputs: dict[str, Floats]
    exact: Floats
    level: Any

    def __len__(self) -> int:
        return len(self.exact)

    def part(self, chosen: Any) -> Sample:
        return Sample({name: x[chosen] for name, x in self.inputs.items()}, self.exact[chosen], self.level[chosen])


def joined(first: Sample, second: Sample) -> Sample:
    inputs = {name: np.concatenate([x, second.inputs[name]]) for name, x in first.inputs.items()}
    return Sample(inputs, np.concatenate([first.exact, second.exact]), np.concatenate([first.level, second.level]))


@dataclass(frozen=True)
class Domain:
    """Domain of a program: its arguments, the conditions on them, and an interval for each. smallest: no argument but 0 is nearer to 0."""

    names: tuple[str, ...]
    conditions: tuple[Term, ...] = ()
    ranges: Mapping[str, tuple[float, float]] | None = None
    smallest: float = 0.0

    def interval(self, name: str) -> tuple[float, float]:
        lo, hi = (self.ranges or {}).get(name, (-np.inf, np.inf))
        largest = float(np.finfo(np.float64).max)
        return max(lo, -largest), min(hi, largest)

    def within(self, name: str, lo: float, hi: float) -> Domain:
        """The part with one argument in an interval."""
        a, b = self.interval(name)
        return replace(self, ranges={**(self.ranges or {}), name: (max(a, lo), min(b, hi))})

    def even(self, name: str, count: int, rng: np.random.Generator) -> Floats:
        """Numbers for an argument, even over the doubles of its interval; those that are too small are moved to others below 1."""
        lo, hi = self.interval(name)
        low, high, least, one = (int(to_ordinal(np.array([x]))[0]) for x in (lo, hi, self.smallest, 1.0))
        x = from_ordinal(rng.integers(low, high, count, endpoint=True))
        if self.smallest > 0:
            moved = np.copysign(from_ordinal(rng.integers(least, one, count)), x)
            x = np.where(np.abs(x) >= self.smallest, x, np.where((moved >= lo) & (moved <= hi), moved, 0.0))
        return x


def draw(term: Term, domain: Domain, count: int, rng: np.random.Generator, tries: int = _TRIES) -> Sample:
    """Up to `count` points; fewer where the precondition or the term leaves too few."""
    size = max(2 * count, 64)
    found: Sample | None = None
    if any(lo > hi for lo, hi in map(domain.interval, domain.names)):
        return Sample({name: np.zeros(0) for name in domain.names}, np.zeros(0), np.zeros(0, np.int8))
    for _ in range(tries):
        batch = _nearly_admitted({name: domain.even(name, size, rng) for name in domain.names}, domain.conditions)
        enough = min(len(next(iter(batch.values()), [])), 2 * count)
        rate = enough / size
        for start in range(0, enough, max(count, 1)):
            part = _admitted({name: x[start : start + count] for name, x in batch.items()}, domain.conditions)
            exact, level = exact_values(term, part)
            kept = np.isfinite(exact)
            sample = Sample({name: x[kept] for name, x in part.items()}, exact[kept], level[kept])
            found = sample if found is None else joined(found, sample)
            if len(found) >= count:
                return found.part(slice(0, count))
        missing = count - (len(found) if found is not None else 0)
        size = int(min(_BATCH, max(size, 2 * missing / max(rate, 1e-6))))
    return found if found is not None else Sample({name: np.zeros(0) for name in domain.names}, np.zeros(0), np.zeros(0, np.int8))


def measured(term: Term, domain: Domain, inputs: dict[str, Floats], most: int) -> Sample:
    """Points that meet the precondition and have a finite value; the first `most` are looked at."""
    low_high = {name: domain.interval(name) for name in inputs}
    inside = np.logical_and.reduce([(x >= low_high[name][0]) & (x <= low_high[name][1]) for name, x in inputs.items()])
    inputs = {name: x[inside] for name, x in inputs.items()}
    part = _nearly_admitted(inputs, domain.conditions)
    part = _admitted({name: x[:most] for name, x in part.items()}, domain.conditions)
    exact, level = exact_values(term, part)
    kept = np.isfinite(exact)
    return Sample({name: x[kept] for name, x in part.items()}, exact[kept], level[kept])


def neighbours(domain: Domain, inputs: Mapping[str, Floats], rng: np.random.Generator) -> dict[str, Floats]:
    """A point near each of those given: some arguments as they were, others a little or a few parts in ten away."""
    moved = {}
    for name, x in inputs.items():
        scale = 10.0 ** rng.uniform(-15, -0.5, len(x)) * (rng.random(len(x)) < 0.7)
        moved[name] = np.asarray(np.clip(x * (1 + rng.normal(size=len(x)) * scale), *domain.interval(name)))
    return moved


def _nearly_admitted(inputs: dict[str, Floats], conditions: Sequence[Term]) -> dict[str, Floats]:
    """The points that meet the conditions as floating point computes them: few of very many."""
    if not conditions:
        return inputs
    evaluator = TermEvaluator(inputs)
    kept = np.ones(evaluator.count, bool)
    for condition in conditions:
        kept = kept & evaluator.truth(condition)
    return {name: x[kept] for name, x in inputs.items()}


def _admitted(inputs: dict[str, Floats], conditions: Sequence[Term]) -> dict[str, Floats]:
    """The points that meet the conditions over the reals."""
    for condition in conditions:
        kept = holds(condition, inputs)
        inputs = {name: x[kept] for name, x in inputs.items()}
    return inputs
