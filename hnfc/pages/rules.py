"""Pages of rules: those of `hnfc check` and `hnfc explain`, and the parts on a rule that other pages have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from hnfc.core.certificates import certificates
from hnfc.dsl import core
from hnfc.dsl.error import ErrorReport
from hnfc.dsl.rulebook import Rulebook
from hnfc.dsl.soundness import Verdict
from hnfc.pages.document import (
    Block,
    CardBlock,
    CodeBlock,
    FactsBlock,
    Page,
    PageCell,
    PageSection,
    PairBlock,
    StepsBlock,
    TableBlock,
    TextBlock,
    Tone,
    anchor,
)
from hnfc.report.counterexample import evaluation_steps
from hnfc.report.explain import LEGEND, accuracy, error_lines, floating, reals, rule_text
from hnfc.report.proof_steps import proof_steps
from hnfc.report.rules import Judged, beside, ieee_summary, verdict_counts

if TYPE_CHECKING:
    from hnfc.dsl.ieee import IeeeVerdict

_TONES: Mapping[str, Tone] = {"PROVED": "good", "REFUTED": "bad", "VACUOUS": "bad", "UNKNOWN": "warn"}
_LOSING = ("may lose", "unknown")


def verdict_badges(rule: core.Rule, verdict: Verdict) -> list[tuple[str, Tone]]:
    """The standing of a rule, strongest evidence last."""
    badges = [(f"{verdict.status.value.lower()} over the reals", _TONES[verdict.status.value])]
    certified = certificates([rule], {rule.name: verdict}).get(rule.name)
    if certified is not None and certified.accepted:
        badges.append((certified.headline, "good"))
    return badges


def proof_blocks(rule: core.Rule, verdict: Verdict) -> list[Block]:
    """The proof in steps; of a refuted rule its counterexample, evaluated step by step."""
    blocks: list[Block] = []
    steps = proof_steps(rule, verdict)
    if steps:
        blocks.append(StepsBlock("The proof over the reals" if verdict.proved else "How far the proof came", steps))
    blocks += [TextBlock(text) for text in reals(verdict)]
    example = verdict.counterexample
    if example is not None:
        titles = (f"Left side: {example.left}", f"Right side: {example.right}")
        sides = tuple(
            [
                TableBlock(
                    ("part", "value"),
                    [(PageCell(step.part, code=True), PageCell(step.value, code=True)) for step in evaluation_steps(side, example)],
                )
            ]
            for side in (rule.pattern, rule.replacement)
        )
        given = ", ".join(f"{name} = {value}" for name, value in example.inputs)
        blocks += [TextBlock(f"Step by step at `{given}`:"), PairBlock(titles, (sides[0], sides[1]))]
    return blocks


def rule_card(
    book: Rulebook, rule: core.Rule, verdict: Verdict, judged: Sequence[IeeeVerdict], errors: ErrorReport | None, opened: bool = False
) -> CardBlock:
    """All that is known of a rule. errors: None where formulas of the errors were not requested."""
    blocks: list[Block] = [CodeBlock(rule_text(book, rule))]
    if rule.source:
        blocks.append(FactsBlock([("source", rule.source)]))
    blocks += proof_blocks(rule, verdict)
    if judged:
        blocks.append(_floating(verdict, judged))
    if errors is not None:
        rows = [(label, PageCell(text, code=True)) for label, text in error_lines(rule, errors)]
        blocks += [TableBlock(("error to first order", "formula"), rows), TextBlock(accuracy(errors)), TextBlock(LEGEND)]
    badges = verdict_badges(rule, verdict)
    return CardBlock(anchor("rule", rule.name), rule.name, rule.reason, badges, blocks, opened)


def _floating(verdict: Verdict, judged: Sequence[IeeeVerdict]) -> Block:
    rows = []
    for found in beside(verdict, judged):
        status, examples = floating(found)
        tone: Tone = "bad" if found.status.value == "may lose" else "warn" if found.status.value == "unknown" else "plain"
        rows.append(
            (PageCell(found.format, code=True), PageCell(status, tone), PageCell("; ".join(examples) or "none", code=bool(examples)))
        )
    return TableBlock(("in floating point", "what the rule does", "inputs that show it"), rows)


def check_page(book: Rulebook, verdicts: Mapping[str, Verdict], judged: Judged, command: str) -> Page:
    """The page of `hnfc check`: rules that are not proved first."""
    statuses = [verdicts[rule.name].status.value for rule in book.rules]
    wrong, open_ = sum(s in ("REFUTED", "VACUOUS") for s in statuses), statuses.count("UNKNOWN")
    ordered = sorted(book.rules, key=lambda rule: ("REFUTED", "VACUOUS", "UNKNOWN", "PROVED").index(verdicts[rule.name].status.value))
    several = len(book.rules) > 1
    rows = [
        (
            PageCell(rule.name, code=True, target=anchor("rule", rule.name)),
            PageCell(verdicts[rule.name].status.value.lower(), _TONES[verdicts[rule.name].status.value]),
            ieee_summary(beside(verdicts[rule.name], judged.get(rule.name, ()))) or "not judged",
        )
        for rule in ordered
    ]
    cards = [
        rule_card(book, rule, verdicts[rule.name], judged.get(rule.name, ()), None, not verdicts[rule.name].proved or not several)
        for rule in ordered
    ]
    faults = [TextBlock(f"{fault.file}:{fault.span.line if fault.span else 1}: {fault.message}", "bad") for fault in book.faults]
    sections = [
        PageSection(
            "rules",
            "Rules",
            "Those that are not proved stand first.",
            [TableBlock(("rule", "over the reals", "in floating point"), rows)] if several else [],
        )
    ]
    if faults:
        sections.insert(0, PageSection("faults", "Declarations that were left out", "They were not judged.", faults))
    return Page(
        ", ".join(dict.fromkeys(rule.file for rule in book.rules)) or "no rules",
        "check",
        command,
        _headline(book, verdicts, wrong, open_),
        "bad" if wrong or faults else "warn" if open_ else "good",
        [
            ("What was judged", [f"{verdict_counts(book.rules, verdicts)}."]),
            ("How it is known", [_why(statuses)]),
            ("What next", _next(ordered, verdicts, judged)),
        ],
        [replaced(sections[-1], cards), *sections[:-1]] if not faults else [sections[0], replaced(sections[1], cards)],
    )


def replaced(section: PageSection, cards: Sequence[Block]) -> PageSection:
    """The section with more blocks."""
    return PageSection(section.id, section.title, section.intro, [*section.blocks, *cards])


def _headline(book: Rulebook, verdicts: Mapping[str, Verdict], wrong: int, open_: int) -> str:
    if not book.rules:
        return "No rule was judged."
    if wrong:
        first = next(rule for rule in book.rules if verdicts[rule.name].status.value in ("REFUTED", "VACUOUS"))
        more = f", and {wrong - 1} more are wrong" if wrong > 1 else ""
        return f"`{first.name}` is {'refuted' if verdicts[first.name].status.value == 'REFUTED' else 'vacuous'}{more}."
    if open_:
        return f"{open_} of {len(book.rules)} rules are not decided."
    return "The rule is proved." if len(book.rules) == 1 else f"All {len(book.rules)} rules are proved."


def _why(statuses: Sequence[str]) -> str:
    if "PROVED" in statuses:
        return (
            "A proved rule holds over the reals for all shapes, and all values that meet its conditions: wherever the left side has a "
            "value, the right side has the same one."
        )
    return "Nothing is proved here. A refuted rule has inputs on which its sides differ; they are replayed in exact arithmetic."


def _next(rules: Sequence[core.Rule], verdicts: Mapping[str, Verdict], judged: Judged) -> list[str]:
    lines = [f"`{rule.name}`: {verdicts[rule.name].help}." for rule in rules if verdicts[rule.name].help][:3]
    unhelped = [rule.name for rule in rules if verdicts[rule.name].status.value == "REFUTED" and not verdicts[rule.name].help]
    if unhelped:
        names = ", ".join(f"`{name}`" for name in unhelped[:3]) + (" and others" if len(unhelped) > 3 else "")
        lines.append(f"{names}: the steps at the counterexample show where the sides part.")
    losing = [
        rule.name for rule in rules if verdicts[rule.name].proved and any(f.status.value in _LOSING for f in judged.get(rule.name, ()))
    ]
    if losing:
        names = ", ".join(f"`{name}`" for name in losing[:3]) + (" and others" if len(losing) > 3 else "")
        lines.append(f"In floating point {names} may lose: a `when` can limit where they run.")
    return lines or ["`hnfc test` runs the tests inside the files; `hnfc MODEL --rules FILE` uses the rules on a model."]


def explain_pages(subjects: Sequence[tuple[Rulebook, core.Rule, Verdict, Sequence[IeeeVerdict], ErrorReport]], command: str) -> Page:
    """The page of `hnfc explain`."""
    cards = [rule_card(*subject, opened=True) for subject in subjects]
    verdicts = {rule.name: verdict for _, rule, verdict, _, _ in subjects}
    names = ", ".join(f"`{name}`" for name in verdicts)
    proved = all(verdict.proved for verdict in verdicts.values())
    first = next(iter(subjects))
    counts = verdict_counts([s[1] for s in subjects], verdicts).partition(": ")[2]
    standing = verdict_badges(first[1], first[2])[0][0] if len(subjects) == 1 else counts
    return Page(
        ", ".join(verdicts),
        "explain",
        command,
        f"{names}: {standing}.",
        "good" if proved else "bad" if any(v.status.value in ("REFUTED", "VACUOUS") for v in verdicts.values()) else "warn",
        [
            ("What it is for", [f"`{rule.name}`: {rule.reason or 'its file gives no reason'}." for _, rule, _, _, _ in subjects][:4]),
            ("How it is known", [_why([v.status.value for v in verdicts.values()])]),
            ("Which error is smaller", [accuracy(first[4])] if len(subjects) == 1 else ["Each rule has its formulas below."]),
        ],
        [PageSection("rules", "The rule" if len(subjects) == 1 else "The rules", "", cards)],
    )
