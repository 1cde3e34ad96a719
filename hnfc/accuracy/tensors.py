"""Better forms for pointwise regions of a tensor program, each as a rule of this program that is proved before it runs.

The search is the one for programs of numbers (`improving`); what it finds is written as a rule from the region to the new form, proved
by the prover, and left to the rewriter, which tries it on probes, and to validation, as any other rule.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np
from xdsl.ir import Block, SSAValue

from hnfc.accuracy.element_types import TypedEvaluator, bits_lost, rounded_inputs
from hnfc.accuracy.everyday import everyday
from hnfc.accuracy.improving import ImprovementSettings, NotImproved, improve_term, rules_for_programs
from hnfc.accuracy.losses import lossy_operations
from hnfc.accuracy.ordinals import Floats
from hnfc.accuracy.points import Domain, Sample, measured, neighbours
from hnfc.accuracy.reference import exact_values
from hnfc.accuracy.regions import PointwiseRegion, expression_of, region_at
from hnfc.accuracy.search import SearchLimits
from hnfc.accuracy.terms import Term, Terms
from hnfc.analysis.ranges import Ranges
from hnfc.core.verdicts import verdicts
from hnfc.dialects.facts import RealDomain
from hnfc.dialects.types import FORMATS
from hnfc.dsl import core
from hnfc.dsl.soundness import Verdict
from hnfc.pipeline.request import FOUND
from hnfc.rewrite.conditions import Observations

SECONDS = 20.0
"""Time for the search in all regions of a function; those that it does not reach stay as they are."""
POINTS = 400
LEAST_GAIN = 0.25
"""Mean bits that a form must gain in the element type, at everyday points and at those of the samples."""
MOST_LOST = 3.0
"""Bits that it may lose at any of these points: 8 units roundoff."""
NOTABLE = 4.0
"""Bits: a region that loses less at every point is left as it is."""
MOST_BRANCHES = 2
"""Forms of which a better one may choose, each proved by itself."""
MOST_FAILURES = 12
"""Regions that may be searched in vain."""
LEAST_POINTS = 16
NEAR = 128
"""Points of the samples, and next to them, that a form is chosen by."""
_SETTINGS = ImprovementSettings(
    daily=True,
    unfold=True,
    series=False,
    training=192,
    branching=384,
    testing=500,
    guarding=2000,
    last=1000,
    branch=0.25,
    lost=MOST_LOST,
    limits=SearchLimits(seconds=3.0),
)


@dataclass
class RegionForms:
    """Search for better forms of the pointwise regions of a program; what was found for a term is kept for the next call."""

    everywhere: bool = True
    """True if all regions are searched that lose digits at everyday points; else only what loses digits of the results on the samples."""
    seconds: float = SECONDS
    accurate: Block | None = None
    """The last program that was searched, if no result of it loses digits on the inputs."""
    _terms: Terms = field(default_factory=Terms)
    _searched: dict[Any, Term | None] = field(default_factory=dict)
    _measured: dict[Any, _MeasuredPoints | None] = field(default_factory=dict)

    def __call__(self, block: Block, ranges: Ranges, observations: Observations) -> dict[core.Rule, Verdict]:
        """Proved rules that rewrite regions of the block to better forms, each with its verdict."""
        deadline = time.monotonic() + self.seconds
        found: dict[tuple[core.Expr, core.Expr], tuple[core.Rule, Verdict]] = {}
        improved: set[SSAValue] = set()
        failed = 0
        self.accurate, lossy = None, None
        if not self.everywhere:
            outputs = list(block.last_op.operands) if block.last_op is not None else []
            losses = lossy_operations(block, outputs, observations.samples, observations.weights, observations.variations)
            self.accurate = block if losses is None else None
            lossy = losses.lost if losses is not None else frozenset()
            if not lossy:
                return {}
        identities = rules_for_programs()
        # operands first: the smallest region that loses digits, and larger ones only where it has no better form
        for value in [result for op in block.ops for result in op.results]:
            if failed > MOST_FAILURES or time.monotonic() > deadline:
                break
            region = region_at(value, self._terms, improved)
            if region is None or (lossy is not None and not lossy & region.operations):
                continue
            domain = _domain(region, ranges)
            points = self._points(region, domain, observations)
            if points is None:
                continue
            failed += 1
            form = self._form(region, domain, identities, points.near)
            if form is None or not _gains(form, region, points):
                continue
            both = region.pattern, expression_of(form)
            proved = found.get(both) or _proved(f"form_{len(found) + 1}", *both, _within(region, domain))
            if proved is not None:
                failed -= 1
                improved.add(value)
                found[both] = proved
        return dict(found.values())

    def _points(self, region: PointwiseRegion, domain: Domain, observations: Observations) -> _MeasuredPoints | None:
        """Everyday points and those of the samples; None where the region loses hardly anything there."""
        seen = _seen(region, observations)
        values = tuple((name, array.tobytes()) for name, array in seen.items()) if seen else ()
        key = (region.term, region.element, tuple(domain.interval(name) for name in domain.names), values)
        if key not in self._measured:
            self._measured[key] = _measured(region, domain, seen)
        return self._measured[key]

    def _form(self, region: PointwiseRegion, domain: Domain, identities: Sequence[core.Rule], near: Sample) -> Term | None:
        """The form that the search finds for the region's term on the domain. near: points of the samples and next to them."""
        key = (region.term, domain.smallest, tuple(map(domain.interval, domain.names)), near.exact.tobytes())
        if key not in self._searched:
            try:
                made = improve_term(self._terms, region.term, domain, identities, _SETTINGS, near)
                self._searched[key] = made.term if made.improved else None
            except NotImproved:
                self._searched[key] = None
        return self._searched[key]


