"""The events of a step that matter: those that reach a result or a gradient which is not finite, wrong or wholly lost."""

from __future__ import annotations

from hnfc.tracing.errors import is_lost, is_wrong, result_error
from hnfc.tracing.events import Event, ValueRange, first_of
from hnfc.tracing.report import Trace
from hnfc.tracing.step import Final, TracedStep
from hnfc.tracing.words import at, first_index, kinds_of


def trace_of(step: TracedStep) -> Trace:
    """Faults of a step, in order."""
    found: list[Event] = [event for event in step.inputs if not event.weak]
    notes: list[str] = []
    for final in step.finals:
        found += _of_final(final, step, notes)
    chained = {id(part): part for event in found for part in _chain(event)}
    order = {id(event): place for place, event in enumerate([*step.inputs, *step.run.events])}
    events = sorted(chained.values(), key=lambda event: order.get(id(event), len(order)))
    notes += [event.reason for event in step.inputs if id(event) not in chained]
    error = max((result_error(final.given, final.true) for final in step.finals), default=0.0)
    return Trace(events, step.run.count, first_of(events), error, notes=list(dict.fromkeys(notes)))


def _chain(event: Event | None) -> list[Event]:
    found = list[Event]()
    while event is not None and event not in found:
        found.append(event)
        event = event.cause
    return found


def _of_final(final: Final, step: TracedStep, notes: list[str]) -> list[Event]:
    """The events that made a tensor of the end what it is, where it is not what it should be."""
    reach = [event for event in step.run.events if event in final.state.reach]
    reach += [event for event in step.inputs if event in final.state.reach]
    if not final.finite:
        what = kinds_of(final.given)
        if all(event.weak for event in reach) and what == "-inf" and final.kind == "result" and final.given.dim():
            notes.append(f"{final.name} has -inf{at(first_index(final.given == -float('inf')))}, which is put in on purpose")
            return []
        return reach or [_unexplained(final, f"{final.name} has {what}")]
    lost = final.kind == "gradient" and is_lost(final.given, final.true)
    if not lost and not is_wrong(final.given, final.true, final.kind == "gradient", step.run.epsilon):
        return []
    if reach:
        return reach
    judge = step.run.judge
    if lost:
        return [_unexplained(final, f"{final.name} is 0 everywhere and should not be", "underflow")]
    return judge.absorbed[:1] or ([judge.largest[1]] if judge.largest else [])


def _unexplained(final: Final, reason: str, kind: str = "undefined") -> Event:
    where = ~final.given.isfinite() if kind == "undefined" else final.given == 0
    return Event(kind, final.name, "", "", (), ValueRange.of(final.given), int(where.sum()), 0.0, reason, final.kind == "gradient",
                 index=first_index(where))  # fmt: skip
