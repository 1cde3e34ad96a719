"""`hnfc rules`: rules with their verdicts, or as patterns of the PDL dialect."""

from __future__ import annotations

import argparse

from hnfc.cli.progress import Progress
from hnfc.cli.rule_files import with_book
from hnfc.cli.terminal import DONE, STDIN, say, show, write
from hnfc.core.certificates import certificates
from hnfc.core.errors import UsageError, suggestion
from hnfc.core.verdicts import verdicts
from hnfc.dsl import core
from hnfc.dsl.rulebook import Rulebook, shipped
from hnfc.report.rule_data import rules_json
from hnfc.report.rules import rule_page, rule_table
from hnfc.rewrite.pdl import pdl_module


def run(options: argparse.Namespace) -> int:
    """Lists, shows or writes the rules; the exit code."""
    files = [name for name in options.names if name.endswith(".hnf") or name == STDIN]
    if not files:
        return _run(options, shipped())
    if len(files) < len(options.names):
        raise UsageError("names are of shipped rules: give files of rules or names, not both")
    options.names = []
    return with_book(files, lambda book: _run(options, book))


def _run(options: argparse.Namespace, book: Rulebook) -> int:
    groups = book.groups()
    rules = book.rules
    if options.names:
        rules = []
        for name in options.names:
            rule = book.named(name)
            if rule is None and name not in groups:
                raise UsageError(f"there is no rule or group `{name}`" + suggestion(name, [*(r.name for r in book.rules), *groups]))
            rules += [rule] if rule is not None else groups[name]
    with Progress() as progress:
        found = verdicts(rules, progress=progress)
    if options.json:
        write(options.json, rules_json(book, rules, found).encode())
    if options.emit == "pdl":
        _emit_pdl(rules, {name for name, verdict in found.items() if verdict.proved})
    elif options.names and all(name not in groups for name in options.names):
        show("\n\n".join(rule_page(book, rule, found[rule.name]) for rule in rules))
    else:
        show(rule_table(rules, found, certificates(rules, found)))
    return DONE


def _emit_pdl(rules: list[core.Rule], proved: set[str]) -> None:
    module, reasons = pdl_module(rule for rule in rules if rule.name in proved)
    reasons |= {rule.name: "it is not proved" for rule in rules if rule.name not in proved}
    show(str(module))
    for name, reason in reasons.items():
        say(f"{name}: not in PDL: {reason}")
