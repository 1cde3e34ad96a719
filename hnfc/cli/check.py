"""`hnfc check`: the verdicts on the rules of files. An answer that is kept loads neither the language nor the prover."""

from __future__ import annotations

import argparse
import contextlib
import time
from collections.abc import Sequence
from pathlib import Path

from hnfc.cli.progress import loading
from hnfc.cli.terminal import DONE, STDIN, WRONG, fault, say
from hnfc.core.errors import ModelError, UsageError
from hnfc.report.check_cache import CheckQuery
from hnfc.report.table import table

_PAUSE = 0.3
"""Seconds between looks at the files."""


def run(options: argparse.Namespace) -> int:
    """Runs the command; the exit code."""
    if options.limit <= 0:
        raise UsageError("--limit takes a number of seconds above 0")
    if options.watch and STDIN in options.files:
        raise UsageError("--watch takes files: stdin does not change")
    return _watched(options) if options.watch else _checked(options)


def _watched(options: argparse.Namespace) -> int:
    """Checks again whenever a rule file beside the given ones changes, until it is interrupted; the last exit code."""
    code, seen = DONE, None
    with contextlib.suppress(KeyboardInterrupt):
        while True:
            now = _times(options.files)
            if now != seen:
                seen = now
                say(f"── {time.strftime('%H:%M:%S')} ──")
                try:
                    code = _checked(options)
                except (ModelError, OSError) as error:
                    fault(f"error: {error}")
                    code = WRONG
            time.sleep(_PAUSE)
    return code


def _times(files: Sequence[str]) -> dict[Path, int]:
    folders = {Path(file).absolute().parent for file in files}
    found = {}
    for path in sorted(path for folder in folders if folder.is_dir() for path in folder.glob("*.hnf")):
        with contextlib.suppress(OSError):
            found[path] = path.stat().st_mtime_ns
    return found


def _checked(options: argparse.Namespace) -> int:
    # what is written beside the report is made anew each time
    made_anew = options.no_cache or options.smt2 or options.coq or options.json or options.sarif or options.report
    kept = None if made_anew else _question(options)
    if kept is not None and (known := kept.answer()) is not None:
        (say if known.code == DONE else fault)(known.text(table))
        return known.code
    with loading():
        from hnfc.cli.judging import judge

    return judge(options, kept)


def _question(options: argparse.Namespace) -> CheckQuery:
    settings = {name: getattr(options, name) for name in ("why", "formats", "assume", "no_ieee")}
    return CheckQuery(options.files, settings)
