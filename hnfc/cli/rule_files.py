"""The rules of files that a command names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hnfc.cli.terminal import DONE, NOT_PROVED, STDIN, WRONG, read_stdin, report_diagnostics
from hnfc.core.errors import UsageError
from hnfc.dsl.diagnostics import Diagnostic, HnfError
from hnfc.dsl.rulebook import load_files, load_text

_STDIN_NAME = "<stdin>"
_GRAVITY = (DONE, NOT_PROVED, WRONG)
"""Exit codes, the gravest last."""


def with_book(paths: list[str], run: Callable[[Any], int], lenient: bool = False, found: list[Diagnostic] | None = None) -> int:
    """Runs it on the rules of the files. lenient: also where some declarations are faulty, which are reported first. found: what is
    wrong with the files is added here."""
    if STDIN in paths and len(paths) > 1:
        raise UsageError("- is stdin, and stands alone")
    faults: list[Diagnostic] = []
    stdin = read_stdin() if paths == [STDIN] else None
    try:
        book = load_text(stdin, _STDIN_NAME) if stdin is not None else load_files(paths, faults if lenient else None)
    except HnfError as error:
        if found is not None:
            found += error.diagnostics
        return report_diagnostics(error, stdin)
    if found is not None:
        found += faults
    wrong = report_diagnostics(HnfError(faults)) if any(fault.severity == "error" for fault in faults) else DONE
    if not book.rules and wrong:
        return wrong
    return max(run(book), wrong, key=_GRAVITY.index)
