"""A condition that is added to a proved rule makes it no wrong one."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest

from hnfc.dsl.core import Condition, Rule
from hnfc.dsl.description import describe
from hnfc.dsl.rulebook import shipped
from hnfc.dsl.soundness import Status, Verdict, prove
from hnfc.dsl.soundness.judge import verdict
from hnfc.dsl.soundness.parallel import run
from tests.soundness.conditioning import conditioned, conditions
from tests.soundness.reading import corpus, rule_of

SEEDED = 16

Trial = tuple[Rule, Condition]


def trials() -> list[Trial]:
    """Every condition on every rule of the library and of the corpora of proved rules."""
    rules = [*shipped().rules, *corpus("proved.hnf"), *corpus("published.hnf")]
    return [(rule, condition) for rule in rules if rule.within is None for condition in conditions(rule)]


def _judged(rule: Rule, limit: float) -> Verdict:
    return verdict(rule, int(1000 * limit), 60, advise=False)


def _failed(rule: Rule, reason: str, seconds: float) -> Verdict:
    return Verdict(Status.UNKNOWN, reason, seconds=seconds)


def refuted(chosen: Sequence[Trial]) -> list[str]:
    """The trials that are refuted although the rule is proved without the condition."""
    rules = [replace(conditioned(rule, condition), name=f"{rule.name}_{i}") for i, (rule, condition) in enumerate(chosen)]
    found: dict[int, Verdict] = {}
    run(rules, list(range(len(rules))), None, 3.0, _judged, _failed, found.__setitem__)
    wrong = [i for i, v in sorted(found.items()) if v.status is Status.REFUTED]
    return [f"{chosen[i][0].name} where {describe(chosen[i][1])}: {found[i].counterexample}" for i in wrong if prove(chosen[i][0]).proved]


def test_some_conditions_on_all_rules() -> None:
    assert refuted(random.Random(0).sample(trials(), SEEDED)) == []


@pytest.mark.slow
@pytest.mark.parametrize("part", range(100))
def test_all_conditions_on_all_rules(part: int) -> None:
    assert refuted(trials()[part::100]) == []


VECTORS = [
    ("(A @ B) @ C => A @ (B @ C)", "rank(B) = 1"),
    ("(A @ B) @ C => A @ (B @ C)", "rank(A) = 1"),
    ("a @ (b + c) => a @ b + a @ c", "rank(c) = 1"),
    ("permute(x * y, const p) => permute(x, p) * permute(y, p)", "rank(y) = 1"),
    ("permute(x + y, const p) => permute(x, p) + permute(y, p)", "rank(y) = 1"),
    ("permute(maximum(x, y), const p) => maximum(permute(x, p), permute(y, p))", "rank(x) = 1"),
    ("transpose(x + y) => transpose(x) + transpose(y)", "rank(y) = 1"),
    ("transpose(where(p, x, y)) => where(transpose(p), transpose(x), transpose(y))", "rank(y) = 1"),
]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("text", "condition"), VECTORS)
def test_a_right_side_without_a_type_is_no_counterexample(text: str, condition: str) -> None:
    assert prove(rule_of(text)).proved
    assert prove(rule_of(f"{text} where {condition}")).status is not Status.REFUTED


@pytest.mark.parametrize("text", [text for text, _ in VECTORS])
def test_the_shapes_that_a_proof_is_for_are_named(text: str) -> None:
    assert prove(rule_of(text)).shape_conditions


def test_a_right_side_that_never_has_a_type_is_refuted() -> None:
    for text in ("where((m : i1), x, 0) => x * m", "x * 1 => cast(x, si32)"):
        verdict = prove(rule_of(text))
        assert verdict.status is Status.REFUTED and "no type" in verdict.reason, text
