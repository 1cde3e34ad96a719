"""Normal forms have the values of what they stand for, to fifty digits, and every step of a proof is true at sampled tensors.

The sides of a rule are evaluated twice: as expressions, by `balls.evaluate`, and as the normal forms of a case of the proof, by
`evaluating.Model`, which shares only the elementary functions with the former.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction

import pytest

from hnfc.dsl.core import Rule
from hnfc.dsl.rulebook import shipped
from hnfc.dsl.soundness.array_moves import ShapeMismatch
from hnfc.dsl.soundness.balls import Balls, evaluate, precision
from hnfc.dsl.soundness.claims import Claim, ClaimNode, Fact
from hnfc.dsl.soundness.elementary import ElementaryForms
from hnfc.dsl.soundness.elements import Mark
from hnfc.dsl.soundness.outcome import holds
from hnfc.dsl.soundness.proof import Proof
from hnfc.dsl.soundness.reductions import Reductions
from hnfc.dsl.soundness.term import ONE, ZERO, Rational
from hnfc.dsl.soundness.tracing import Closed, Record
from hnfc.dsl.soundness.uninterpreted import abstracted
from tests.soundness.concrete import Concrete, Concretizer
from tests.soundness.evaluating import Model, agree, indices
from tests.soundness.reading import corpus, rule_of

BITS = 256
MAX_CHECKED = 60
"""Assignments of the indices of one step that are tried at one point."""

PROVED = corpus("proved.hnf")


def recorded(rule: Rule) -> list[Closed]:
    record = Record()
    Proof(abstracted(rule)[0], observer=record).run()
    return record.closed


def points(closed: Closed, count: int, seed: int = 0) -> Iterator[tuple[Concrete, object, object]]:
    """Points of this case at which the rule's preconditions hold and the left side is defined, with an element of either side."""
    source = Concretizer(closed.rule, closed, seed)
    if not source.possible:
        return
    for _ in range(count):
        point = source.point()
        if point is None or not all(point.model.holds(cond, point.ixs) is value for cond, value in closed.assumptions):
            continue
        tensors = point.point.tensors()
        try:
            if holds(closed.rule.where, point.point, tensors) is not True:
                continue
            left: Balls = evaluate(closed.rule.pattern, tensors, point.point.axes, 0)
            right = evaluate(closed.rule.replacement, tensors, point.point.axes, 0)
        except (ShapeMismatch, ValueError, IndexError):
            continue
        if 0 in left.shape or isinstance(element := point.element(left.values), Mark):
            continue
        if all(not isinstance(x, Mark) for x in left.values.reshape(-1)):
            yield point, element, point.element(right.values)


# Steps -----------------------------------------------------------------------------------------------------------------


def chosen(model: Model, wanted: Iterable[object], known: dict) -> Iterator[dict]:
    """Values for the indices that are not known."""
    free = [ix for ix in wanted if ix not in known]
    for number, values in enumerate(model.assignments(free)):
        if number >= MAX_CHECKED:
            return
        yield {**known, **values}


def true_fact(model: Model, fact: Fact, known: dict) -> bool:
    """Return whether the fact is not surely false, at any of the indices that it speaks of."""
    return all(model.holds(fact.cond, ixs) is not False for ixs in chosen(model, fact.cond.ixs, known))


def surely(model: Model, facts: Iterable[Fact], ixs: dict) -> bool:
    return all(model.holds(fact.cond, full) is True for fact in facts for full in chosen(model, fact.cond.ixs, ixs))


def nodes_of(claim: Claim) -> Iterator[ClaimNode]:
    """The functions in what the claim says, those below others included."""
    stack = [] if not hasattr(claim.goal, "left") else [claim.goal.left, claim.goal.right]
    while stack:
        node = stack.pop()
        if node.leaf and node.operands:
            yield node
        stack += node.operands


def check_steps(closed: Closed, point: Concrete) -> Counter[str]:
    """Every fact, claim and application of a theorem is true at this point. Returns how many were surely true."""
    model, counts = point.model, Counter[str]()
    for fact in (*closed.n.given, *closed.n.signs.log):
        assert true_fact(model, fact, point.ixs), (closed.rule.name, fact)
        counts["facts"] += 1
    seen: set[ClaimNode] = set()
    for claim in closed.n.claims:
        facts = [fact for fact in claim.signs.log if fact not in closed.n.signs.log]
        wanted = indices(claim.goal) | {ix for fact in facts for ix in fact.cond.ixs - set(fact.quantified)}
        for ixs in chosen(model, wanted, point.ixs):
            if not surely(model, facts, ixs):
                continue
            answer = model.follows(claim.goal, ixs)
            assert answer is not False, (closed.rule.name, claim.what, claim.goal)
            counts["claims"] += answer is True
        for node in nodes_of(claim):
            if node not in seen:
                seen.add(node)
                counts["theorems"] += check_theorem(closed, model, node, point.ixs)
    return counts


