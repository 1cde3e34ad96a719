"""The verdict on one rule in each format: the search first, then a proof of what the search could not break."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from hnfc.dialects.types import FORMATS
from hnfc.dsl.core import Rule
from hnfc.dsl.ieee.arithmetic import NotComputed
from hnfc.dsl.ieee.conditions import is_exact
from hnfc.dsl.ieee.differences import Differences
from hnfc.dsl.ieee.edges import edge_trials
from hnfc.dsl.ieee.evaluate import Batch
from hnfc.dsl.ieee.findings import FormatFindings
from hnfc.dsl.ieee.formats import BINARY
from hnfc.dsl.ieee.layouts import Layout, layouts_of, tensor_trials
from hnfc.dsl.ieee.mutants import mutants
from hnfc.dsl.ieee.samples import TrialBatch, count_inputs, is_pointwise, pointwise_trials
from hnfc.dsl.ieee.smt import NotEncoded, SmtQuery
from hnfc.dsl.ieee.verdict import ASSUMPTIONS, EDGE, IeeeStatus, IeeeVerdict
from hnfc.dsl.rule_depth import of_rule
from hnfc.dsl.soundness.array_moves import ShapeMismatch
from hnfc.dsl.soundness.typing import Mismatch, Typing, element_types, result_type

GENERATIONS = 2
"""So many times samples of tensors are changed, and those that come of it."""
MODELS = 4
"""So many inputs of Z3's are replayed for a claim."""

Fault = (NotComputed, ShapeMismatch, Mismatch)


class OutOfTime(Exception):
    """The time for the rule is up."""


@dataclass
class Clock:
    """A guard for who waits. `proving`: whether Z3 still takes part; what it does not decide in one format it will not in a wider one."""

    deadline: float
    proving: bool = True

    def check(self) -> None:
        if time.monotonic() > self.deadline:
            raise OutOfTime


def judged(rule: Rule, formats: Sequence[str], assume: frozenset[str], seconds: float) -> tuple[IeeeVerdict, ...]:
    """See `ieee_verdicts`."""
    with np.errstate(all="ignore"):
        return of_rule(rule, _in_formats, rule, formats, assume, seconds)


def _in_formats(rule: Rule, formats: Sequence[str], assume: frozenset[str], seconds: float) -> tuple[IeeeVerdict, ...]:
    unknown = [f for f in formats if f not in FORMATS] + sorted(assume - ASSUMPTIONS)
    if unknown:
        raise ValueError(
            f"expected formats among {', '.join(FORMATS)} and assumptions among {', '.join(sorted(ASSUMPTIONS))}, but got {unknown[0]}"
        )
    clock = Clock(time.monotonic() + seconds)
    verdicts: dict[str, IeeeVerdict] = {}
    layouts: list[Layout] | None = None
    chosen = judged_formats(rule, formats)
    # the widest last: its proofs take the longest
    for form in sorted(chosen, key=lambda name: BINARY[name].bits):
        started = time.monotonic()
        elements = element_types(rule, form)
        assert elements is not None
        try:
            clock.check()
            typing = Typing(elements, form)
            element = result_type(rule, typing) or form
            if form not in elements.values():
                typing = Typing(elements, element)
            if layouts is None:
                layouts = [] if is_pointwise(rule) else layouts_of(rule, typing)
            verdict = _judged(rule, typing, FormatFindings(rule, element, assume), layouts, clock)
        except Fault as fault:
            verdict = IeeeVerdict(form, IeeeStatus.UNKNOWN, str(fault))
        except OutOfTime:
            verdict = IeeeVerdict(form, IeeeStatus.UNKNOWN, f"out of time: no verdict within {seconds:g} s")
        except MemoryError:
            verdict = IeeeVerdict(form, IeeeStatus.UNKNOWN, "out of memory")
        verdicts[form] = replace(verdict, seconds=time.monotonic() - started)
    return tuple(verdicts[form] for form in chosen)


def judged_formats(rule: Rule, formats: Sequence[str]) -> list[str]:
    """The formats that the rule is judged in: those in which it has a type, and one where no capture is of the format.

    Where it has a type in none, those that annotations allow: the verdict says what does not fit.
    """
    if rule.parameters:
        # roundings depend on the values that are chosen
        return []
    typings = {form: Typing(elements, form) for form in formats if (elements := element_types(rule, form)) is not None}
    allowed = [form for form, typing in typings.items() if _fits(rule, typing)] or list(typings)
    if allowed and all(form not in (element_types(rule, form) or {}).values() for form in allowed):
        return allowed[:1]
    return allowed


