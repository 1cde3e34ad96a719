"""Verdicts in the background: one process proves the rules of a file, and is ended when the next key makes them old."""

from __future__ import annotations

import contextlib
import multiprocessing
import threading
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from multiprocessing.forkserver import ensure_running
from multiprocessing.process import BaseProcess
from typing import Any

import numpy as np

from hnfc.dsl import core
from hnfc.dsl.fingerprint import fingerprint
from hnfc.dsl.ieee import IeeeVerdict, ieee_verdicts
from hnfc.dsl.soundness import Status, Verdict
from hnfc.dsl.soundness.judge import verdict
from hnfc.dsl.soundness.parallel import failure

SECONDS = 20.0
"""Seconds that one rule may take."""
GRACE = 5.0
MEMORY = 4 << 30
_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(["hnfc.language_server.judging"])


def prepare_prover() -> None:
    """Starts the process that provers are forked from, so that the first rule need not wait for the prover to be loaded."""
    with contextlib.suppress(OSError):
        ensure_running()


class BackgroundJudge:
    """Verdicts that were found, and the process that looks for those that are missing."""

    def __init__(self) -> None:
        self._known: dict[str, Verdict] = {}
        self._advised: set[str] = set()
        """Rules whose verdict comes with the condition that would make them right, if there is one."""
        self._floating: dict[str, tuple[IeeeVerdict, ...]] = {}
        self._process: BaseProcess | None = None
        self._lock = threading.Lock()

    def verdict(self, rule: core.Rule) -> Verdict | None:
        """The verdict over the reals, if it is known."""
        return self._known.get(fingerprint(rule))

    def floating(self, rule: core.Rule) -> tuple[IeeeVerdict, ...]:
        """The verdicts in formats, as far as they are known."""
        return self._floating.get(fingerprint(rule), ())

    def start(self, rules: Sequence[core.Rule], done: Callable[[core.Rule], None]) -> None:
        """Ends what runs, and judges the rules that are not known: all over the reals, then conditions for those refuted, then formats.

        `done` runs in another thread.
        """
        with self._lock:
            self._end()
            missing = [rule for rule in rules if self.verdict(rule) is None]
            unadvised = [rule for rule in rules if fingerprint(rule) not in self._advised]
            unrounded = [rule for rule in rules if not self.floating(rule)]
            if not missing and not unadvised and not unrounded:
                return
            ours, theirs = _FORKS.Pipe()
            process = self._process = _FORKS.Process(target=_judge, args=(theirs, missing, unadvised, unrounded), daemon=False)
            process.start()
            theirs.close()
        threading.Thread(target=self._listen, args=(ours, process, list(rules), done), daemon=True).start()

    def stop(self) -> None:
        """Ends what runs."""
        with self._lock:
            self._end()

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._process = None

    def _listen(self, pipe: Connection, process: BaseProcess, rules: Sequence[core.Rule], done: Callable[[core.Rule], None]) -> None:
        """Takes what the process finds. A rule on which it hangs or dies is not decided, and the others go on without it."""
        while True:
            rule, found, advised = self._next(pipe)
            with self._lock:
                if self._process is not process:
                    return
                if rule is None:
                    rule = next((each for each in rules if self.verdict(each) is None), None)
                    found = Verdict(Status.UNKNOWN, f"no answer within {SECONDS:g} s")
                    self._end()
                    if rule is None:
                        return
                    self._known[fingerprint(rule)] = found
                    self._advised.add(fingerprint(rule))
                elif isinstance(found, Verdict):
                    # what was refuted stays so where the search for a condition fails
                    before = self.verdict(rule)
                    if before is None or found.status is before.status:
                        self._known[fingerprint(rule)] = found
                    if advised:
                        self._advised.add(fingerprint(rule))
                else:
                    self._floating[fingerprint(rule)] = found
                ended = self._process is None
            done(rule)
            if ended:
                self.start(rules, done)
                return

    @staticmethod
    def _next(pipe: Connection) -> tuple[core.Rule | None, Any, bool]:
        with contextlib.suppress(EOFError, OSError):
            if pipe.poll(SECONDS + GRACE):
                rule, found, advised = pipe.recv()
                return rule, found, advised
        return None, None, False


def _judge(pipe: Connection, missing: Sequence[core.Rule], unadvised: Sequence[core.Rule], unrounded: Sequence[core.Rule]) -> None:
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    np.seterr(all="ignore")
    decided = set()
    for rule in missing:
        found = _verdict(rule, advise=False)
        if found.status is not Status.REFUTED:
            decided.add(fingerprint(rule))
        pipe.send((rule, found, found.status is not Status.REFUTED))
    for rule in unadvised:
        if fingerprint(rule) not in decided:
            pipe.send((rule, _verdict(rule, advise=True), True))
    for rule in unrounded:
        with contextlib.suppress(Exception):
            pipe.send((rule, ieee_verdicts(rule, seconds=SECONDS), True))
    # the other end takes the end of the pipe for a rule that killed the process, but where all are known
    pipe.close()


def _verdict(rule: core.Rule, *, advise: bool) -> Verdict:
    try:
        return verdict(rule, int(1000 * SECONDS), advise=advise)
    except Exception as error:
        return Verdict(Status.UNKNOWN, failure("the prover", error))
