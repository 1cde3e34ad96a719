"""The rules that are kept: proved, and no consequence of those that were kept before."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from hnfc.core.judged_rule import JudgedRule
from hnfc.core.notebook import NotebookTable, notebook_html
from hnfc.core.progress import tell
from hnfc.core.verdicts import proposed, verdicts
from hnfc.discovery.accuracy import LostShares, compared
from hnfc.discovery.derivation import Derivation
from hnfc.discovery.enumeration import FREE, Enumeration, EqualPair
from hnfc.discovery.generalization import generalized
from hnfc.discovery.naming import name_of
from hnfc.discovery.operations import AXIS, has_axis, size_of
from hnfc.dsl import core
from hnfc.dsl.core import Apply, Expr, Rule
from hnfc.dsl.description import describe, rule_line
from hnfc.dsl.diagnostics import HnfError
from hnfc.dsl.rulebook import load_text
from hnfc.dsl.soundness.verdict import Verdict

_BATCH, _AT_ONCE = 16, 24


HEADING = "loses 8 bits in float32"


@dataclass(frozen=True, repr=False)
class FoundRule(JudgedRule):
    """A proved rule, its verdict, and the accuracy of both sides."""

    accuracy: LostShares

    @property
    def losses(self) -> str:
        """Shares of the inputs at which the sides lose eight bits."""
        return f"{self.accuracy.left:.0%} → {self.accuracy.right:.0%}"


@dataclass(repr=False)
class Discovery:
    """Results of a run. looked_at: terms; values: those that differ; refuted, undecided: candidates; seconds: of the whole run."""

    rules: list[FoundRule] = field(default_factory=list)
    looked_at: int = 0
    values: int = 0
    proved: int = 0
    refuted: int = 0
    undecided: int = 0
    complete: bool = True
    seconds: float = 0.0
    derivation: Derivation | None = None

    def __repr__(self) -> str:
        return f"Discovery({len(self.rules)} rules of {self.proved} proved, {self.looked_at:,} terms, {self.seconds:.1f} s)"

    def __str__(self) -> str:
        return "\n".join([repr(self), *(f"  {rule_line(each.rule)}   {each.losses}" for each in self.rules)])

    def _repr_html_(self) -> str:
        rows = [[each.rule.name, rule_line(each.rule), each.losses] for each in self.rules]
        return notebook_html(repr(self), "plain", NotebookTable(("name", "rule", HEADING), rows))

    def derives(self, rules: Sequence[Rule]) -> dict[str, bool]:
        """Return whether each rule follows from the found ones, by name. Rules of other operations are left out."""
        known = self.derivation
        sayable = [rule for rule in rules if known is not None and known.says(rule)]
        parts = [sayable[start : start + _AT_ONCE] for start in range(0, len(sayable), _AT_ONCE)]
        return {rule.name: follows for part in parts for rule, follows in zip(part, known.follow(part) if known else (), strict=True)}


@dataclass
class RuleSearch:
    """Enumerates, drops what follows, and proves the rest.

    given: rules that are known already. jobs, limit: processes and seconds of a proof. seconds: of the whole run.
    """

    enumeration: Enumeration
    given: Sequence[Rule] = ()
    jobs: int | None = None
    limit: float = 5.0
    seconds: float = 1800.0
    _names: dict[str, int] = field(default_factory=dict)
    _kept: set[str] = field(default_factory=set)

    def run(self, size: int) -> Discovery:
        """The rules whose larger side has at most `size` operations, smaller ones first."""
        started = time.monotonic()
        found = Discovery()
        known = Derivation(self.enumeration.operations)
        for rule in (*self.given, *canonical()):
            known.add(rule)
        for level in range(size + 1):
            candidates = sorted(self.enumeration.candidates(level), key=lambda candidate: candidate.order)
            left = _distinct(candidates)
            while left:
                if time.monotonic() - started > self.seconds:
                    found.complete = False
                    break
                left = self._step(left, known, found, level)
            if not (found.complete and self.enumeration.complete):
                break
        found.complete = found.complete and self.enumeration.complete
        found.derivation = known
        found.looked_at, found.values = self.enumeration.looked_at, self.enumeration.values
        found.seconds = time.monotonic() - started
        return found

    def _step(self, left: list[Rule], known: Derivation, found: Discovery, level: int) -> list[Rule]:
        """Proves the first candidates that do not follow; those that are left."""
        tell(f"size {level}: {len(left)} candidates, {len(found.rules)} rules …")
        general: dict[str, Rule] = {}
        while left and len(general) < _BATCH:
            next_ones, left = left[:_AT_ONCE], left[_AT_ONCE:]
            for rule in (rule for rule, follows in zip(next_ones, known.follow(next_ones), strict=True) if not follows):
                widest = _general(rule)
                general.setdefault(_renamed(widest), widest)
        for rule, verdict in self._judged(sorted(general.values(), key=lambda rule: -len(core.captures(rule.pattern))), found):
            # what egglog cannot hold would come again
            if _renamed(rule) not in self._kept and not known.follow([rule])[0]:
                self._kept.add(_renamed(rule))
                kept = self._directed(rule, verdict)
                known.add(kept.rule)
                found.rules.append(kept)
        return left

    def _judged(self, rules: list[Rule], found: Discovery) -> Iterator[tuple[Rule, Verdict]]:
        """The proved ones in order, with the condition that the prover offers where one is needed."""
        first = self._verdicts(rules)
        again = {rule.name: offered for rule in rules if (offered := _conditioned(rule, first[rule.name])) is not None}
        second = self._verdicts(list(again.values()))
        for rule in rules:
            chosen = again.get(rule.name, rule)
            verdict = second[chosen.name] if rule.name in again else first[rule.name]
            if verdict.proved:
                found.proved += 1
                yield chosen, verdict
            elif verdict.status.value in ("REFUTED", "VACUOUS"):
                found.refuted += 1
            else:
                found.undecided += 1

    def _verdicts(self, rules: list[Rule]) -> dict[str, Verdict]:
        return verdicts(rules, jobs=self.jobs, limit=self.limit) if rules else {}

    def _directed(self, rule: Rule, verdict: Verdict) -> FoundRule:
        """The rule towards the side that loses fewer digits, by a name of its own."""
        accuracy = compared(rule)
        if accuracy.better == "left" and (turned := made(rule.replacement, rule.pattern, rule.where)) is not None:
            judged = self._verdicts([turned])[turned.name]
            if judged.proved:
                rule, verdict, accuracy = turned, judged, LostShares(accuracy.right, accuracy.left)
        elif not accuracy.better and size_of(rule.pattern) == size_of(rule.replacement):
            both = made(rule.pattern, rule.replacement, rule.where, "<=>")
            if both is not None and (judged := self._verdicts([both])[both.name]).proved:
                rule, verdict = both, judged
        return FoundRule(replace(rule, name=name_of(rule, self._names)), verdict, accuracy)


def canonical() -> list[Rule]:
    """Identities that every model is brought to before rules are tried."""
    sides = [("x + 0", "x"), ("x - 0", "x"), ("0 - x", "-x"), ("x * 1", "x"), ("x / 1", "x"), ("x * -1", "-x"), ("-(-x)", "x")]
    return [load_text(f"library canonical\nrule canonical\n    {left} => {right}\n", "<canonical>").rules[0] for left, right in sides]


def made(left: Expr, right: Expr, where: core.Condition | str = "", arrow: str = "=>") -> Rule | None:
    """The rule `left => right`, or None where the language refuses it."""
    condition = where if isinstance(where, str) else describe(where)
    text = f"{describe(left)} {arrow} {describe(right)}"
    try:
        (rule,) = load_text(f"library found\nrule found\n    {text}\n" + (f"    where {condition}\n" if condition else ""), "<found>").rules
    except HnfError:
        return None
    return replace(rule, name=f"{text} where {condition}")


def _distinct(candidates: Iterable[EqualPair]) -> list[Rule]:
    """The candidates as rules, each once up to the names of captures."""
    found: dict[str, Rule] = {}
    for candidate in candidates:
        rule = _rule(candidate)
        if rule is not None:
            found.setdefault(_renamed(rule), rule)
    return list(found.values())


def _rule(candidate: EqualPair) -> Rule | None:
    sides = candidate.larger, candidate.smaller
    left, right = sides if sides[1].captures <= sides[0].captures else sides[::-1]
    captures = left.captures
    if not right.captures <= captures or not isinstance(left.expression, Apply):
        return None
    if FREE not in captures:
        return made(left.expression, right.expression)
    if captures == {FREE} or not has_axis(left.expression):
        return None
    return made(left.expression, right.expression, f"free[{AXIS}]({FREE})")


def _general(rule: Rule) -> Rule:
    left, right = generalized(rule.pattern, rule.replacement)
    return made(left, right, rule.where) or rule


def _renamed(rule: Rule) -> str:
    """The text with captures named by where they come first."""
    text = f"{describe(rule.pattern)} => {describe(rule.replacement)}"
    names: dict[str, str] = {}
    for node in core.walk(rule.pattern):
        if isinstance(node, core.Capture) and node.name != FREE:
            names.setdefault(node.name, f"#{len(names)}")
    return "".join(names.get(part, part) for part in re.split(r"(\b\w+\b)", text))


def _conditioned(rule: Rule, verdict: Verdict) -> Rule | None:
    """The rule under the condition that its verdict offers."""
    condition = proposed(verdict)
    if verdict.proved or not condition:
        return None
    own = describe(rule.where)
    return made(rule.pattern, rule.replacement, f"{own} and {condition}" if own else condition)
