"""The rules of files that a command names."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from typing import Any

from hnfc.cli.terminal import DONE, NOT_PROVED, WRONG, report_diagnostics
from hnfc.dsl.diagnostics import HnfError
from hnfc.dsl.rulebook import load_files

_GRAVITY = (DONE, NOT_PROVED, WRONG)
"""Exit codes, the gravest last."""


def with_book(paths: list[str], run: Callable[[Any], int], lenient: bool = False) -> int:
    """Runs it on the rules of the files. lenient: also where some declarations are faulty, which are reported first."""
    faults: list[Any] = []
    try:
        book = load_files(paths, faults if lenient else None)
    except HnfError as error:
        return report_diagnostics(error)
    wrong = report_diagnostics(HnfError(faults)) if any(fault.severity == "error" for fault in faults) else DONE
    if not book.rules and wrong:
        return wrong
    return max(run(book), wrong, key=_GRAVITY.index)


def close_name(name: str, known: list[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean `{close[0]}`?" if close else ""
