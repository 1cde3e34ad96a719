"""Many cases, each in a forked process of its own: whatever kills one is a line of the table, not the end of the run."""

from __future__ import annotations

import faulthandler
import os
import pickle
import select
import signal
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

RIGHT, REFUSED, WRONG, RAISED, DIED, HUNG = "right", "refused", "wrong", "raised", "died", "hung"
OUTCOMES = (RIGHT, REFUSED, WRONG, RAISED, DIED, HUNG)
FAULTS = (WRONG, RAISED, DIED, HUNG)


@dataclass(frozen=True)
class Outcome:
    """Result of a case: one of OUTCOMES, and the message or the difference behind it."""

    name: str
    kind: str
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.kind:8} {self.name}: {self.detail}"


def faults(found: Iterable[Outcome]) -> list[str]:
    """The outcomes that no refusal excuses, in words."""
    return [str(outcome) for outcome in found if outcome.kind in FAULTS]


Case = Callable[[], tuple[str, str]]
"""Returns the kind of outcome and its detail."""


def run(cases: Iterable[tuple[str, Case]], *, jobs: int = 2, seconds: float = 60.0) -> Iterator[Outcome]:
    """The outcome of every case, as they come."""
    waiting = list(cases)[::-1]
    running: dict[int, tuple[int, str, float]] = {}
    while waiting or running:
        while waiting and len(running) < jobs:
            name, case = waiting.pop()
            reader, writer = os.pipe()
            pid = fork()
            if pid == 0:
                os.close(reader)
                _child(case, writer)
            os.close(writer)
            running[reader] = pid, name, time.monotonic() + seconds
        for reader in select.select(list(running), [], [], 0.2)[0]:
            pid, name, _ = running.pop(reader)
            yield _outcome(name, reader, pid)
        for reader, (pid, name, limit) in list(running.items()):
            if time.monotonic() > limit:
                os.kill(pid, signal.SIGKILL)
                _outcome(name, reader, pid)
                del running[reader]
                yield Outcome(name, HUNG, f"more than {seconds:g} s")


def fork() -> int:
    """`os.fork` without a warning of JAX, whose threads a child does not need."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return os.fork()


def _child(case: Case, writer: int) -> None:
    """Runs the case and leaves the process, without what the parent does at its end."""
    faulthandler.disable()  # a signal is reported by the parent, in one line
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
    try:
        made = case()
    except BaseException as error:
        made = RAISED, f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
    with os.fdopen(writer, "wb") as stream:
        pickle.dump(made, stream)
    os._exit(0)


def _outcome(name: str, reader: int, pid: int) -> Outcome:
    with os.fdopen(reader, "rb") as stream:
        data = stream.read()
    _, status = os.waitpid(pid, 0)
    if not data:
        return Outcome(name, DIED, signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else f"exit {status >> 8}")
    return Outcome(name, *pickle.loads(data))


def counts(outcomes: Sequence[Outcome]) -> dict[str, int]:
    found = Counter(outcome.kind for outcome in outcomes)
    return {kind: found[kind] for kind in OUTCOMES}


def show(outcomes: Iterable[Outcome]) -> None:
    """Prints what is not right as it comes, and the counts."""
    found = []
    for outcome in outcomes:
        found.append(outcome)
        if outcome.kind != RIGHT:
            print(outcome, flush=True)
    print(counts(found))
