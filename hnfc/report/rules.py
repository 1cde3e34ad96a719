"""Rules and their verdicts, in words."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from hnfc.dsl import core, syntax
from hnfc.dsl.certificates.checking import CertificateResult
from hnfc.dsl.diagnostics import Diagnostic, render
from hnfc.dsl.ieee.verdict import EDGE, IeeeStatus, IeeeVerdict
from hnfc.dsl.printer import print_file
from hnfc.dsl.rulebook import Rulebook
from hnfc.dsl.soundness import Verdict
from hnfc.report.check_cache import FORMATS, CheckReport
from hnfc.report.table import table

_CODES = {"REFUTED": "HNF0501", "UNKNOWN": "HNF0502", "VACUOUS": "HNF0503"}
_FAULTS = {"REFUTED": "unsound", "UNKNOWN": "not decided", "VACUOUS": "vacuous"}

CHECKED = "kernel-checked"

Judged = Mapping[str, Sequence[IeeeVerdict]]


def beside(verdict: Verdict, judged: Sequence[IeeeVerdict]) -> list[IeeeVerdict]:
    """The verdicts in floating point, beside the one over the reals: a rule that is wrong there is safer nowhere."""
    if verdict.status.value != "REFUTED":
        return list(judged)
    why = "the sides differ over the reals"
    return [replace(f, status=IeeeStatus.MAY_LOSE, method=why, proved=False) if f.status is IeeeStatus.SAFER else f for f in judged]


def check_report(book: Rulebook, verdicts: dict[str, Verdict], judged: Judged, why: bool, code: int) -> CheckReport:
    """Every rule that is not proved, with its counterexample or what blocked, then a table of all."""
    judged = {name: beside(verdicts[name], found) for name, found in judged.items()}
    blocks = []
    for rule in book.rules:
        verdict = verdicts[rule.name]
        if verdict.status.value in _CODES:
            blocks.append(render(finding(rule, verdict), book.sources.get(rule.file)))
        if why and verdict.steps:
            blocks.append("\n".join([f"{rule.name}: proof", *(f"  {step}" for step in verdict.steps)]))
        if why and judged.get(rule.name):
            blocks.append("\n".join([f"{rule.name}: in floating point", *(f"  {found}" for found in judged[rule.name])]))
    proved = [(rule.name, verdicts[rule.name].shape_conditions) for rule in book.rules if verdicts[rule.name].proved]
    conditions = [f"  {name}: {'; '.join(needed)}" for name, needed in proved if needed]
    if conditions:
        blocks.append("\n".join(["proved for shapes such that", *conditions]))
    rows = [_row(rule, verdicts[rule.name], judged.get(rule.name, ())) for rule in book.rules]
    headings: tuple[str, ...] = ("rule", "reals", FORMATS, "s")
    if not judged:
        headings, rows = ("rule", "reals", "s"), [(name, status, seconds) for name, status, _, seconds in rows]
    return CheckReport(tuple(blocks), headings, tuple(rows), verdict_counts(book.rules, verdicts), code)


def _row(rule: core.Rule, verdict: Verdict, judged: Sequence[IeeeVerdict]) -> tuple[str, ...]:
    seconds = verdict.seconds + sum(found.seconds for found in judged)
    return rule.name, verdict.status.value, ieee_summary(judged), f"{seconds:.1f}" if seconds >= 0.05 else ""


def ieee_summary(judged: Sequence[IeeeVerdict]) -> str:
    """The statuses, each with the formats that have it; without formats where it is the same in all."""
    formats: dict[str, list[str]] = {}
    for found in judged:
        formats.setdefault(headline(found), []).append(found.format)
    if len(formats) == 1:
        return next(iter(formats))
    return "; ".join(f"{what}: {', '.join(names)}" for what, names in formats.items())


def headline(found: IeeeVerdict) -> str:
    """The status in a few words."""
    if found.status.value == "exact unless":
        return f"exact unless {', '.join(found.exceptions)}"
    return f"{found.named} at the edge of overflow" if found.edge is not None and found.edge >= EDGE else found.named


def verdict_counts(rules: Sequence[core.Rule], verdicts: Mapping[str, Verdict]) -> str:
    """Numbers of rules by status."""
    statuses = [verdicts[rule.name].status.value for rule in rules]
    counts = {status: statuses.count(status) for status in ("PROVED", *_CODES)}
    return f"{len(rules)} rule{'s' if len(rules) != 1 else ''}: " + ", ".join(f"{n} {s.lower()}" for s, n in counts.items() if n)


def finding(rule: core.Rule, verdict: Verdict) -> Diagnostic:
    """The diagnostic of a rule that is not proved."""
    status = verdict.status.value
    message = f"rule `{rule.name}` is {_FAULTS[status]}: {verdict.reason}"
    note = f"counterexample over the reals: {verdict.counterexample}" if verdict.counterexample else ""
    if status == "UNKNOWN":
        note = f"both sides agreed on {verdict.samples} samples"
    elif status == "VACUOUS" and verdict.shape_conditions:
        note = f"it is proved where {'; '.join(verdict.shape_conditions)}"
    span = rule.pattern.span if isinstance(rule.pattern, core.Apply) else rule.span
    return Diagnostic(_CODES[status], message, rule.file, span, verdict.help, note)


_SENTENCE = 44
"""Characters below which a column is too narrow for a sentence."""


def rule_table(
    rules: Sequence[core.Rule], verdicts: dict[str, Verdict], certified: Mapping[str, CertificateResult] = MappingProxyType({})
) -> str:
    """A table of rules: name, group, verdict, whether Coq's kernel checked it, and the reason."""
    checked = {name for name, result in certified.items() if result.accepted}
    rows = [(r.name, r.group, verdicts[r.name].status.value, CHECKED if r.name in checked else "", r.reason) for r in rules]
    if not rows:
        return "no rules"
    headings = ["rule", "group", "reals", "in Coq", "why"]
    shown = [place for place in range(5) if place != 3 or checked]
    drawn = table([headings[place] for place in shown], [[row[place] for place in shown] for row in rows], len(shown) - 1, _SENTENCE)
    return f"{drawn}\n{verdict_counts(list(rules), verdicts)}" + (f", {len(checked)} {CHECKED}" if checked else "")


def rule_page(book: Rulebook, rule: core.Rule, verdict: Verdict) -> str:
    """The rule as it is written, its verdict, and the proof in steps."""
    file = book.files[rule.file]
    declarations = tuple(d for d in file.declarations if getattr(d, "rule", getattr(d, "name", "")) == rule.name)
    text = print_file(syntax.File(rule.file, "", declarations))
    lines = [text.rstrip(), "", f"{verdict.status.value} over the reals: {verdict.reason}", *(f"  {step}" for step in verdict.steps)]
    if verdict.shape_conditions:
        lines.append(f"  proved where {'; '.join(verdict.shape_conditions)}" if verdict.proved else "")
    if verdict.counterexample is not None:
        lines.append(f"  counterexample: {verdict.counterexample}")
    return "\n".join(lines)


def verdicts_json(rules: Iterable[core.Rule], verdicts: dict[str, Verdict], judged: Judged) -> str:
    """By rule: the verdict over the reals, and under `ieee` those in each format."""
    data = {
        rule.name: {
            **verdicts[rule.name].to_json(),
            "ieee": [found.to_json() for found in beside(verdicts[rule.name], judged.get(rule.name, ()))],
        }
        for rule in rules
    }
    return json.dumps(data, indent=1, ensure_ascii=False) + "\n"
