"""`hnfc check`: the verdicts on the rules of files. An answer that is kept loads neither the language nor the prover."""

from __future__ import annotations

import argparse

from hnfc.cli.terminal import say
from hnfc.core.errors import UsageError
from hnfc.report.check_cache import CheckQuery
from hnfc.report.table import table


def run(options: argparse.Namespace) -> int:
    """Runs the command; the exit code."""
    if options.limit <= 0:
        raise UsageError("--limit takes a number of seconds above 0")
    # what is written beside the report is made anew each time
    made_anew = options.no_cache or options.smt2 or options.coq or options.json or options.sarif or options.report
    kept = None if made_anew else _question(options)
    if kept is not None and (known := kept.answer()) is not None:
        say(known.text(table))
        return known.code
    from hnfc.cli.judging import judge

    return judge(options, kept)


def _question(options: argparse.Namespace) -> CheckQuery:
    settings = {name: getattr(options, name) for name in ("why", "formats", "assume", "no_ieee")}
    return CheckQuery(options.files, settings)
