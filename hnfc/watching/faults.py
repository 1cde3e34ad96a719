"""A step that went wrong, as the page of a run and a folder have it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hnfc.tracing.report import Trace
from hnfc.watching.record import BadStep


@dataclass(frozen=True)
class Fault:
    """A step that went wrong. chain: the module and the name in `History.series` of each value on the way to the fault."""

    step: int
    report: str
    chain: Sequence[tuple[str, str]]

    @staticmethod
    def of(bad: BadStep) -> Fault:
        return Fault(bad.step, str(bad), chain_of(bad.trace))


def chain_of(trace: Trace | None) -> list[tuple[str, str]]:
    """The module and the name of each place that an event of a trace is at, from the first to the last."""
    found = []
    for event in trace.events if trace is not None else ():
        module = event.module.removeprefix("model").removeprefix(".")  # a step's model is called that
        where = " ".join(part for part in (module, f"({event.source})" if event.source else "") if part)
        found.append((module, f"{event.operation.partition('.')[0]} in {where or 'the model'}"))
    return list(dict.fromkeys(found))
