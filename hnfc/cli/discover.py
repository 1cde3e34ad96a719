"""`hnfc discover`: rules over chosen operations, found and proved by machine, as a file."""

from __future__ import annotations

import argparse
import json

from hnfc.cli.progress import Progress
from hnfc.cli.terminal import DONE, report_diagnostics, say, write
from hnfc.core.errors import UsageError, suggestion
from hnfc.discovery.discover import discover
from hnfc.discovery.selection import HEADING, Discovery
from hnfc.discovery.writing import rule_file
from hnfc.dsl.core import Rule
from hnfc.dsl.description import rule_line
from hnfc.dsl.diagnostics import HnfError
from hnfc.dsl.rulebook import load_files, shipped
from hnfc.report.table import filled, table


def run(options: argparse.Namespace) -> int:
    """Writes the rules and says what was found; the exit code."""
    _check(options)
    try:
        given = _given(options.given)
    except HnfError as error:
        return report_diagnostics(error)
    with Progress() as progress:
        found = discover(
            options.over, options.size, captures=options.captures, constants=options.constants, given=given,
            jobs=options.jobs, limit=options.limit, seconds=options.seconds, terms=options.terms, progress=progress,
        )  # fmt: skip
        progress("what follows of the rules that ship …")
        follows = found.derives(shipped().rules)
    command = f"hnfc discover '{options.over}' --size {options.size} --constants {options.constants}"
    write(options.output, rule_file(found, options.library, command).encode())
    if found.rules:
        rows = [[rule_line(each.rule), each.losses] for each in found.rules]
        say(table(["rule", HEADING], rows, 0))
    say(filled(_summary(found, follows)))
    if options.json:
        write(options.json, json.dumps(_data(found, follows), indent=1).encode())
    return DONE


def _check(options: argparse.Namespace) -> None:
    """Raises UsageError for numbers that no search has."""
    for name, least, most in (("size", 1, 8), ("captures", 1, 3), ("terms", 1, 10**8)):
        if not least <= getattr(options, name) <= most:
            raise UsageError(f"--{name} takes a number from {least} to {most}")
    for name in ("limit", "seconds"):
        if getattr(options, name) <= 0:
            raise UsageError(f"--{name} takes a number of seconds above 0")
    if not options.library.isidentifier():
        raise UsageError(f"--library takes a name, for instance found: `{options.library}` is none")


def _given(names: str) -> list[Rule]:
    """The rules of groups that ship, and of files. Raises UsageError."""
    rules: list[Rule] = []
    groups = shipped().groups()
    for name in (part.strip() for part in names.split(",") if part.strip()):
        if name.endswith(".hnf") or name == "-":
            rules += load_files([name]).rules
        elif name in groups:
            rules += groups[name]
        else:
            raise UsageError(f"--given takes groups that ship and files (.hnf); there is no group `{name}`{suggestion(name, groups)}")
    return rules


def _summary(found: Discovery, follows: dict[str, bool]) -> str:
    lines = [
        f"\n{len(found.rules)} rule{'s' if len(found.rules) != 1 else ''}, each proved over the reals; {found.looked_at:,} terms with "
        f"{found.values:,} values; of the candidates {found.proved} proved, {found.refuted} refuted, {found.undecided} undecided; "
        f"{found.seconds:.0f} s"
    ]
    if not found.complete:
        lines.append("not all was looked at: raise --terms or --seconds (what was proved is kept, and not proved again)")
    if follows:
        missing = [name for name, derived in follows.items() if not derived]
        lines.append(f"of the shipped rules over these operations {len(follows) - len(missing)} of {len(follows)} follow from them")
        if missing:
            lines.append(f"not: {', '.join(missing)}")
    lines.append("digits are lost at that share of 400 points, an estimate; `hnfc check FILE` judges each rule in every format")
    return "\n".join(lines)


def _data(found: Discovery, follows: dict[str, bool]) -> dict[str, object]:
    rules = [
        {
            "name": each.rule.name,
            "rule": rule_line(each.rule),
            "steps": list(each.verdict.steps),
            "lost_left": each.accuracy.left,
            "lost_right": each.accuracy.right,
        }
        for each in found.rules
    ]
    counts = {name: getattr(found, name) for name in ("looked_at", "values", "proved", "refuted", "undecided", "complete", "seconds")}
    return {"rules": rules, **counts, "shipped": follows}
