"""Findings of the search for one rule in one format."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

import numpy as np

from hnfc.dsl.core import Rule
from hnfc.dsl.ieee.differences import (
    DIGITS,
    FILLS,
    GAINS,
    INF,
    INFINITIES,
    KINDS,
    LOSES,
    NANS,
    SIGNED_ZEROS,
    SWALLOWS,
    TO_NAN,
    VALUE,
    WRONG,
    Differences,
    compared,
    per_sample,
)
from hnfc.dsl.ieee.digits import lost
from hnfc.dsl.ieee.evaluate import Batch
from hnfc.dsl.ieee.examples import cost, described, irrelevant, plainest, simplified
from hnfc.dsl.ieee.formats import BINARY, Array
from hnfc.dsl.ieee.samples import TrialBatch
from hnfc.dsl.ieee.undefined import candidates, filled
from hnfc.dsl.ieee.verdict import EDGE, IeeeExample

EXCEPTIONS = (SIGNED_ZEROS, NANS, INFINITIES)
GAINED_OF_TRIAL, MOST_GAINED = 8, 32
"""Samples of one trial, and of all, that are kept to see whether their left sides have values."""
LEAST_UNIFORM = 256
"""A frequency is given if so many random inputs meet the conditions."""


@dataclass
class FormatFindings:
    """Counts, and the plainest sample for each kind of difference.

    grades: how telling the best sample of each kind is (see `graded`). ulps: the largest difference between finite numbers.
    edges: of losses and gains, how near to overflow.
    covers: which exceptions cover a differing sample, for each combination that occurred.
    gained: single samples at which a NaN becomes a number.
    """

    rule: Rule
    element: str
    assume: frozenset[str]
    tried: int = 0
    best: dict[str, Batch] = field(default_factory=dict)
    grades: dict[str, float] = field(default_factory=dict)
    ulps: float | None = None
    edges: dict[str, float] = field(default_factory=dict)
    covers: set[frozenset[str]] = field(default_factory=set)
    gained: list[Batch] = field(default_factory=list)
    complete: bool = False
    uniform: int = 0
    uniform_differing: int = 0

    def add(self, trial: TrialBatch) -> Differences:
        """The differences on the trial, which are counted. Raises ShapeMismatch, Unsupported or Mismatch."""
        found = compared(self.rule, trial.batch, self.element, self.assume)
        self.complete |= trial.complete
        self.tried += int(found.met.sum())
        differing = found.differing
        if trial.uniform is not None:
            self.uniform += int(found.met[trial.uniform :].sum())
            self.uniform_differing += int(differing[trial.uniform :].sum())
        if not differing.any():
            return found
        explained = found.explained()
        codes = sum(explained[name].astype(np.int64) << place for place, name in enumerate(EXCEPTIONS))
        for code in np.unique(np.asarray(codes)[differing]).tolist():
            self.covers.add(frozenset(name for place, name in enumerate(EXCEPTIONS) if code >> place & 1))
        for kind in KINDS:
            if found.kinds[kind].any():
                self._keep(kind, found)
        self.gained += candidates(found, min(GAINED_OF_TRIAL, MOST_GAINED - len(self.gained)))
        return found

    def _keep(self, kind: str, found: Differences) -> None:
        if kind == VALUE and self.element in BINARY:
            self.ulps = max(self.ulps or 0.0, float(found.ulps.max()))
        grades = graded(kind, found, self.element)
        grade, before = float(grades.max()), self.grades.get(kind, 0.0)
        if grade < before:
            return
        if grade > before / least_part(kind):
            self.best.pop(kind, None)
        self.grades[kind] = grade
        if kind in (LOSES, GAINS):
            nearest = float(found.edge[grades == grade].min())
            self.edges[kind] = nearest if grade > before else min(nearest, self.edges[kind])
        sample = plainest(found.batch, per_sample(grades >= grade * least_part(kind)))
        if kind not in self.best or cost(sample)[0] < cost(self.best[kind])[0]:
            self.best[kind] = sample

    def look_for_lost_digits(self) -> None:
        """Looks at the sample whose sides lie farthest apart."""
        if VALUE not in self.best:
            return
        sample = self.best[VALUE]
        found = compared(self.rule, sample, self.element, self.assume)
        if lost(self.rule, sample, found, self.element).any():
            self.best[DIGITS] = sample

    def look_for_filled_gaps(self) -> None:
        """Looks at samples with a number in place of a NaN, until one has no value on the left."""
        for sample in (*([self.best[GAINS]] if self.gained else []), *self.gained):
            if filled(self.rule, sample, compared(self.rule, sample, self.element, self.assume)).any():
                self.best[FILLS] = sample
                return

    @property
    def differs(self) -> bool:
        return bool(self.covers)

    @property
    def loses(self) -> bool:
        """A rule that may be read both ways loses where it gains the other way."""
        return self.loses_numbers or any(kind in self.best for kind in WRONG)

    @property
    def loses_numbers(self) -> bool:
        """Some number becomes none, in a direction in which the rule may be read."""
        return LOSES in self.best or (self.rule.both_ways and GAINS in self.best)

    @property
    def gains(self) -> bool:
        return GAINS in self.best

    @property
    def edge(self) -> float | None:
        """Distance of the losses from overflow; of the gains where nothing is lost."""
        if not self.loses:
            return self.edges.get(GAINS)
        if any(kind in self.best for kind in (SWALLOWS, TO_NAN, DIGITS, FILLS)):
            return None
        return min(self.edges[kind] for kind in (LOSES, GAINS) if kind in self.edges and (kind == LOSES or self.rule.both_ways))

    @property
    def exceptions(self) -> tuple[str, ...] | None:
        """The fewest exceptions that cover every difference seen; None where some difference has none."""
        if frozenset() in self.covers:
            return None
        for count in range(len(EXCEPTIONS) + 1):
            for chosen in itertools.combinations(EXCEPTIONS, count):
                if all(cover & set(chosen) for cover in self.covers):
                    return chosen
        raise AssertionError(self.covers)

    @property
    def differing(self) -> float | None:
        return self.uniform_differing / self.uniform if self.uniform >= LEAST_UNIFORM or (self.complete and self.uniform) else None

    def examples(self) -> dict[str, IeeeExample]:
        """An example of each kind that says something new, made as plain as it can be.

        Where the sides differ on plain inputs, that they differ on others as well is not worth an example.
        """
        wanted = KINDS if self.exceptions is not None else (*WRONG, GAINS, VALUE, INF)
        return {kind: self._example(kind, self.best[kind]) for kind in KINDS if kind in self.best and kind in wanted}

    def _example(self, kind: str, sample: Batch) -> IeeeExample:
        """The sample made plainer, as telling as before; for numbers of different value, half as far apart at least."""

        def seen(batch: Batch) -> tuple[Differences, Array]:
            found = compared(self.rule, batch, self.element, self.assume)
            return found, found.kinds[kind] & (graded(kind, found, self.element) >= wanted)

        def shows(batch: Batch) -> tuple[Array, Array]:
            found, mask = seen(batch)
            return per_sample(mask), found.met

        wanted = 0.0
        if kind in (DIGITS, FILLS):
            found = compared(self.rule, sample, self.element, self.assume)
            telling = filled(self.rule, sample, found) if kind == FILLS else lost(self.rule, sample, found, self.element)
            return described(found, telling, self.element, ())
        wanted = (
            self.grades[kind] if kind != VALUE else min(self.grades[kind] / 2, float(graded(kind, seen(sample)[0], self.element).max()))
        )
        sample = simplified(sample, shows)
        found, mask = seen(sample)
        wanted = 0.0
        return described(found, mask, self.element, irrelevant(sample, shows))


def graded(kind: str, found: Differences, element: str) -> Array:
    """Grade of each element that differs so, from 0 on (-1 for others).

    For numbers of different value, how many numbers lie between them; where one is twice the other, more tell no more.
    A loss or gain tells most at finite inputs, and more if it is not only a rounding at the edge of overflow.
    """
    mask = found.kinds[kind]
    if kind == VALUE:
        grade = np.minimum(found.ulps, 2.0 ** BINARY[element].precision) if element in BINARY else found.ulps
    elif kind in (LOSES, GAINS):
        finite = found.finite.reshape(-1, *(1,) * (mask.ndim - 1))
        grade = np.where(finite, np.where(found.edge < EDGE, 3.0, 2.0), 1.0)
    else:
        grade = np.ones(mask.shape)
    return np.where(mask, grade, -1.0)


def least_part(kind: str) -> float:
    """Share of the highest grade that is as good."""
    return 0.5 if kind == VALUE else 1.0
