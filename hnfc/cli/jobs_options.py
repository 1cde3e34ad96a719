"""Options of commands that do many things alike."""

from __future__ import annotations

import argparse

from hnfc.core.errors import UsageError


def add_jobs(parser: argparse.ArgumentParser, default: str = "1") -> None:
    """The options that say where work is done. default: the number of processes, in words."""
    chosen = parser.add_mutually_exclusive_group()
    chosen.add_argument("--jobs", type=int, metavar="N", help=f"processes (default: {default})")
    chosen.add_argument("--cluster", metavar="ADDRESS",
                        help="the scheduler of a Dask cluster, as HOST:PORT, whose workers have hnfc (needs dask.distributed)")  # fmt: skip


def no_programs(options: argparse.Namespace) -> None:
    """Raises UsageError for these options beside one model."""
    if options.jobs is not None or options.cluster is not None:
        flag = "--jobs" if options.jobs is not None else "--cluster"
        raise UsageError(f"{flag} spreads many FPCore programs, and {options.model} is one model; leave it out")
