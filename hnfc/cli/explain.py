"""`hnfc explain`: a rule, its verdicts, its proof and its errors."""

from __future__ import annotations

import argparse
from typing import Any

from hnfc.cli.rule_files import with_book
from hnfc.cli.terminal import DONE, Progress, show
from hnfc.core.errors import UsageError, suggestion
from hnfc.dsl.rulebook import shipped
from hnfc.report.explain import explain_page
from hnfc.report.table import width


def run(options: argparse.Namespace) -> int:
    """Prints a page for each rule; the exit code."""

    def print_pages(own: Any) -> int:
        pages = []
        for name in options.names:
            book = own if own.named(name) is not None else shipped()
            rule = book.named(name)
            if rule is None:
                raise UsageError(f"there is no rule `{name}`" + suggestion(name, [r.name for r in [*own.rules, *shipped().rules]]))
            with Progress() as progress:
                pages.append(explain_page(book, rule, width(), progress))
        show("\n\n".join(pages))
        return DONE

    return with_book(options.rules, print_pages)