def _fits(rule: Rule, typing: Typing) -> bool:
    try:
        result_type(rule, typing)
    except Mismatch:
        return False
    return True


def _judged(rule: Rule, typing: Typing, findings: FormatFindings, layouts: list[Layout], clock: Clock) -> IeeeVerdict:
    seen = []
    for trial in tensor_trials(rule, typing, layouts) if layouts else pointwise_trials(rule, typing):
        clock.check()
        seen.append(findings.add(trial))
    if findings.tried == 0:
        raise NotComputed("no input that was tried meets the conditions")
    if not findings.complete and findings.differs and not findings.loses_numbers:
        _look_for_losses(rule, typing, findings, seen if layouts else [], clock)
    if not findings.loses or (findings.edge or 0.0) >= EDGE:
        findings.look_for_filled_gaps()
    if status_of(findings) is IeeeStatus.SAFER:
        findings.look_for_lost_digits()
    if findings.complete and is_exact(rule.where):
        return _verdict(typing.form, findings, f"all {count_inputs(typing.captures)} inputs", True)
    proved = _proof(rule, typing, findings, clock)
    clock.check()
    method = "Z3's floating-point theory" if proved else f"search over {findings.tried} inputs: no proof"
    return _verdict(typing.form, findings, method, proved)


def _look_for_losses(rule: Rule, typing: Typing, findings: FormatFindings, seen: list[Differences], clock: Clock) -> None:
    """Goes on where the sides differ and none of `seen` (without tensors: no input that was tried) is a loss."""
    if not seen:
        for trial in edge_trials(rule, typing):
            clock.check()
            findings.add(trial)
        return
    random = np.random.default_rng(2)
    for found in seen:
        for _ in range(GENERATIONS):
            clock.check()
            batch = mutants(found, random)
            if batch is None or findings.loses_numbers:
                break
            found = findings.add(TrialBatch(batch))


def status_of(findings: FormatFindings) -> IeeeStatus:
    """The status that fits everything the search has seen."""
    if findings.loses:
        return IeeeStatus.MAY_LOSE
    if findings.gains:
        return IeeeStatus.SAFER
    if not findings.differs:
        return IeeeStatus.EXACT
    return IeeeStatus.ROUNDS if findings.exceptions is None else IeeeStatus.EXACT_UNLESS


def _verdict(form: str, findings: FormatFindings, method: str, proved: bool) -> IeeeVerdict:
    return IeeeVerdict(
        format=form,
        status=status_of(findings),
        method=method,
        exceptions=findings.exceptions or (),
        proved=proved,
        examples=findings.examples(),
        ulps=findings.ulps,
        differing=findings.differing,
        edge=findings.edge,
    )


CLAIMS = {
    IeeeStatus.EXACT: ("same",),
    IeeeStatus.EXACT_UNLESS: ("same",),
    IeeeStatus.ROUNDS: ("keeps", "gains nothing"),
    IeeeStatus.SAFER: ("keeps",),
}
"""Claim of each status about all inputs."""


def _proof(rule: Rule, typing: Typing, findings: FormatFindings, clock: Clock) -> bool:
    """Return whether Z3 proves what the status claims. Inputs that break a claim are added to the findings, and change the status."""
    try:
        question = SmtQuery(rule, typing, findings.element, findings.assume)
    except NotEncoded:
        return False
    if not question.worthwhile:
        return False
    for _ in range(MODELS):
        status = status_of(findings)
        if status is IeeeStatus.MAY_LOSE:
            return False
        broken = None
        for claim in CLAIMS[status]:
            if not clock.proving:
                return False
            broken = question.breaks(claim, _excluded(findings), clock.deadline)
            if broken is not False:
                break
        clock.proving = broken is not True
        if not isinstance(broken, Batch):
            return broken is False
        before = (status, findings.exceptions)
        findings.add(TrialBatch(broken))
        if (status_of(findings), findings.exceptions) == before:
            return False
    return False


def _excluded(findings: FormatFindings) -> tuple[str, ...]:
    return (findings.exceptions or ()) if status_of(findings) is IeeeStatus.EXACT_UNLESS else ()
