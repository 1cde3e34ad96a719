"""`hnfc test`: the tests inside rule files."""

from __future__ import annotations

import argparse
from typing import Any

from hnfc.cli.progress import Progress
from hnfc.cli.rule_files import with_book
from hnfc.cli.terminal import DONE, WRONG, fault, say, write
from hnfc.dsl.diagnostics import render
from hnfc.report.rule_data import results_json
from hnfc.rewrite.rule_tests import run_tests


def run(options: argparse.Namespace) -> int:
    """Runs the tests; the exit code."""

    def tests_of(book: Any) -> int:
        results = []
        with Progress() as progress:
            progress("running tests …")
            for result in run_tests(book):
                results.append(result)
                progress(f"running tests: {len(results)} done, last of {result.rule} …")
        for result in results:
            if result.diagnostic is not None:
                fault(render(result.diagnostic, book.sources.get(result.diagnostic.file)))
                fault("")
        if options.json:
            write(options.json, results_json(results).encode())
        failed = sum(not result.passed for result in results)
        untested = [rule.name for rule in book.rules if rule.name not in {result.rule for result in results}]
        say(f"{len(results) - failed} of {len(results)} tests passed" + (f"; no test: {', '.join(untested)}" if untested else ""))
        return WRONG if failed else DONE

    return with_book(options.files, tests_of)
