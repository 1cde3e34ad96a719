"""`hnfc rules`: the shipped rules with their verdicts."""

from __future__ import annotations

import argparse

from hnfc.cli.rule_files import close_name
from hnfc.cli.terminal import DONE, Progress
from hnfc.core.errors import UsageError
from hnfc.core.verdicts import verdicts
from hnfc.dsl.rulebook import shipped
from hnfc.report.rules import rule_page, rule_table
from hnfc.report.table import width


def run(options: argparse.Namespace) -> int:
    """Lists or shows the rules; the exit code."""
    book = shipped()
    groups = book.groups()
    rules = book.rules
    if options.names:
        rules = []
        for name in options.names:
            rule = book.named(name)
            if rule is None and name not in groups:
                raise UsageError(f"there is no rule or group `{name}`" + close_name(name, [r.name for r in book.rules] + list(groups)))
            rules += [rule] if rule is not None else groups[name]
    with Progress() as progress:
        found = verdicts(rules, progress=progress)
    if options.names and all(name not in groups for name in options.names):
        print("\n\n".join(rule_page(book, rule, found[rule.name]) for rule in rules))
    else:
        print(rule_table(rules, found, width()))
    return DONE
