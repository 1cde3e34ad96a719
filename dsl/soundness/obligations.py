"""Everything that the proof of a rule rests on, as formulas of nonlinear real arithmetic that another solver can check.

Each obligation says that a goal follows from assumptions: facts of the case, and instances of axioms and theorems, all by name. What no
solver checks is that the theorems of axioms.py are true, that a sum, a product or an extremum has the elements that its operation says,
and that elements of tensors are read at the right places; tests try these in ball arithmetic.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from hnfc.dialects.facts import NoFormula
from hnfc.dsl.core import Rule
from hnfc.dsl.soundness.axis_classes import Member
from hnfc.dsl.soundness.claims import Claim, RecordedSigns
from hnfc.dsl.soundness.closing import in_mask
from hnfc.dsl.soundness.formulas import Sheet
from hnfc.dsl.soundness.goals import broadcast_text
from hnfc.dsl.soundness.integers import variants
from hnfc.dsl.soundness.judge import reduces
from hnfc.dsl.soundness.normal_form import negation
from hnfc.dsl.soundness.proof import Blocked, Proof
from hnfc.dsl.soundness.proof_obligation import Assumption, Obligation
from hnfc.dsl.soundness.scan import orthogonal_captures
from hnfc.dsl.soundness.term import Proposition
from hnfc.dsl.soundness.tracing import Closed, Record, TracingNormalizer
from hnfc.dsl.soundness.uninterpreted import abstracted

REASONS = {
    "case": "the assumptions of this case",
    "where": "the rule's precondition, at the elements in sight",
    "the left side is defined": "a rule says nothing where its left side has no value",
    "sizes agree": "operands that are combined have sizes that fit",
    "a movement stays inside": "bounds of slices and paddings of the left side fit their operands",
    "an index is within its range": "an index is below the size of its axis",
    "this branch is taken": "the condition of the choice that this is a branch of",
    "substitution": "another obligation: the case leaves a value no choice, and it was put in its place",
    "shown before": "another obligation: the right side is defined, or Z3 was asked",
    "fact": "another obligation: it follows from the facts as they were assumed",
    "instance": "another obligation: a universal fact at places in sight",
    "definition": "a name for a term",
    "choice-as-written": "a maximum, a minimum, an absolute value or a choice is one of its branches",
    "equal-arguments": "a function has equal values at equal arguments, which another obligation shows",
}
"""Meanings of assumptions that are neither axioms nor theorems."""

STEPS = {
    "equality": ("equality", "The two sides have the same value."),
    "normal form": ("equality", "What a function is applied to, or an index, has the value of its normal form."),
    "condition": ("equality", "A comparison holds exactly where its normal form does."),
    "arguments": ("equality", "Two arguments of a function are equal."),
    "exponential": ("equality", "exp of the difference is 1."),
    "defined": ("defined", "The right side has a value: this condition holds wherever the left side has one."),
    "sign": ("side condition", "The sign of a term, which a theorem needs."),
    "sign of elements": ("side condition", "The sign of every element that a reduction combines."),
    "Z3": ("side condition", "What Z3 was asked in the proof, with all that it was given."),
    "fact": ("side condition", "A fact that Z3 was given follows from the facts as they were assumed."),
    "substitution": ("side condition", "The facts leave a value no choice."),
    "cases": ("case split", "The cases cover everything."),
    "impossible": ("vacuous case", "The facts of this case exclude each other."),
    "branch": ("vacuous case", "This branch is never taken."),
}
"""The steps of a proof: the kind of their obligations, and what they say."""


def obligations(rule: Rule) -> list[Obligation]:
    """The obligations of the rule's proof, in its order. Raises Blocked where the rule is not proved."""
    if rule.within is not None:
        raise Blocked("a bound on the difference is not proved")
    if orthogonal_captures(rule):
        raise Blocked("that products of an orthogonal matrix with its transpose are the identity is no obligation for a solver of reals")
    try:
        rules = [abstracted(choice)[0] for choice in variants(rule)]
    except NoFormula as error:
        raise Blocked(str(error)) from None
    return [found for abstract in rules for found in _of_rule(abstract)]


