"""A rule beside its verdict over the reals, for print and for notebooks."""

from __future__ import annotations

from dataclasses import dataclass

from hnfc.core.notebook import notebook_html
from hnfc.dsl.core import Rule
from hnfc.dsl.description import rule_line
from hnfc.dsl.soundness import Status, Verdict

_TONES = {Status.PROVED: "good", Status.REFUTED: "bad", Status.VACUOUS: "bad", Status.UNKNOWN: "warn"}


@dataclass(frozen=True, repr=False)
class JudgedRule:
    """A rule and its verdict. Notebooks show it as HTML, with the proof in steps or the counterexample."""

    rule: Rule
    verdict: Verdict

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.rule.name}: {self.verdict.status.value})"

    def __str__(self) -> str:
        return "\n".join([f"{self.rule.name}: {rule_line(self.rule)}", *self._reason(), str(self.verdict)])

    def _reason(self) -> list[str]:
        return [part for part in (self.rule.reason, f"source: {self.rule.source}" if self.rule.source else "") if part]

    def _repr_html_(self) -> str:
        headline = f"{self.rule.name}: {self.verdict.status.value.lower()}"
        return notebook_html(headline, _TONES[self.verdict.status], rule_line(self.rule), *self._reason(), *str(self.verdict).split("\n"))
