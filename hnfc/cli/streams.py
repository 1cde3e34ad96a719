"""Standard input and output where options name them by `-`: each is taken once."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from hnfc.cli.terminal import STDIN
from hnfc.core.errors import UsageError

INPUTS = ("model", "files", "names", "rules", "calibrate", "inputs", "given")
OUTPUTS = ("output", "json", "sarif", "report", "picture")


def taken(options: argparse.Namespace) -> bool:
    """Return whether an option has stdout: results then leave it alone. Raises UsageError where two options want one stream."""
    for names, stream in ((INPUTS, "stdin is read once"), (OUTPUTS, "stdout takes one of them")):
        wanted = list(_wanting(options, names))
        if len(wanted) > 1:
            raise UsageError(f"`-` stands for {' and '.join(wanted)}, but {stream}: give a file for the other")
    return any(getattr(options, name, None) == STDIN for name in OUTPUTS)


def _wanting(options: argparse.Namespace, names: tuple[str, ...]) -> Iterator[str]:
    for name in names:
        given = getattr(options, name, None)
        for value in given if isinstance(given, list) else [given]:
            if value == STDIN:
                yield _SPELT.get(name, f"--{name}")


_SPELT = {"model": "the model", "files": "a file", "names": "a file", "output": "-o"}
