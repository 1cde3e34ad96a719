"""Many cases in forked processes, one in each or some: whatever kills one is a line of the table, not the end of the run."""

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
"""Function that returns the kind of outcome and its detail."""


@dataclass
class _Running:
    """A child: its process, the cases it was given and has not answered, and the time at which the first of them has taken too long."""

    pid: int
    waiting: list[tuple[str, Case]]
    limit: float
    data: bytes = b""

    def answers(self) -> Iterator[Outcome]:
        """The outcomes in what was read so far."""
        while len(self.data) >= _HEAD and len(self.data) >= _HEAD + (size := int.from_bytes(self.data[:_HEAD], "big")):
            made, self.data = pickle.loads(self.data[_HEAD : _HEAD + size]), self.data[_HEAD + size :]
            yield Outcome(self.waiting.pop(0)[0], *made)


_HEAD = 4
"""Bytes of the length in front of an answer."""


def run(cases: Iterable[tuple[str, Case]], *, jobs: int = 2, seconds: float = 60.0, batch: int = 1) -> Iterator[Outcome]:
    """The outcome of every case, as they come. batch: cases that a child takes one after another, so that what each of them would load
    anew is there; where one ends the child, that one is named, and another child goes on behind it."""
    waiting = list(cases)[::-1]
    running: dict[int, _Running] = {}
    while waiting or running:
        while waiting and len(running) < jobs:
            given = [waiting.pop() for _ in range(min(batch, len(waiting)))]
            reader, writer = os.pipe()
            pid = fork()
            if pid == 0:
                os.close(reader)
                _child(given, writer)
            os.close(writer)
            running[reader] = _Running(pid, given, time.monotonic() + seconds)
        for reader in select.select(list(running), [], [], 0.2)[0]:
            child = running[reader]
            data = os.read(reader, 1 << 20)
            child.data += data
            for outcome in child.answers():
                child.limit = time.monotonic() + seconds
                yield outcome
            if not data:
                del running[reader]
                status = _ended(reader, child)
                if child.waiting:
                    yield Outcome(child.waiting.pop(0)[0], DIED, status)
                waiting += child.waiting[::-1]
        for reader, child in list(running.items()):
            if time.monotonic() > child.limit:
                os.kill(child.pid, signal.SIGKILL)
                _ended(reader, child)
                del running[reader]
                yield Outcome(child.waiting.pop(0)[0], HUNG, f"more than {seconds:g} s")
                waiting += child.waiting[::-1]


def fork() -> int:
    """`os.fork` without a warning of JAX, whose threads a child does not need."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return os.fork()


def _child(cases: Sequence[tuple[str, Case]], writer: int) -> None:
    """Runs the cases and leaves the process, without what the parent does at its end."""
    faulthandler.disable()  # a signal is reported by the parent, in one line
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
    for _, case in cases:
        try:
            made = case()
        except BaseException as error:
            made = RAISED, f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
        packed = pickle.dumps(made)
        with os.fdopen(os.dup(writer), "wb") as stream:
            stream.write(len(packed).to_bytes(_HEAD, "big") + packed)
    os._exit(0)


def _ended(reader: int, child: _Running) -> str:
    """The way in which a child ended."""
    os.close(reader)
    _, status = os.waitpid(child.pid, 0)
    return signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else f"exit {status >> 8}"


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