def check_theorem(closed: Closed, model: Model, node: ClaimNode, known: dict) -> int:
    """The function of a node, at the values of its operands, has the value of its normal form."""
    confirmed = 0
    for ixs in chosen(model, indices(node), known):
        if all(model.holds(guard, ixs) is True for guard in node.guards):
            answer = agree(model.applied(node, ixs), model.term(node.value, ixs))
            assert answer is not False, (closed.rule.name, node.op, [x.value for x in node.operands], node.value)
            confirmed += answer is True
    return confirmed


def check(rule: Rule, count: int, steps: int) -> Counter[str]:
    """Both sides of every case at `count` points, and every step at `steps` of them."""
    counts: Counter[str] = Counter()
    for closed in recorded(rule):
        with precision(BITS):
            for number, (point, left, right) in enumerate(points(closed, count)):
                assert closed.sides is not None, f"{rule.name}: a case that is impossible occurs"
                for side, element in zip(closed.sides, (left, right), strict=True):
                    answer = agree(point.model.term(side, point.ixs), element)
                    assert answer is not False, (rule.name, side, element, point.point)
                    counts["sides"] += answer is True
                if number < steps:
                    counts += check_steps(closed, point)
    return counts


WITHOUT_NUMBERS = ("reshape", "permute")
"""Rules about all axes at once have no classes of axes to choose sizes for."""


def rules_to_check() -> list[Rule]:
    return [rule for rule in (*shipped().rules, *PROVED) if not any(word in rule.name for word in WITHOUT_NUMBERS)]


def check_part(part: int, parts: int, count: int, steps: int) -> tuple[Counter[str], list[str]]:
    """The counts of a part of all rules, and the rules of which no point was found."""
    total: Counter[str] = Counter()
    without = []
    for rule in rules_to_check()[part::parts]:
        found = check(rule, count, steps)
        total += found
        if not found["sides"]:
            without.append(rule.name)
    return total, without


@pytest.mark.slow
def test_sides_and_steps(record_property: Callable[[str, str], None]) -> None:
    total, without = check_part(0, 8, 12, 1)
    record_property("shown", f"agreeing to fifty digits: {dict(total)}; no point found for {without}")
    assert len(without) <= 3
    assert total["sides"] > 500
    assert total["claims"] > 250
    assert total["theorems"] > 50


@pytest.mark.slow
@pytest.mark.parametrize("part", range(16))
def test_many_sides_and_steps(part: int, record_property: Callable[[str, str], None]) -> None:
    total, without = check_part(part, 16, 400, 8)
    record_property("shown", f"agreeing to fifty digits: {dict(total)}")
    assert not without


# A fault of a normal form is seen --------------------------------------------------------------------------------------


def test_a_wrong_theorem_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """exp(a + b) = exp(a) + exp(b): no other solver sees that, since it takes the theorem on trust."""
    right = ElementaryForms.exp

    def wrong(self: ElementaryForms, x: Rational) -> Rational:
        result = ZERO
        for mono, c in x.num.items():
            result = result + right(self, Rational({mono: c}))
        return result

    monkeypatch.setattr(ElementaryForms, "exp", wrong)
    with pytest.raises(AssertionError):
        check(rule_of("exp(a + b) => exp(a) + exp(b)"), 20, 2)


def test_a_wrong_axis_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Σ without the number of its elements where the body does not vary."""
    right = Reductions.size_of
    monkeypatch.setattr(Reductions, "size_of", lambda self, cls: ONE if self.inside else right(self, cls))  # type: ignore[attr-defined]
    with pytest.raises(AssertionError):
        check(rule_of("sum[k](x + c) => sum[k](x) + c\n where free[k](c)"), 40, 2)


def test_a_wrong_fact_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A square root that is thought to be defined for positive numbers only."""
    monkeypatch.setattr(
        ElementaryForms, "sqrt", lambda self, x: (self.require(self.relation(">", x)), self.root_power(x, Fraction(1, 2)))[1]
    )
    with pytest.raises(AssertionError):
        check(rule_of("sqrt(x) + 1 => 1 + sqrt(x) + where(x == 0, 1, 0)"), 60, 4)
