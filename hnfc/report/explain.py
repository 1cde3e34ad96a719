"""One rule explained: what it is for, both verdicts, the proof in steps, and the errors of both sides as formulas."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from hnfc.core.certificates import certificates
from hnfc.core.verdicts import ieee, verdicts
from hnfc.dsl import core, syntax
from hnfc.dsl.certificates.checking import CertificateResult
from hnfc.dsl.certificates.statement import statement
from hnfc.dsl.certificates.terms import NoMeaning
from hnfc.dsl.error import DEPENDS, NEVER_BETTER, NEVER_WORSE, ErrorReport, error_reports
from hnfc.dsl.error.search import ratio_text
from hnfc.dsl.printer import print_file
from hnfc.dsl.rulebook import Rulebook
from hnfc.dsl.soundness import Verdict
from hnfc.report.proof_steps import proof_steps
from hnfc.report.rules import beside

if TYPE_CHECKING:
    from hnfc.dsl.ieee import IeeeVerdict

WIDTH = 100
SMALLEST_WIDTH = 40
NEAR = 1000
"""Differences of more numbers of a format than this are not counted out."""
LEGEND = (
    "|∂/∂x| is how sensitive the result is to x; L(x) how much an error of x grows on the way if nothing cancels; "
    "Δ the rounding error, u the unit roundoff, n a number of elements."
)


def facts_of_rule(rule: core.Rule, progress: Callable[[str], None] | None = None) -> tuple[Verdict, Sequence[IeeeVerdict], ErrorReport]:
    """Both verdicts and the errors of a rule, looked up or found now."""
    found = verdicts([rule], progress=progress)[rule.name]
    judged = ieee([rule], progress=progress)[rule.name]
    if progress is not None:
        progress(f"error formulas of {rule.name} …")
    return found, judged, error_reports([rule])[rule.name]


def explain(book: Rulebook, rule: core.Rule, verdict: Verdict, ieee: Sequence[IeeeVerdict], errors: ErrorReport, width: int = WIDTH) -> str:
    """The page of a rule as plain text, no line longer than `width` but where a word is."""
    page = _Page(max(width, SMALLEST_WIDTH))
    page.line(f"{rule.name}  ({rule.group})")
    page.text(rule.reason)
    page.heading("Rule")
    page.code(rule_text(book, rule))
    page.text(f"source: {rule.source}" if rule.source else "")
    page.heading(f"Over the reals: {verdict.status.value}")
    for number, step in enumerate(proof_steps(rule, verdict), 1):
        page.item(f"{number}.", step)
    for text in reals(verdict):
        page.text(text)
    result, theorem = coq(rule, verdict)
    page.heading(f"For Coq: {result.headline}")
    page.text(result.reason)
    page.formal(theorem)
    if ieee:
        page.heading("In floating point")
        for found in beside(verdict, ieee):
            status, examples = floating(found)
            page.item(found.format, status)
            for example in examples:
                page.item("", example)
    page.heading("Errors to first order")
    for label, text in error_lines(rule, errors):
        page.item(label, text)
    page.text(accuracy(errors))
    page.text(LEGEND)
    return page.finished()


class _Page:
    """Lines of plain text, wrapped."""

    def __init__(self, width: int) -> None:
        self.width = width
        self.lines: list[str] = []

    def line(self, text: str) -> None:
        self.lines.append(text)

    def heading(self, text: str) -> None:
        self.lines += ["", text]

    def text(self, text: str) -> None:
        if text:
            self.lines += textwrap.wrap(
                text.replace("`", ""), self.width - 2, initial_indent="  ", subsequent_indent="  ", break_long_words=False
            )

    def item(self, label: str, text: str) -> None:
        """The text behind a label, and below itself where it needs more lines."""
        room = max(8, len(label) + 2)
        first, rest = "  " + label.ljust(room - 2) + " ", " " * (room + 1)
        text = text.replace("`", "")
        self.lines += textwrap.wrap(text, self.width, initial_indent=first, subsequent_indent=rest, break_long_words=False) or [
            first.rstrip()
        ]

    def code(self, text: str) -> None:
        self.lines += ["    " + line for line in text.split("\n")]

    def formal(self, text: str) -> None:
        """Text of a language in which a line may be broken at any space."""
        for line in text.splitlines():
            inner = line.lstrip()
            indent = " " * (4 + len(line) - len(inner))
            self.lines += textwrap.wrap(
                inner, self.width, initial_indent=indent, subsequent_indent=f"{indent}  ", break_long_words=False, break_on_hyphens=False
            )

    def finished(self) -> str:
        return "\n".join(line.rstrip() for line in self.lines)


# The parts ------------------------------------------------------------------------------------------------------------


def rule_text(book: Rulebook, rule: core.Rule) -> str:
    """The rule as its file writes it, without name and source, behind the definitions that it uses."""
    file = book.files[rule.file]
    declared = next(d for d in file.declarations if isinstance(d, syntax.RuleDeclaration) and d.name == rule.name)
    bare = replace(declared, reason="", source="", group="", clause_spans=tuple(s for s in declared.clause_spans if s[0] != "source"))
    printed = print_file(syntax.File(rule.file, "", (bare,))).rstrip().split("\n")
    body = textwrap.dedent("\n".join(printed[1:]))
    used = [d for d in file.declarations if isinstance(d, syntax.Definition) and re.search(rf"\b{d.name}\b", body)]
    definitions = [print_file(syntax.File(rule.file, "", (d,))).strip() for d in used]
    return "\n".join([*definitions, body])


def coq(rule: core.Rule, verdict: Verdict) -> tuple[CertificateResult, str]:
    """The state of the rule's certificate, and its theorem; none where the rule is not proved or the theory has no meaning for it."""
    if not verdict.proved:
        return CertificateResult(rule.name, "the rule is not proved"), ""
    result = certificates([rule], {rule.name: verdict})[rule.name]
    try:
        return result, statement(rule, verdict).theorem(rule.name)
    except NoMeaning:
        return result, ""