def _domain(region: PointwiseRegion, ranges: Ranges) -> Domain:
    form = FORMATS[region.element]
    intervals = {name: ranges.of(leaf) for name, leaf in region.leaves.items()}
    ends = {name: (max(i.lo, -form.largest), min(i.hi, form.largest)) for name, i in intervals.items()}
    return Domain(tuple(region.leaves), (), ends, form.smallest_normal)


@dataclass(frozen=True)
class _MeasuredPoints:
    """Points of a region, the true values there, and the bits that the region loses. near: points of the samples and next to them."""

    inputs: dict[str, Floats]
    exact: Floats
    before: Floats
    near: Sample


def _measured(region: PointwiseRegion, domain: Domain, seen: Mapping[str, Floats] | None) -> _MeasuredPoints | None:
    daily = everyday(region.term, domain, POINTS, np.random.default_rng(1)).inputs
    points = {name: np.concatenate([daily[name], seen[name]]) if seen else daily[name] for name in domain.names}
    points = rounded_inputs(points, region.element)
    exact, _ = exact_values(region.term, points)
    counted = np.isfinite(exact) & (np.abs(exact) <= FORMATS[region.element].largest)
    points, exact = {name: x[counted] for name, x in points.items()}, exact[counted]
    if len(exact) < LEAST_POINTS:
        return None
    before = _lost(region.term, points, exact, region.element)
    if before.mean() < LEAST_GAIN or before.max() < NOTABLE:
        return None
    of_samples = np.flatnonzero(counted) >= len(next(iter(daily.values())))
    order = np.argsort(-before[of_samples], kind="stable")
    return _MeasuredPoints(points, exact, before, _near(region, domain, {name: x[of_samples][order] for name, x in points.items()}))


