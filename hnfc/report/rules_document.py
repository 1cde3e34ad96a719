"""docs/rules.md: every shipped rule with what `hnfc explain` says of it. `make docs` writes it."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from hnfc.core.verdicts import ieee, verdicts
from hnfc.dsl import core, syntax
from hnfc.dsl.error import ErrorReport, error_reports
from hnfc.dsl.rulebook import Rulebook, shipped
from hnfc.dsl.soundness import Verdict
from hnfc.report.explain import accuracy, coq, error_lines, floating, reals, rule_text
from hnfc.report.proof_steps import proof_steps

if TYPE_CHECKING:
    from hnfc.dsl.ieee import IeeeVerdict

HEAD = """# The rules

Every rule that hnfc brings, with its proof and its errors. This page is generated: `make docs`.
`hnfc explain RULE` prints the same for one rule, your own ones included.

- **Over the reals** a rule is proved for all shapes and all values that meet its conditions: wherever the left side has a value, the
  right side has the same one. In a proof `x[i]` is an element, `Σ_a` a sum over all elements along the reduced axes, `n` their number.
- **For Coq**: `kernel-checked` where a theorem that says the same has a proof that Coq's kernel accepted (`make proofs`); else the
  reason why there is none.
- **In floating point** `safer` means that no input was found that goes from right to wrong, and that some go from wrong to right;
  `may lose`: with the input at which it does, among them a NaN that is swallowed, an infinity that becomes NaN, and a NaN without a
  value that becomes a number.
- **Errors to first order**: `|∂/∂x|` is how sensitive the result is to `x`; `L(x)` how much an error of `x` grows on the way if nothing
  cancels; `Δ` the rounding error, `u` the unit roundoff, `n` a number of elements. What overflows or underflows is not part of it.
"""


def rules_markdown(
    book: Rulebook, verdicts: Mapping[str, Verdict], ieee: Mapping[str, Sequence[IeeeVerdict]], errors: Mapping[str, ErrorReport]
) -> str:
    """The page: a table of contents, then a section for each library and one for each rule. The same for the same rules and verdicts."""
    lines = [HEAD, "## Contents", ""]
    for group, rules in book.groups().items():
        lines += [f"- [{group}](#{group}): {_title(book, rules)}", *(f"  - [{rule.name}](#{rule.name})" for rule in rules)]
    for group, rules in book.groups().items():
        lines += ["", f"## {group}", "", f"{_title(book, rules)}."]
        for rule in rules:
            lines += ["", *_section(book, rule, verdicts[rule.name], ieee.get(rule.name, ()), errors[rule.name])]
    return "\n".join(lines) + "\n"


def _title(book: Rulebook, rules: Sequence[core.Rule]) -> str:
    """Purpose of the library, from its file."""
    declarations = book.files[rules[0].file].declarations
    return next((d.title for d in declarations if isinstance(d, syntax.Library) and d.title), "rules")


def _section(book: Rulebook, rule: core.Rule, verdict: Verdict, ieee: Sequence[IeeeVerdict], errors: ErrorReport) -> list[str]:
    lines = [f"### {rule.name}", ""]
    if rule.reason:
        lines += [f"{_plain(rule.reason)}.", ""]
    lines += ["```", rule_text(book, rule), "```", ""]
    if rule.source:
        lines += [f"Source: {_plain(rule.source)}.", ""]
    lines += [f"**Over the reals:** {verdict.status.value}.", ""]
    lines += [f"{number}. {_plain(step)}" for number, step in enumerate(proof_steps(rule, verdict), 1)]
    for text in reals(verdict):
        lines += ["", _plain(text)]
    result, _ = coq(rule, verdict)
    lines += ["", _plain(f"**For Coq:** {result.headline}{': ' if result.reason else ''}{result.reason}.")]
    if ieee:
        lines += ["", "**In floating point**", "", "| format | what the rule does | inputs that show it |", "| --- | --- | --- |"]
        for found in ieee:
            status, examples = floating(found)
            lines.append(f"| {found.format} | {_cell(status)} | {'<br>'.join(_code(e) for e in examples)} |")
    lines += ["", "**Errors to first order**", "", "| | |", "| --- | --- |"]
    lines += [f"| {_code(label) if label else ''} | {_formula(text)} |" for label, text in error_lines(rule, errors)]
    return [*lines, "", _plain(accuracy(errors))]


def _plain(text: str) -> str:
    """Text in which Markdown finds nothing to format but the terms in backquotes."""
    parts = text.split("`")
    for place in range(0, len(parts), 2):
        for sign in ("\\", "*", "_", "<", "["):
            parts[place] = parts[place].replace(sign, "\\" + sign)
    return "`".join(parts)


def _cell(text: str) -> str:
    return _plain(text).replace("|", "\\|")


def _code(text: str) -> str:
    """Code inside a table."""
    return f"`{text.replace('|', chr(92) + '|')}`"


def _formula(text: str) -> str:
    """`left …` and `right …` as words in front of code, and words behind it as words."""
    words = next((word for word in ("left ", "right ") if text.startswith(word)), "")
    body = text.removeprefix(words)
    if body.startswith(("not known", "the same")):
        return _cell(words + body)
    behind = " on both sides" if body.endswith(" on both sides") else ""
    return f"{words}{_code(body.removesuffix(behind))}{behind}"


def main(arguments: Sequence[str]) -> None:
    """Writes the page to the file that is named, or to standard output."""
    text = generated()
    if arguments:
        Path(arguments[0]).write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)


def generated(book: Rulebook | None = None) -> str:
    """The page for the shipped rules, or some of them; verdicts in floating point only where they ship, since they take long to find."""
    book = book or shipped()
    judged = ieee(book.rules) if (files("hnfc") / "rules" / "ieee.json").is_file() else {}
    return rules_markdown(book, verdicts(book.rules), judged, error_reports(book.rules))


if __name__ == "__main__":
    main(sys.argv[1:])
