"""Verification by running: an assignment whose error exceeds the target gets stricter margins, or is infeasible."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from typing import TypeAlias

from hnfc.formats.granular import is_for_weights
from hnfc.formats.named import format_named
from hnfc.formats.scaled import ceiling, is_plain, largest
from hnfc.precision.assignment import Assignment, Infeasible, Relaxation, Requirements, assign
from hnfc.precision.certificates import RUN
from hnfc.precision.infeasibility import rounded_up
from hnfc.precision.targets import Allowance, Errors
from hnfc.precision.values import PrecisionSites

_ROUNDS = 6
_MOST_SUBSETS = 30
"""Sets of fewer formats that are tried before a refusal: all of those of five."""
_NEAR = 1.1
"""Factor of a target over a measured error up to which looser margins are not tried: an estimate is no sharper."""
_CLOSE = 0.05
"""Part of the cost that is not worth a run."""
_MOST_RETRIED = 4
"""Sets of fewer formats that are run where more of them cost more than estimates say."""
WIDE = "fp32"
"""The format of the reference, unless fp64 is requested: a model in a narrower one is analyzed as if it were in this one."""
_RAISES = 4
"""Runs to find a target that formats meet."""
_BETWEEN = 2
"""Runs to find out by how much a target that was made stricter may be less strict."""
Margins: TypeAlias = dict[int | None, float]
"""By output the part of its target that estimates may use up."""


@dataclass(frozen=True)
class ErrorBound:
    """Errors that are not exceeded: proved, or with a probability under the assumptions of `probabilistic`."""

    errors: Callable[[Assignment], Errors]
    probability: float | None = None

    def __call__(self, outcome: Assignment) -> Errors:
        return self.errors(outcome)

    @property
    def known(self) -> str:
        return "proved" if self.probability is None else f"known with probability {self.probability:.10g}"


def assign_what_holds(
    sites: PrecisionSites, requirements: Requirements, measure: Callable[[Assignment], Errors], bound: ErrorBound | None = None
) -> Assignment | Infeasible:
    """The cheapest formats found whose errors on the samples, as `measure` gives them (absolute, infinite for NaN), are within the targets.

    A target that is missed is made stricter by as much; where NaN comes out, no number may vanish any more. bound: what the errors do
    not exceed, which is held to the targets as well. An output without a target must be finite. Where a run refutes the
    formats that estimates choose, fewer formats are tried: what some of the formats allow, all of them do.
    """
    outcome = _attempted(sites, requirements, measure, bound)
    if isinstance(outcome, Assignment):
        return _cheapest(outcome, sites, requirements, measure, bound)
    if outcome.certificate == RUN or any(is_for_weights(format_named(form)) for form in requirements.formats):
        # without formats for computed values these stay in float32
        found = _with_fewer(sites, requirements, measure, bound)
        if found is not None:
            return found
    followed = (_followed(change, sites, requirements, measure, bound) for change in outcome.relaxations)
    return replace(outcome, relaxations=tuple(change for change in followed if change is not None))


def _cheapest(
    held: Assignment, sites: PrecisionSites, requirements: Requirements, measure: Callable[[Assignment], Errors],
    bound: ErrorBound | None,
) -> Assignment:  # fmt: skip
    """The assignment, or a cheaper one of fewer formats. More formats cost no more in estimates; where a run refutes these, and targets are
    made stricter, they may."""
    least, runs = requirements.least, 0
    if held.bound >= held.cost(least) * (1 - _CLOSE):
        return held
    first = assign(sites, requirements)
    for fewer in _fewer(requirements):
        promised = assign(sites, fewer)
        if isinstance(promised, Infeasible) or promised.formats == getattr(first, "formats", None):
            continue
        if promised.cost(least) >= held.cost(least) * (1 - _CLOSE):
            continue
        found = _attempted(sites, fewer, measure, bound)
        if isinstance(found, Assignment) and found.cost(least) < held.cost(least):
            held = replace(found, bound=held.bound)
        runs += 1
        if runs == _MOST_RETRIED:
            break
    return held


def _followed(
    change: Relaxation, sites: PrecisionSites, requirements: Requirements, measure: Callable[[Assignment], Errors],
    bound: ErrorBound | None,
) -> Relaxation | None:  # fmt: skip
    """A change that a run confirms: a target is raised further where formats miss the one that is offered."""
    for _ in range(_RAISES):
        if change.then is None:
            return change
        found = _attempted(sites, change.then, measure, bound)
        if isinstance(found, Assignment):
            return change
        if change.then.target == requirements.target:
            # a choice that all of the formats allow may hold with fewer of them
            return change if _with_fewer(sites, change.then, measure, bound) is not None else None
        missed = change.then.target
        further = next((other for other in found.relaxations if other.then is not None and other.then.target != missed), None)
        if further is None:
            return None
        change = further
    return None


def _with_fewer(
    sites: PrecisionSites, requirements: Requirements, measure: Callable[[Assignment], Errors], bound: ErrorBound | None
) -> Assignment | None:
    first = assign(sites, requirements)
    for fewer in _fewer(requirements):
        found = _attempted(sites, fewer, measure, bound)
        if isinstance(found, Assignment):
            return replace(found, bound=first.bound) if isinstance(first, Assignment) else found
    return None


def _fewer(requirements: Requirements) -> Iterator[Requirements]:
    """The same requirements with fewer ways to store a value: without scales, then without one format and another, the coarsest first."""
    plain = replace(requirements, scaling=False)
    if requirements.scaling:
        yield plain
    order = sorted(requirements.formats, key=lambda form: format_named(form).precision)
    subsets = [kept for size in range(len(order) - 1, 0, -1) for kept in combinations(order[::-1], size)]
    for kept in subsets[:_MOST_SUBSETS]:
        yield replace(requirements, formats=tuple(form for form in requirements.formats if form in kept))
        if requirements.scaling:
            yield replace(plain, formats=tuple(form for form in requirements.formats if form in kept))


def _attempted(
    sites: PrecisionSites, requirements: Requirements, measure: Callable[[Assignment], Errors], bound: ErrorBound | None
) -> Assignment | Infeasible:
    """The same with these formats and ways alone."""
    limits = requirements.allowances(sites)
    outcome = assign(sites, requirements)
    # what holds of stricter targets is no bound for those that were requested
    least = outcome.bound if isinstance(outcome, Assignment) else math.nan
    margins: Margins = {a.output: 1.0 for a in limits}
    too_loose: Margins = {}
    strict, missed = False, ""
    measured: Errors = {}
    for attempt in range(_ROUNDS):
        if isinstance(outcome, Infeasible):
            if not missed:
                return outcome
            # what refutes stricter targets does not refute those that were requested
            return replace(outcome, reasons=(missed, *outcome.reasons), obstruction=None, certificate=RUN)
        last = attempt + 1 == _ROUNDS
        measured = measure(outcome)
        over = [a for a in limits if measured[a.output] > a.limit]
        finite = math.isfinite(measured[None])
        if finite and not over:
            proved = {} if bound is None else bound(outcome)
            unproved = [a for a in limits if a.output in proved and proved[a.output] > a.limit]
            if bound is None or not unproved:
                held = replace(
                    outcome, bound=least, measured=measured[None], certified=proved.get(None), measured_errors=measured,
                    certified_errors=proved, probability=None if bound is None else bound.probability,
                )  # fmt: skip
                if bound is not None or not too_loose:
                    return held
                return _cheaper(held, margins, too_loose, limits, partial(assign, sites, requirements, strict=strict), measure)
            stricter = None
            if not last and all(math.isfinite(proved[a.output]) for a in unproved):
                _tighten(margins, unproved, proved)
                stricter = assign(sites, requirements, margins, strict)
            if stricter is None or isinstance(stricter, Infeasible):
                return _unproved(requirements, unproved, proved, measured, bound)
            outcome = stricter
            continue
        missed = _missed(over, measured, finite)
        if not last and (free := _without_saturation(sites, outcome)) is not None and _keeps(limits, measure(free)):
            # what stands for infinity is compared, or a row has nothing else: no matter of how finely anything is rounded
            requirements = replace(requirements, saturation=False)
        elif last or (not finite and strict):
            break
        elif finite:
            too_loose = dict(margins)
            _tighten(margins, over, measured)
        else:
            strict = True
        outcome = assign(sites, requirements, margins, strict)
    changes = [_raise(requirements, over, measured, "this was measured")] if math.isfinite(measured[None]) else []
    if WIDE not in requirements.formats:
        wider = replace(requirements, formats=(*requirements.formats, WIDE))
        changes.append(Relaxation(f"allow {WIDE}", "values that the estimates leave narrow are then wide", wider))
    return Infeasible((missed,), (), {}, tuple(changes))


def _cheaper(
    held: Assignment, margins: Margins, too_loose: Margins, limits: Sequence[Allowance],
    solve: Callable[[Margins], Assignment | Infeasible], measure: Callable[[Assignment], Errors],
) -> Assignment:  # fmt: skip
    """Search for a looser margin between those that held and those that did not."""
    for _ in range(_BETWEEN):
        if any(held.measured_errors[a.output] * _NEAR > a.limit for a in limits):
            break
        between = {
            a.output: _between(margins[a.output], too_loose[a.output], a.limit / (held.measured_errors[a.output] or math.ulp(0.0)))
            for a in limits
        }
        outcome = solve(between)
        if isinstance(outcome, Infeasible):
            break
        errors = measure(outcome)
        if _keeps(limits, errors):
            held, margins = replace(outcome, bound=held.bound, measured=errors[None], measured_errors=errors), between
        else:
            too_loose = between
    return held


def _between(held: float, too_loose: float, room: float) -> float:
    """Errors are about proportional to the margin."""
    return held * room if held * room < too_loose else math.sqrt(held * too_loose)


def _without_saturation(sites: PrecisionSites, found: Assignment) -> Assignment | None:
    """The same formats, but the widest where there is saturation; None where there is none."""
    saturated = [name for name, form in found.formats.items() if ceiling(form) is not None]
    by_name = {site.name: site for site in sites.sites} if saturated else {}
    wide = {name: max(filter(is_plain, by_name[name].moved), key=largest) for name in saturated}
    return replace(found, formats={**found.formats, **wide}) if wide else None


def _keeps(limits: Sequence[Allowance], errors: Errors) -> bool:
    return math.isfinite(errors[None]) and all(errors[a.output] <= a.limit for a in limits)


def _tighten(margins: Margins, over: Sequence[Allowance], errors: Errors) -> None:
    for a in over:
        margins[a.output] *= max(0.8 * a.limit / errors[a.output], 1e-3)


def _raise(requirements: Requirements, over: Sequence[Allowance], errors: Errors, cost: str) -> Relaxation:
    """The change that raises targets to errors, rounded up."""
    targets = {a: rounded_up(a.as_given(errors[a.output])) for a in over}
    text = " and ".join(f"{a.target} to {error:.2g}" for a, error in targets.items())
    return Relaxation(f"raise {text}", cost, replace(requirements, target=requirements.raised(targets)))


def _unproved(requirements: Requirements, over: Sequence[Allowance], proved: Errors, measured: Errors, bound: ErrorBound) -> Infeasible:
    unbounded = [a for a in over if not math.isfinite(proved[a.output])]
    if unbounded:
        reasons = [
            f"what is {bound.known} of {a.name} is nothing: an operation has no bound here, and {a.limit:.3g} is allowed" for a in unbounded
        ]
        changes = []
    else:
        known = [
            f"in the widest formats that were tried what is {bound.known} is that {a.are} off by at most {proved[a.output]:.3g}"
            for a in over
        ]
        reasons = [f"{what}, and {a.limit:.3g} is allowed" for what, a in zip(known, over, strict=True)]
        changes = [_raise(requirements, over, proved, f"this is {bound.known}")]
    off = " and ".join(f"{a.name} {'were' if a.output is None else 'was'} off by {measured[a.output]:.3g}" for a in over)
    changes.append(Relaxation("do without a proof" if bound.probability is None else "do without a bound", f"on the samples {off}"))
    return Infeasible(tuple(reasons), (), {}, tuple(changes))


def _missed(over: Sequence[Allowance], measured: Errors, finite: bool) -> str:
    """Result of a run; an output without a target is reported only where it is not finite."""
    ran = "run on the samples in the formats that the estimates allow"
    if not finite:
        return f"{ran}, outputs are not finite"
    return f"{ran}, {' and '.join(f'{a.are} off by {measured[a.output]:.3g}, and {a.limit:.3g} is allowed' for a in over)}"