def _near(region: PointwiseRegion, domain: Domain, seen: Mapping[str, Floats]) -> Sample:
    """Points of the samples and others next to them. seen: where the region loses most comes first."""
    rng = np.random.default_rng(2)
    count = len(next(iter(seen.values())))
    worst = np.arange(min(count, NEAR // 4))
    others = rng.integers(0, count, NEAR // 4) if count > len(worst) else worst
    chosen = {name: x[np.concatenate([worst, others])] for name, x in seen.items()}
    moved = neighbours(domain, {name: np.tile(x, 2) for name, x in chosen.items()}, rng)
    return measured(region.term, domain, {name: np.concatenate([x, moved[name]]) for name, x in chosen.items()}, 2 * NEAR)


def _gains(form: Term, region: PointwiseRegion, points: _MeasuredPoints) -> bool:
    """Return whether a form is better at the points, in the element type, and at none of them worse."""
    after = _lost(form, points.inputs, points.exact, region.element)
    gained = points.before.mean() - after.mean() >= LEAST_GAIN or points.before.max() - after.max() >= 2 * MOST_LOST
    return bool(gained) and bool((after <= points.before + MOST_LOST).all())


def _lost(term: Term, points: Mapping[str, Floats], exact: Floats, element: str) -> Floats:
    return bits_lost(TypedEvaluator(points, element).values(term), exact, element)


def _seen(region: PointwiseRegion, observations: Observations) -> dict[str, Floats] | None:
    """Elements of the leaves at the same indices in the samples."""
    columns: dict[str, list[Any]] = {name: [] for name in region.leaves}
    for index in range(len(observations.samples)):
        arrays = [_array(observations, leaf, index) for leaf in region.leaves.values()]
        if any(array is None for array in arrays):
            return None
        try:
            spread = np.broadcast_arrays(*arrays)
        except ValueError:
            return None
        chosen = np.random.default_rng(index).integers(0, max(spread[0].size, 1), min(POINTS, spread[0].size))
        for name, array in zip(columns, spread, strict=True):
            columns[name].append(array.reshape(-1)[chosen].astype(np.float64))
    return {name: np.concatenate(parts) for name, parts in columns.items()} if observations.samples else None


def _array(observations: Observations, leaf: SSAValue, index: int) -> Any:
    found = observations.of(leaf)
    return None if found is None else found[index]


def _proved(name: str, pattern: core.Expr, replacement: core.Expr, where: core.Condition) -> tuple[core.Rule, Verdict] | None:
    """The rule with its verdict, if it is proved: without a condition, or under this one."""
    reason = "a form with less error, found for this model by the identities of hnfc's rules"
    free = core.Rule(name, FOUND, reason, "hnfc -O accuracy", pattern, replacement, structural=True)
    for rule in (free, replace(free, where=where)):
        verdict = _of_branches(rule) or verdicts([rule])[name]
        if verdict.proved:
            return rule, verdict
    return None


def _of_branches(rule: core.Rule) -> Verdict | None:
    """The verdict where each branch of the right side is equal to the left side, whatever their conditions are; None where some is not."""
    branches = list(dict.fromkeys(_branches(rule.replacement)))
    if not 1 < len(branches) <= MOST_BRANCHES:
        return None
    found = None
    for branch in branches:
        if branch != rule.pattern:
            found = verdicts([replace(rule, replacement=branch)])[rule.name]
            if not found.proved:
                return None
    return found


def _branches(side: core.Expr) -> Iterator[core.Expr]:
    """The values that a side chooses among by comparisons that always have a value."""
    if isinstance(side, core.Apply) and side.name == "where" and _is_defined(side.operands[0]):
        yield from _branches(side.operands[1])
        yield from _branches(side.operands[2])
    else:
        yield side


def _is_defined(condition: core.Expr) -> bool:
    """Return whether a condition has a value for all numbers."""
    if not isinstance(condition, core.Apply):
        return True
    facts = condition.facts
    return facts.domain == RealDomain() and not facts.divisor and all(map(_is_defined, condition.operands))


def _within(region: PointwiseRegion, domain: Domain) -> core.Condition:
    """The condition that every variable lies in its range, as far as the range is not that of the element type."""
    largest = FORMATS[region.element].largest
    conditions = []
    for name in domain.names:
        for predicate, end in zip(("ge", "le"), domain.interval(name), strict=True):
            if abs(end) < largest:
                conditions.append(core.Comparison(predicate, core.Capture(name), core.Literal(Fraction(end))))
    return core.AllOf(tuple(conditions))