def reals(verdict: Verdict) -> list[str]:
    """Remarks below the steps of a proof, or in their place."""
    lines = [] if verdict.proved else [f"{verdict.reason}."]
    if verdict.counterexample is not None:
        lines.append(f"Counterexample: `{verdict.counterexample}`.")
    if verdict.help:
        lines.append(f"Help: {verdict.help}.")
    if verdict.shape_conditions:
        checked = (f"`{text}`" if "[" in text or "(" in text else text for text in verdict.shape_conditions)
        lines.append(f"The matcher checks: {'; '.join(checked)}.")
    if verdict.witness:
        given = ", ".join(f"{name} = {value}" for name, value in verdict.witness)
        tried = "; both sides agreed wherever they were tried" if verdict.samples else ""
        lines.append(f"It is not empty: for instance `{given}`{tried}.")
    return lines


def floating(found: IeeeVerdict) -> tuple[str, list[str]]:
    """(what the rule does in a format, the inputs that show it)."""
    status = found.status.value if found.status.value.endswith("unless") else found.named
    if found.exceptions:
        status += f" {', '.join(found.exceptions)}" if status.endswith("unless") else f" (exact unless {', '.join(found.exceptions)})"
    status += ", proved" if found.proved else f" ({found.method})"
    if found.ulps is not None and 0 < found.ulps <= NEAR:
        status += f"; the sides are at most {found.ulps:g} numbers of the format apart in what was tried"
    kinds: dict[str, list[str]] = {}
    for kind, example in found.examples.items():
        kinds.setdefault(str(example), []).append(kind)
    return status, [f"{', '.join(kind)}: {example}" for example, kind in kinds.items()]


def error_lines(rule: core.Rule, errors: ErrorReport) -> list[tuple[str, str]]:
    """(label, formula) of the sensitivity to each input, of both Lipschitz constants, and of both rounding errors."""
    lines = []
    for name, formula in errors.sensitivity.items():
        lines.append((f"|∂/∂{name}|", formula))
        left, right = (side.lipschitz.get(name, "") for side in (errors.left, errors.right))
        if left == right:
            lines.append((f"L({name})", "the same on both sides" if left == formula.removeprefix("≤ ") else f"{left} on both sides"))
        else:
            lines += [(f"L({name})", f"left {left}"), ("", f"right {right}")]
    if errors.left.rounding and errors.left.rounding == errors.right.rounding:
        lines.append(("Δ/u", f"{errors.left.rounding} on both sides"))
    else:
        lines += [("Δ/u", f"left {errors.left.rounding or 'not known'}"), ("", f"right {errors.right.rounding or 'not known'}")]
    return lines


def accuracy(errors: ErrorReport) -> str:
    """Comparison of the bounds of both sides' rounding errors, in a sentence or two."""
    known = "This is proved" if errors.proved else "This was observed, and is not proved"
    remarks = [note for note in errors.notes if note != "the bounds are equal"]
    aside = f" ({'; '.join(remarks)})" if remarks else ""
    if "the bounds are equal" in errors.notes:
        return f"Both sides have the same bound{aside}."
    match errors.verdict:
        case verdict if verdict == NEVER_WORSE:
            return f"The right side's bound is never the larger one. {known}{aside}."
        case verdict if verdict == NEVER_BETTER:
            return f"The right side's bound is never the smaller one; what the rule gains lies elsewhere. {known}{aside}. {_ratios(errors)}"
        case verdict if verdict == DEPENDS:
            where = _conditions(errors.better_where)
            where = where if where.startswith("exactly") else f"for {where}"
            better = f"The right side's bound is not the larger one {where}." if errors.better_where else ""
            return f"Which bound is smaller depends on the inputs{aside}. {better} {_ratios(errors)}".replace("  ", " ")
    return f"Which bound is smaller is not known{aside}."


def _conditions(text: str) -> str:
    """The conditions of a report, each as a term."""
    parts = re.findall(r"(exactly where )?(.+?)( \((?:proved|observed, not proved)\))?(?:; |$)", text)
    return "; ".join(f"{before}`{condition}`{after}" for before, condition, after in parts)


def _ratios(errors: ErrorReport) -> str:
    """Factor by which the right side's bound may be larger."""
    parts = []
    if errors.example is not None:
        parts.append(f"It is {ratio_text(errors.example.ratio)} the left one at `{errors.example.given}`")
    if errors.worst > 1 and (errors.example is None or errors.worst > errors.example.ratio * 1.01):
        parts.append(f"{ratio_text(errors.worst)} at most in what was tried")
    if errors.at_most:
        parts.append(f"never more than {errors.at_most} times (proved)")
    return f"{', '.join(parts)}." if parts else ""
