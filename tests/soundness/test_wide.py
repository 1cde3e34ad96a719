"""A wider corpus: rules that are proved, near misses that are refuted, and wrong rules without a counterexample or a proof."""

from __future__ import annotations

import pytest

from hnfc.dialects.facts import NoFormula
from hnfc.dsl.core import Rule
from hnfc.dsl.soundness import Status, judge, prove, replayed
from hnfc.dsl.soundness.axis_classes import Unrelated
from hnfc.dsl.soundness.integers import variants
from hnfc.dsl.soundness.proof import Blocked, Proof
from hnfc.dsl.soundness.uninterpreted import abstracted
from tests.soundness.reading import corpus, rule_of

WRONG_AT_A_POINT = [
    "sin(x) / (1 - cos(x)) => 1 / tan(x / 2)",
    "tan(2 * x) => 2 * tan(x) / (1 - square(tan(x)))",
    "sin(x) => 2 * tan(x / 2) / (1 + square(tan(x / 2)))",
    "sqrt(1 - x * x) + 0 * tan(x) => x * tan(acos(x))",
    "argmax[-1](log_softmax[-2](x)) => argmax[-1](x)",
    "argmax[k](cos(x)) => argmin[k](x) where x >= 0",
]
"""Most of them fail at irrational points only."""


@pytest.mark.sampled(10)
@pytest.mark.parametrize("rule", corpus("wide.hnf"), ids=lambda r: r.name)
def test_is_proved(rule: Rule) -> None:
    verdict = prove(rule)
    assert verdict.status is Status.PROVED, verdict.reason
    assert verdict.samples and verdict.witness and verdict.steps


@pytest.mark.sampled(8)
@pytest.mark.parametrize("rule", corpus("near_misses.hnf"), ids=lambda r: r.name)
def test_a_near_miss_is_refuted(rule: Rule) -> None:
    verdict = judge.verdict(rule, advise=False)
    assert verdict.status is Status.REFUTED, verdict.reason
    assert verdict.counterexample is not None and replayed(rule, verdict.counterexample)


@pytest.mark.sampled(12)
@pytest.mark.parametrize("rule", [*corpus("near_misses.hnf"), *corpus("refuted.hnf")], ids=lambda r: r.name)
def test_no_wrong_rule_is_proved_where_nobody_searches(rule: Rule) -> None:
    for choice in variants(rule):
        with pytest.raises((Blocked, NoFormula, Unrelated)):
            Proof(abstracted(choice)[0]).run()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("text", WRONG_AT_A_POINT)
def test_what_is_wrong_at_a_point_is_not_proved(text: str) -> None:
    assert prove(rule_of(text)).status is not Status.PROVED


@pytest.mark.parametrize(
    ("text", "goal"),
    [
        ("sum[k](y * x) => size[k](x) * x * y where free[k](y)", "it remains to show that Σ_a(x[a]) = size[k](x)·x[i]"),
        ("sin(floor(x)) => sin(floor(x * x))", "it remains to show that x = x²"),
        ("abs(x) => x * x", "if x ≥ 0: it remains to show that x = x²"),
        ("x + y => x + y + 0 / y", "the right side needs y ≠ 0"),
    ],
)
def test_a_proof_says_what_is_left_in_the_names_of_its_rule(text: str, goal: str) -> None:
    with pytest.raises(Blocked) as found:
        Proof(rule_of(text)).run()
    assert goal in str(found.value)
