"""`hnfc fmt`: rule files in their standard form."""

from __future__ import annotations

import argparse

from hnfc.cli.terminal import DONE, STDIN, WRONG, fault, read_stdin, report_diagnostics, say, write
from hnfc.core.plain_files import read_text
from hnfc.dsl.diagnostics import HnfError
from hnfc.dsl.parser import parse
from hnfc.dsl.printer import print_file
from hnfc.report.rule_data import text_of


def run(options: argparse.Namespace) -> int:
    """Formats the files; the exit code."""
    code, states = DONE, {}
    for path in options.files:
        source = None
        try:
            source = read_stdin() if path == STDIN else read_text(path)
            formatted = print_file(parse(source, path))
        except HnfError as error:
            code, states[path] = report_diagnostics(error, source), "faulty"
            continue
        except UnicodeDecodeError:
            fault(f"error: {path}: the file is not text in UTF-8")
            code, states[path] = WRONG, "faulty"
            continue
        states[path] = "kept" if formatted == source else "to format" if options.check else "formatted"
        if options.check:
            if formatted != source:
                fault(f"{path} is not formatted")
                code = WRONG
        elif path == STDIN:
            write(None, formatted.encode())
        elif formatted != source:
            write(path, formatted.encode())
            say(f"{path} formatted")
    if options.json:
        write(options.json, text_of([{"file": path, "state": state} for path, state in states.items()]).encode())
    return code
