"""A trace, and its text."""

from __future__ import annotations

from dataclasses import dataclass, field

from hnfc.core.notebook import NotebookTable, notebook_html
from hnfc.tracing.events import Event, ValueRange

_VERBS = {
    "overflow": "overflows", "underflow": "underflows", "undefined": "is NaN", "pole": "is infinite", "input": "is not finite",
    "constant": "puts in inf/NaN", "cancellation": "loses its digits", "absorption": "adds nothing",
}  # fmt: skip
_MOST = 8


@dataclass(repr=False)
class Trace:
    """Events of a model's run on a sample, in order. `first` is the one to look at."""

    events: list[Event]
    operations: int
    first: Event | None
    error: float = 0.0
    """The largest relative error of the results."""
    compiled: list[ValueRange] = field(default_factory=list)
    """Values of each floating-point result from compiled code, where the model was compiled."""
    notes: list[str] = field(default_factory=list)
    """Description of what is not finite though no operation is at fault."""

    def __str__(self) -> str:
        return _report(self)

    def __repr__(self) -> str:
        return f"Trace({len(self.events)} events in {self.operations} operations" + (f"; first: {self.first})" if self.first else ")")

    def _repr_html_(self) -> str:
        if self.first is None:
            return notebook_html(str(self).split("\n")[0], "warn" if self.notes else "good", *self.notes)
        rows = [[event.operation, _VERBS[event.kind], event.place, event.reason, str(event.result)] for event in self.events]
        headings = ("operation", "event", "at", "reason", "gives")
        remedies = [f"mend: {remedy}" for remedy in self.first.remedies]
        return notebook_html(_section(self.first)[0], "bad", *remedies, NotebookTable(headings, rows), *self.notes)

    def __bool__(self) -> bool:
        """Return whether anything went wrong."""
        return bool(self.events)


def _report(trace: Trace) -> str:
    """The first place that goes wrong with its cause and remedies, then the others, one line each."""
    if trace.first is None and trace.notes:
        return "\n".join([f"no operation went wrong in {trace.operations} operations on this sample, but:", *_notes(trace)])
    if trace.first is None:
        return f"nothing went wrong in {trace.operations} operations on this sample"
    lines = _section(trace.first)
    listed = list[Event]()
    event: Event | None = trace.first
    while event is not None and event not in listed:
        listed.append(event)
        event = event.cause
    others = [event for event in trace.events if event not in listed]
    if others:
        lines.append(f"{len(others)} other place{'s' if len(others) > 1 else ''}, in the order that they ran:")
        lines += [f"  {_VERBS[event.kind]:16} {event}" for event in others[:_MOST]]
        if len(others) > _MOST:
            lines.append(f"  … and {len(others) - _MOST} more")
    for index, span in enumerate(trace.compiled):
        lines.append(f"compiled code gives for result {index}: {str(span.dtype).removeprefix('torch.')} in {span}")
    lines += _notes(trace)
    lines.append(f"{trace.operations} operations ran, each beside float64")
    return "\n".join(lines)


def _notes(trace: Trace) -> list[str]:
    return [f"    note    {note}" for note in trace.notes]


def _section(event: Event) -> list[str]:
    lines = [f"{event.operation} {_VERBS[event.kind]} in {event.place}", f"    why     {event.reason}"]
    lines[1] += f" ({event.elements} of {event.result.elements} elements)"
    lines += [f"    takes   {str(span.dtype).removeprefix('torch.')} in {span}" for span in event.operands]
    lines.append(f"    gives   {str(event.result.dtype).removeprefix('torch.')} in {event.result}")
    cause = event.cause
    while cause is not None:
        lines.append(f"    after   {cause.operation} {_VERBS[cause.kind]} in {cause.place}: {cause.reason}")
        cause = cause.cause
    lines += [f"    mend    {remedy}" for remedy in event.remedies]
    return lines
