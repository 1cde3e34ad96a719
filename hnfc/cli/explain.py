"""`hnfc explain`: a rule, its verdicts, its proof and its errors."""

from __future__ import annotations

import argparse
from typing import Any

from hnfc.cli.progress import Progress
from hnfc.cli.rule_files import with_book
from hnfc.cli.terminal import DONE, show, write
from hnfc.core.errors import UsageError, suggestion
from hnfc.dsl.rulebook import shipped
from hnfc.report.explain import explain, facts_of_rule
from hnfc.report.rule_data import text_of
from hnfc.report.table import width


def run(options: argparse.Namespace) -> int:
    """Prints a page for each rule; the exit code."""

    def print_pages(own: Any) -> int:
        texts, subjects = [], []
        for name in options.names:
            book = own if own.named(name) is not None else shipped()
            rule = book.named(name)
            if rule is None:
                raise UsageError(f"there is no rule `{name}`" + suggestion(name, [r.name for r in [*own.rules, *shipped().rules]]))
            with Progress() as progress:
                facts = facts_of_rule(rule, progress)
            texts.append(explain(book, rule, *facts, width()))
            subjects.append((book, rule, *facts))
        show("\n\n".join(texts))
        if options.json:
            data = {rule.name: {**verdict.to_json(), "ieee": [f.to_json() for f in judged]} for _, rule, verdict, judged, _ in subjects}
            write(options.json, text_of(data).encode())
        if options.report:
            from hnfc.cli import pages

            pages.write_page(options.report, pages.explain_pages, subjects)
        return DONE

    return with_book(options.rules, print_pages)
