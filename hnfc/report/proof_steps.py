"""A proof over the reals in steps that a reader can follow: what the sides mean, where they are defined, and the term that both become.

The prover's verdict is what counts; this retells its proof, which is carried out once more to listen to it. Terms stand in backquotes.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from hnfc.dialects.facts import NoFormula
from hnfc.dsl.core import Apply, Rule, captures, walk
from hnfc.dsl.soundness import Verdict
from hnfc.dsl.soundness.closing import Closer
from hnfc.dsl.soundness.denote import Denotation
from hnfc.dsl.soundness.goals import broadcast_text
from hnfc.dsl.soundness.limits import Work
from hnfc.dsl.soundness.normal_form import Normalizer, negation
from hnfc.dsl.soundness.proof import Blocked, Proof
from hnfc.dsl.soundness.proof_observer import Case, ProofObserver
from hnfc.dsl.soundness.readable import condition, shown, term
from hnfc.dsl.soundness.term import Proposition, Rational
from hnfc.dsl.soundness.uninterpreted import abstracted

MOST_CASES = 6
LONGEST = 240
"""Greatest length of a term that is shown."""

FAMILIAR = frozenset((
    "add", "sub", "mul", "div", "neg", "exp", "log", "sqrt", "square", "abs", "maximum", "minimum", "sum", "max", "min", "compare", "sin",
    "cos", "where",
))  # fmt: skip
"""Operations whose meaning needs no words."""


@dataclass
class ProofCase:
    """One case of a proof: what was assumed, what makes the left side defined, what the right side needs, and the normal forms."""

    assumptions: list[str]
    defined: list[str] = field(default_factory=list)
    needed: list[str] = field(default_factory=list)
    left: str = ""
    right: str = ""
    reason: str = ""


class _Listening(Normalizer):
    """A normalizer that records its assumptions, and what it shows."""

    case: ProofCase

    def require(self, cond: Proposition) -> None:
        if cond.kind != "true" and not self.settled:
            text = condition(cond)
            known = self.case.needed if self.proving else self.case.defined
            if text not in known:
                known.append(text)
        super().require(cond)


class _Recorder(ProofObserver):
    """Remembers the cases of a proof that ended."""

    def __init__(self) -> None:
        self.open: ProofCase | None = None
        self.cases: list[ProofCase] = []

    def tools(self, meaning: Denotation, assumptions: Case, integral: frozenset[str], work: Work) -> tuple[Normalizer, Closer]:
        n = _Listening(integral=integral)
        shapes = [broadcast_text(member) for member in sorted(meaning.layout.broadcast, key=repr)]
        n.case = self.open = ProofCase([*shapes, *(condition(cond if value else negation(cond)) for cond, value in assumptions)])
        closer = Closer(n.rename, work)
        n.entails = closer.entails
        return n, closer

    def equal(self, left: Rational, right: Rational, reason: str) -> None:
        self._close(term(left), term(right), reason)

    def impossible(self) -> None:
        self._close("", "", "")

    def _close(self, left: str, right: str, reason: str) -> None:
        if self.open is not None:
            self.open.left, self.open.right, self.open.reason = left, right, reason
            self.cases.append(self.open)
            self.open = None


def cases_of(rule: Rule) -> list[ProofCase]:
    """The cases of the proof, from left to right; empty where it cannot be carried out again."""
    recorder = _Recorder()
    try:
        Proof(abstracted(replace(rule, both_ways=False))[0], observer=recorder).run()
    except (Blocked, NoFormula):
        return []
    return recorder.cases


def proof_steps(rule: Rule, verdict: Verdict) -> list[str]:
    """The steps, in order. Of a rule that is not proved: how far the proof came."""
    if not verdict.proved:
        return list(verdict.steps)
    cases = cases_of(rule)
    if not cases:
        return [_meaning(rule), *(f"{step}." for step in verdict.steps)]
    steps = _definedness(cases)
    ended = sorted((case for case in cases if case.reason), key=lambda case: shown(" and ".join(case.assumptions), ()))
    for case in ended[:MOST_CASES]:
        steps.append(_equality(case, len(cases) > 1))
    if len(ended) > MOST_CASES:
        steps.append(f"{len(ended) - MOST_CASES} more cases end in the same way.")
    closed = len(cases) - len(ended)
    if closed:
        steps.append(
            f"{closed} case{'s' if closed > 1 else ''} cannot occur: the assumptions exclude each other, or the left side is undefined."
        )
    if rule.both_ways:
        steps.append("The same holds from right to left.")
    steps += [f"It holds {step.removeprefix('and ')}, too." for step in verdict.steps if step.startswith("and where")]
    names = set(captures(rule.pattern))
    return [_meaning(rule), *(shown(step, names) for step in steps)]


def _meaning(rule: Rule) -> str:
    """Formulas as they are read, and the definitions of the operations that have one."""
    named: dict[str, str] = {}
    for side in (rule.pattern, rule.replacement):
        for node in walk(side):
            if isinstance(node, Apply) and node.name not in FAMILIAR:
                named[node.name] = _definition((node.operation.__doc__ or "").strip().split("\n")[0].rstrip("."))
    text = "Both sides are read at one element of the result, for tensors of every rank and size that the conditions allow."
    definitions = "; ".join(f"`{name}` is {meaning}" for name, meaning in named.items() if meaning)
    return f"{text} By definition: {definitions}." if definitions else text


def _definition(text: str) -> str:
    """The first line of an operation's documentation as the end of a sentence."""
    text = text.replace("`", "")
    return text[:1].lower() + text[1:] if text[1:2].islower() else text


def _definedness(cases: list[ProofCase]) -> list[str]:
    """Domain of the left side, and the needs of the right side."""
    left = list(dict.fromkeys(text for case in cases for text in case.defined))
    needs = [[text for text in case.needed if text not in left] for case in cases]
    right = list(dict.fromkeys(text for texts in needs for text in texts))
    if not left and not right:
        return ["Both sides have a value everywhere."]
    steps = [f"The left side has a value where {_listed(left)}." if left else "The left side has a value everywhere."]
    if not right:
        steps.append("There the right side has one, too.")
    elif all(texts == needs[0] for texts in needs):
        steps.append(f"The right side needs {_listed(right)}, which follows.")
    else:
        steps.append(f"In one case or another the right side needs {_listed(right)}, which follows in that case.")
    return steps


def _listed(texts: list[str]) -> str:
    short = [f"`{text}`" for text in texts if len(shown(text, ())) <= LONGEST][:4]
    rest = len(texts) - len(short)
    return " and ".join(short + ([f"{rest} more condition{'s' if rest > 1 else ''} of that kind"] if rest else []))


def _equality(case: ProofCase, several: bool) -> str:
    """Both sides in normal form."""
    assumed = " and ".join(text if " has " in text else f"`{text}`" for text in case.assumptions)
    where = f"If {assumed}: " if case.assumptions else "" if not several else "Without further assumptions: "
    if any(len(shown(side, ())) > LONGEST for side in (case.left, case.right)):
        same = (
            "both sides have the same normal form (too long to show)"
            if case.left == case.right
            else "the normal forms are too long to show"
        )
    elif case.left == case.right:
        same = f"the left side and the right side both become `{case.left}`"
    else:
        same = f"the left side becomes `{case.left}`, the right side `{case.right}`"
    because = "" if case.reason == "normal forms agree" else f"; they are equal by {case.reason}"
    text = f"{where}{same}{because}."
    return text[:1].upper() + text[1:]