def _of_rule(abstract: Rule) -> list[Obligation]:
    record, empty = Record(), Record()
    proof = Proof(abstract, observer=record)
    proof.run()
    found = list(_of_record(abstract, record))
    if reduces(abstract):
        proof.observer = empty
        if proof.holds_for_empty():
            found += _of_record(abstract, empty, "without elements/")
    return found


def _of_record(rule: Rule, record: Record, prefix: str = "") -> Iterator[Obligation]:
    """The obligations of one attempt, direction by direction and tree of cases by tree of cases."""
    directions: dict[str, dict[object, list[Closed]]] = {}
    for closed in record.closed:
        direction = "left-to-right" if closed.rule.pattern == rule.pattern else "right-to-left"
        tree = (id(closed.meaning), closed.n.empty)
        directions.setdefault(direction, {}).setdefault(tree, []).append(closed)
    for direction, trees in directions.items():
        for number, cases in enumerate(trees.values(), 1):
            place = f"{prefix}{direction}/" + (f"shapes {number}/" if len(trees) > 1 else "")
            shapes = _shapes(cases[0])
            if any(closed.assumptions for closed in cases):
                yield _exhaustive(rule.name, f"{place}cases", cases, shapes)
            for i, closed in enumerate(cases, 1):
                yield from _of_case(rule.name, f"{place}case {i}/" if len(cases) > 1 else place, closed, shapes)


def _shapes(closed: Closed) -> str:
    layout = closed.meaning.layout
    parts = [broadcast_text(member) for member in sorted(layout.broadcast, key=repr)]
    parts += [f"{' and '.join(sorted({axis_text(m) for m in layout.classes[c]}))} have no elements" for c in sorted(closed.n.empty)]
    return f" Here {' and '.join(parts)}." if parts else ""


def axis_text(member: Member) -> str:
    name, axis = member
    return f"{name} along {axis}"


def _exhaustive(rule: str, name: str, cases: list[Closed], shapes: str) -> Obligation:
    """Each case is a path in a tree of decisions; together they are everything."""
    paths = [Proposition("and", *(cond if value else negation(cond) for cond, value in closed.assumptions)) for closed in cases]
    claim = Claim("cases", Proposition("or", *paths), RecordedSigns(cases[0].n.rename))
    tree = "; ".join(f"{i}: {' and '.join(map(str, path.args))}" for i, path in enumerate(paths, 1))
    return _obligation(rule, name, claim, cases[0].n, f"{shapes} {tree}")[0]


def _of_case(rule: str, place: str, closed: Closed, shapes: str) -> Iterator[Obligation]:
    count: Counter[str] = Counter()
    waiting = list(closed.n.claims)
    done: set[Proposition] = set()
    while waiting:
        claim = waiting.pop(0)
        count[claim.what] += 1
        name = f"{place}{claim.what}" + (f" {count[claim.what]}" if claim.what not in ("equality", "impossible") else "")
        case = " and ".join(str(cond if value else negation(cond)) for cond, value in closed.assumptions)
        made, sheet = _obligation(rule, name, claim, closed.n, shapes + (f" The case is {case}." if case else ""))
        yield made
        for base, mask in sheet.bodies.items():
            goal = in_mask(base.args[1], mask)
            if goal not in done:
                done.add(goal)
                waiting.append(replace(claim, what="sign of elements", goal=goal, query=None))


def _obligation(rule: str, name: str, claim: Claim, n: TracingNormalizer, remark: str) -> tuple[Obligation, Sheet]:
    sheet = Sheet(claim, n)
    kind, words = STEPS[claim.what]
    made = Obligation(rule, name, kind, words + remark, tuple(sheet.assumptions), sheet.goal, tuple(sheet.legend.items()))
    return made, sheet


__all__ = ["REASONS", "STEPS", "Assumption", "Blocked", "Obligation", "obligations"]
