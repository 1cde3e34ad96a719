"""Many rules at once, each in a process that is killed when its time is up: no rule can hang the prover."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import time
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, as_completed
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from hnfc.dsl.core import Rule
from hnfc.dsl.fingerprint import fingerprint
from hnfc.dsl.soundness import judge
from hnfc.dsl.soundness.cache import VerdictCache
from hnfc.dsl.soundness.verdict import Status, Verdict

LIMIT_SECONDS = 20.0
GRACE_SECONDS = 2.0
START_SECONDS = 30.0
MEMORY_BYTES = 4 << 30

V = TypeVar("V")
Judge = Callable[[Rule, float], V]
"""The verdict on a rule within about so many seconds; a function of a module, since processes may have to import it."""
Failed = Callable[[Rule, str, float], V]
"""Substitute for a verdict: of the rule, the reason why there is none, and the seconds that it took."""


@dataclass
class _Worker:
    process: BaseProcess
    pipe: Connection
    index: int | None = None
    since: float = 0.0
    fresh: bool = True


def _serve(pipe: Connection, rules: Sequence[Rule], limit: float, judge: Judge[Any], failed: Failed[Any]) -> None:
    """Judges the rules whose numbers come through the pipe, until None comes."""
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        # beside what the process that this one was forked from had mapped
        most = MEMORY_BYTES + _mapped_bytes()
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
    # NumPy's warnings name files of ours, and say nothing of the rule
    np.seterr(all="ignore")
    while (index := pipe.recv()) is not None:
        try:
            verdict = judge(rules[index], limit)
        except MemoryError:
            verdict = failed(rules[index], "out of memory", 0.0)
        except Exception as error:
            # whatever goes wrong in a worker is reported, and never taken for a verdict
            verdict = failed(rules[index], failure("the prover", error), 0.0)
        pipe.send(verdict)


def _mapped_bytes() -> int:
    """Bytes of the process's address space; 0 where the system does not say."""
    try:
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, AttributeError):
        return 0


def failure(what: str, error: Exception) -> str:
    """Message for a fault of ours: its kind, without Python's words, which the author could take for theirs."""
    if isinstance(error, RecursionError):
        return "the rule is nested too deeply"
    message = str(error).splitlines()[0][:200] if str(error) else ""
    return f"{what} failed on this rule, which is a fault of ours ({type(error).__name__}: {message})"


def is_passing(reason: str) -> bool:
    """Return whether another machine, or another run, may do better."""
    return any(words in reason for words in ("out of time", "out of memory", "process died", "prover failed"))


def _prove(rule: Rule, limit: float) -> Verdict:
    return judge.verdict(rule, int(1000 * limit))


def _unknown(rule: Rule, reason: str, seconds: float) -> Verdict:
    return Verdict(Status.UNKNOWN, reason, seconds=seconds)


def prove_all(
    rules: Sequence[Rule],
    *,
    jobs: int | None = None,
    limit: float = LIMIT_SECONDS,
    cache: VerdictCache | None = None,
    done: Callable[[Rule, Verdict], None] | None = None,
    executor: Executor | None = None,
) -> list[Verdict]:
    """The verdicts in the order of the rules. `limit`: seconds a rule may take. `done` is called as each is known. executor: see `run`."""
    verdicts: dict[int, Verdict] = {}
    keys: list[str] = []
    if cache is not None:
        keys = [fingerprint(rule) for rule in rules]
        known = cache.get_all(keys)
        verdicts = {i: known[key] for i, key in enumerate(keys) if key in known}
    todo = [i for i in range(len(rules)) if i not in verdicts]
    if done is not None:
        for i in sorted(verdicts):
            done(rules[i], verdicts[i])

    def finish(i: int, verdict: Verdict) -> None:
        verdicts[i] = verdict
        if done is not None:
            done(rules[i], verdict)

    if todo:
        run(rules, todo, jobs, limit, _prove, _unknown, finish, executor)
        if cache is not None:
            cache.put({keys[i]: verdicts[i] for i in todo if not is_passing(verdicts[i].reason)})
    return [verdicts[i] for i in range(len(rules))]


def run(
    rules: Sequence[Rule],
    todo: list[int],
    jobs: int | None,
    limit: float,
    judge: Judge[V],
    failed: Failed[V],
    finish: Callable[[int, V], None],
    executor: Executor | None = None,
) -> None:
    """Judges the rules numbered in `todo`, in `jobs` processes (None: one for each core); `finish` is called as each is done.

    executor: where each rule is judged instead, in a process of its own below the executor's, so that limits hold there too.
    """
    if executor is not None:
        equal: dict[tuple[str, str], list[int]] = {}
        for i in todo:
            # samples are drawn by the name
            equal.setdefault((rules[i].name, fingerprint(rules[i])), []).append(i)
        futures = {executor.submit(_judged_alone, rules[same[0]], limit, judge, failed): same for same in equal.values()}
        for future in as_completed(futures):
            for i in futures[future]:
                finish(i, future.result())
        return
    context = multiprocessing.get_context("fork" if "fork" in multiprocessing.get_all_start_methods() and os.name == "posix" else "spawn")
    waiting = list(reversed(todo))
    workers: list[_Worker] = []

    def start() -> _Worker:
        here, there = context.Pipe()
        process = context.Process(target=_serve, args=(there, rules, limit, judge, failed), daemon=True)  # type: ignore[attr-defined]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # of JAX, whose threads these processes do not need
            process.start()
        there.close()
        return _Worker(process, here)

    def give(worker: _Worker) -> None:
        worker.index = waiting.pop()
        worker.since = time.monotonic()
        worker.pipe.send(worker.index)

    try:
        for _ in range(max(1, min(jobs or os.cpu_count() or 1, len(todo)))):
            workers.append(start())
            give(workers[-1])
        while any(w.index is not None for w in workers):
            busy = [w for w in workers if w.index is not None]
            ready = wait([w.pipe for w in busy], timeout=0.2)
            for worker in busy:
                assert worker.index is not None
                verdict: V | None = None
                unknown = partial(failed, rules[worker.index])
                dead = False
                if worker.pipe in ready:
                    try:
                        verdict = worker.pipe.recv()
                        worker.fresh = False
                    except (EOFError, OSError):
                        verdict, dead = unknown("the prover's process died", 0.0), True
                elif time.monotonic() - worker.since > limit + GRACE_SECONDS + START_SECONDS * worker.fresh * (
                    context.get_start_method() == "spawn"
                ):
                    verdict, dead = unknown(f"out of time: no verdict within {limit:g} s", limit), True
                if verdict is None:
                    continue
                finish(worker.index, verdict)
                worker.index = None
                if dead:
                    _kill(worker)
                    workers.remove(worker)
                    if waiting:
                        worker = start()
                        workers.append(worker)
                if waiting:
                    give(worker)
    finally:
        for worker in workers:
            with contextlib.suppress(OSError):
                worker.pipe.send(None)
        for worker in workers:
            worker.process.join(0.5)
            _kill(worker)


def _judged_alone(rule: Rule, limit: float, judge: Judge[V], failed: Failed[V]) -> V:
    """The verdict on one rule, in a process that is killed when its time is up."""
    # workers of clusters are daemons, which may not have children; ours ends before this function does
    multiprocessing.current_process()._config["daemon"] = False  # type: ignore[attr-defined]
    found: list[V] = []
    run([rule], [0], 1, limit, judge, failed, lambda _, verdict: found.append(verdict))
    return found[0]


def _kill(worker: _Worker) -> None:
    if worker.process.is_alive():
        worker.process.kill()
    worker.process.join(5)
    worker.pipe.close()
