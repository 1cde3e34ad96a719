"""Executors of maps: processes of this machine, or the workers of a Dask cluster; both are `concurrent.futures.Executor`.

Work is keyed by its content, so that equal work is sent and done once, and a worker with other sources than ours refuses it.
"""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import pickle
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError, Executor, Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from hnfc.core.errors import ModelError, UsageError, first_line

P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R")
CONNECT_SECONDS = 10


class Keyed(Executor):
    """An executor that sends equal work once, with the digest of our sources. dask: the key is the cluster's name of the work too."""

    def __init__(self, inner: Executor, dask: bool = False) -> None:
        self.inner, self.dask = inner, dask
        self.sent_bytes = 0
        self._futures: dict[str, Future[Any]] = {}

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Result of the function, which has to be one of a module."""
        content = pickle.dumps((sources_digest(), fn, args, kwargs))
        key = f"hnfc-{hashlib.sha256(content).hexdigest()}"
        if key not in self._futures:
            self.sent_bytes += len(content)
            self._futures[key] = self.inner.submit(_unpacked, content, **({"key": key} if self.dask else {}))
        return self._futures[key]

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Ends the inner executor, and forgets its results."""
        if cancel_futures:
            for future in self._futures.values():
                future.cancel()
        self._futures.clear()
        if self.dask:
            self.inner.shutdown(wait)
        else:
            self.inner.shutdown(wait, cancel_futures=cancel_futures)


def _unpacked(content: bytes) -> Any:
    """Result of work as it is sent. Raises UsageError where our sources differ from the sender's."""
    digest, fn, args, kwargs = pickle.loads(content)
    if digest != sources_digest():
        raise UsageError(f"a worker (process {os.getpid()}) has other sources of hnfc than this process; install the same ones on all")
    return fn(*args, **kwargs)


@cache
def sources_digest() -> str:
    """Digest of all files of the package but byte code."""
    root = Path(str(files("hnfc")))
    digest = hashlib.sha256()
    for folder in (root, *(root / name for name in ("dialects", "dsl", "rules"))):
        for path in sorted(folder.rglob("*")):
            if path.suffix in (".py", ".hnf", ".lark", ".json"):
                digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


@contextmanager
def executor_of(jobs: int | None = None, cluster: str | None = None) -> Iterator[Keyed | None]:
    """Executor with so many processes, or on the cluster at the address of its scheduler; None where work is done in this process.

    Raises UsageError where the address does not answer or `dask.distributed` is missing, and ModelError where workers are lost.
    """
    if jobs is not None and jobs < 1:
        raise UsageError(f"--jobs takes a number of processes from 1, not {jobs}")
    if cluster is None and (jobs or 1) == 1:
        yield None
        return
    executor = _connected(cluster) if cluster is not None else Keyed(_processes(jobs or 1))
    try:
        yield executor
    except BaseException as error:
        executor.shutdown(wait=False, cancel_futures=True)
        if isinstance(error, BrokenProcessPool | CancelledError) or type(error).__module__.startswith("distributed"):
            where = f"cluster {cluster}" if cluster else "a process"
            raise ModelError(f"{where}: work was lost ({type(error).__name__}: {first_line(error)[:200]}); run again") from error
        raise
    executor.shutdown()


def _processes(jobs: int) -> Executor:
    return ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("forkserver"))


def _connected(address: str) -> Keyed:
    try:
        from distributed import Client
    except ImportError as error:
        raise UsageError(f"--cluster needs dask.distributed, which cannot be loaded ({error}): pip install 'hnfc[cluster]'") from None
    try:
        client = Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        raise UsageError(f"--cluster {address}: no Dask scheduler answers ({first_line(error)}); give HOST:PORT") from None
    return Keyed(client.get_executor(), dask=True)


def mapped(executor: Executor | None, function: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
    """Results in the order of the items; without an executor each is computed when it is needed."""
    if executor is None:
        yield from map(function, items)
        return
    for future in [executor.submit(function, item) for item in items]:
        yield future.result()
