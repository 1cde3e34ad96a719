"""Rules and their verdicts, in words."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable

from hnfc.dsl import core, syntax
from hnfc.dsl.diagnostics import Diagnostic, render
from hnfc.dsl.printer import print_file
from hnfc.dsl.rulebook import Rulebook
from hnfc.dsl.soundness import Verdict

_CODES = {"REFUTED": "HNF0501", "UNKNOWN": "HNF0502"}


def check_report(book: Rulebook, verdicts: dict[str, Verdict], why: bool, width: int) -> str:
    """Every refuted and undecided rule with its counterexample or what blocked, then a table of all."""
    blocks = []
    for rule in book.rules:
        verdict = verdicts[rule.name]
        if verdict.status.value in _CODES:
            blocks.append(render(_finding(rule, verdict), book.sources.get(rule.file)))
        if why and verdict.steps:
            blocks.append("\n".join([f"{rule.name}: proof", *(f"  {step}" for step in verdict.steps if step != verdict.reason)]))
    return "\n\n".join([*blocks, rule_table(book.rules, verdicts, width)])


def _finding(rule: core.Rule, verdict: Verdict) -> Diagnostic:
    refuted = verdict.status.value == "REFUTED"
    message = f"rule `{rule.name}` is {'unsound' if refuted else 'not decided'}: {verdict.reason}"
    note = f"counterexample over the reals: {verdict.counterexample}" if verdict.counterexample else ""
    if not refuted:
        note = f"both sides agreed on {verdict.samples} samples"
    span = rule.pattern.span if isinstance(rule.pattern, core.Apply) else rule.span
    return Diagnostic(_CODES[verdict.status.value], message, rule.file, span, verdict.help, note)


def rule_table(rules: Iterable[core.Rule], verdicts: dict[str, Verdict], width: int) -> str:
    rows = [(verdicts[r.name].status.value, r.group, r.name, r.reason) for r in rules]
    if not rows:
        return "no rules"
    widths = [max(len(row[i]) for row in rows) for i in range(3)]
    lines = []
    for row in rows:
        head = "  ".join(text.ljust(w) for text, w in zip(row[:3], widths, strict=True))
        lines.append(textwrap.shorten(f"{head}  {row[3]}", 10_000) if width <= len(head) + 10 else _cut(f"{head}  {row[3]}", width))
    counts = {status: sum(row[0] == status for row in rows) for status in ("PROVED", "REFUTED", "UNKNOWN")}
    lines.append(f"{len(rows)} rule{'s' if len(rows) != 1 else ''}: " + ", ".join(f"{n} {s.lower()}" for s, n in counts.items() if n))
    return "\n".join(lines)


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def rule_page(book: Rulebook, rule: core.Rule, verdict: Verdict) -> str:
    """The rule as it is written, its verdict, and the proof in steps."""
    file = book.files[rule.file]
    declarations = tuple(d for d in file.declarations if getattr(d, "rule", getattr(d, "name", "")) == rule.name)
    text = print_file(syntax.File(rule.file, "", declarations))
    lines = [text.rstrip(), "", f"{verdict.status.value} over the reals: {verdict.reason}", *(f"  {step}" for step in verdict.steps)]
    if verdict.counterexample is not None:
        lines.append(f"  counterexample: {verdict.counterexample}")
    return "\n".join(lines)


def verdicts_json(rules: Iterable[core.Rule], verdicts: dict[str, Verdict]) -> str:
    data = {rule.name: verdicts[rule.name].to_json() for rule in rules}
    return json.dumps(data, indent=1, ensure_ascii=False) + "\n"
