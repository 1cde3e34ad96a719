"""The corpus: what must be proved is proved, what is wrong is refuted by a small counterexample that replays."""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction

import pytest

from hnfc.dialects.num import OPERATIONS
from hnfc.dsl.core import AllOf, Apply, Capture, Comparison, Free, Literal, Rule, SameSize
from hnfc.dsl.description import rule_line
from hnfc.dsl.soundness import Status, judge, prove, replayed
from hnfc.dsl.soundness.scan import conjuncts
from tests.soundness.reading import corpus, rule_of

PROVED = corpus("proved.hnf")
REFUTED = corpus("refuted.hnf")


@pytest.mark.sampled(24)
@pytest.mark.parametrize("rule", PROVED, ids=lambda r: r.name)
def test_is_proved(rule: Rule) -> None:
    verdict = prove(rule)
    assert verdict.status is Status.PROVED, verdict.reason
    assert verdict.samples > 0
    assert verdict.witness
    assert verdict.steps


@pytest.mark.parametrize("rule", REFUTED, ids=lambda r: r.name)
def test_is_refuted(rule: Rule) -> None:
    verdict = judge.verdict(rule, advise=False)
    assert verdict.status is Status.REFUTED, verdict.reason
    assert verdict.counterexample is not None
    assert replayed(rule, verdict.counterexample)
    assert sum(len(tensor.values) for _, tensor in verdict.counterexample.inputs) <= 30
    assert verdict.counterexample.left != "undefined"


def with_help(every: int) -> list[Rule]:
    return random.Random(1).sample(REFUTED, len(REFUTED) // every)


@pytest.mark.parametrize("rule", with_help(16), ids=lambda r: r.name)
def test_the_condition_that_is_offered_is_enough(rule: Rule) -> None:
    offers_what_proves(rule)


@pytest.mark.slow
@pytest.mark.parametrize("rule", REFUTED, ids=lambda r: r.name)
def test_every_condition_that_is_offered_is_enough(rule: Rule) -> None:
    offers_what_proves(rule)


def offers_what_proves(rule: Rule) -> None:
    """The help of a verdict is a condition, and the rule is proved under it."""
    found = prove(rule)
    assert found.status is Status.REFUTED
    if found.help:
        condition = found.help.removeprefix("it holds with `where ").removesuffix("`")
        joined = "and" if conjuncts(rule.where) else "where"
        assert prove(rule_of(f"{rule_line(rule)} {joined} {condition}")).proved


def some(rules: list[Rule], every: int) -> list[object]:
    """All rules as parameters; only one in `every` is tried by default."""
    quick = set(random.Random(2).sample(range(len(rules)), len(rules) // every))
    return [pytest.param(rule, marks=[] if i in quick else pytest.mark.slow, id=rule.name) for i, rule in enumerate(rules)]


@pytest.mark.sampled(12)
@pytest.mark.parametrize("rule", some(PROVED, 5))
def test_a_rule_is_sound_as_an_identity(rule: Rule) -> None:
    """left ⇒ left needs no theorem, only that the left side implies its own definedness."""
    if rule.both_ways:
        pytest.skip("the other direction is another rule")
    verdict = prove(replace(rule, replacement=rule.pattern))
    assert verdict.status is Status.PROVED, verdict.reason


# Rules built by hand, without a parser -----------------------------------------------------------------------------------

X, Y, C = Capture("x"), Capture("y"), Capture("c")


def call(name: str, *operands: object, **attributes: object) -> Apply:
    return Apply(OPERATIONS[name], operands, tuple(attributes.items()))  # type: ignore[arg-type]


def made(pattern: object, replacement: object, *conditions: object) -> Rule:
    return Rule("made", "test", "", "", pattern, replacement, AllOf(conditions))  # type: ignore[arg-type]


def test_by_hand() -> None:
    total = call("sum", call("mul", C, X), axes=("k",))
    outside = call("mul", C, call("sum", X, axes=("k",)))
    assert prove(made(total, outside, Free(C, ("k",)))).proved
    assert prove(made(total, outside)).status is Status.REFUTED
    sums = call("add", call("sum", X, axes=("k",)), call("sum", Y, axes=("k",)))
    together = call("sum", call("add", X, Y), axes=("k",))
    assert prove(made(sums, together, SameSize(X, Y, ("k",)))).proved
    wrong = prove(made(sums, together))
    assert wrong.status is Status.REFUTED
    assert wrong.help == "it holds with `where size[k](x) = size[k](y)`"


def test_a_condition_is_used_and_needed() -> None:
    identity = call("exp", call("log", X))
    positive = Comparison("gt", X, Literal(Fraction(0)))
    one = call("mul", X, Literal(Fraction(1)))
    assert prove(made(one, identity, positive)).proved
    verdict = prove(made(one, identity))
    assert verdict.status is Status.REFUTED
    assert verdict.help == "it holds with `where x > 0`"


# What is neither -----------------------------------------------------------------------------------------------------


def test_conditions_that_exclude_everything_are_no_proof() -> None:
    verdict = prove(rule_of("abs(x) => x + 1\n where x > 1 and x < 0"))
    assert verdict.status is Status.VACUOUS


def test_a_left_side_that_is_never_defined_is_no_proof() -> None:
    verdict = prove(rule_of("log(0 * x) => x + 1"))
    assert verdict.status is Status.VACUOUS


def test_named_axes_beside_positions_are_unknown() -> None:
    verdict = prove(rule_of("sum[k](a @ b) => sum[k](a) @ b"))
    assert verdict.status is not Status.PROVED


def test_axes_from_the_left_of_two_tensors_are_unknown() -> None:
    sums = call("add", call("sum", X, axes=(0,)), call("sum", Y, axes=(0,)))
    assert not prove(made(sums, call("sum", call("add", X, Y), axes=(0,)), SameSize(X, Y, (0,)))).proved


def test_an_approximation_reports_what_was_measured() -> None:
    verdict = prove(rule_of("sin(x) ~> x within 0.25\n where x > -1 and x < 1"))
    assert verdict.status is Status.UNKNOWN
    assert "measured at most" in verdict.reason
    assert prove(rule_of("sin(x) ~> x within 0.01\n where x > -1 and x < 1")).status is Status.REFUTED


@pytest.mark.parametrize(
    "text",
    [
        "exp(sum[k](x)) => exp(sum[k](y)) * exp(sum[k](x) - sum[k](y)) \n where size[k](x) == size[k](x)",
        "lgamma(x + 1) => lgamma(x) + log(abs(x))",
        "atan(x) + atan(1 / x) => sign(x) * 1.5707963267948966",
    ],
)
def test_what_it_cannot_prove_is_not_proved(text: str) -> None:
    try:
        rule = rule_of(text)
    except Exception:
        pytest.skip("not a rule of the language")
    assert prove(rule, timeout_ms=4000).status is not Status.PROVED


def test_a_right_side_with_an_unknown_operation_needs_it_on_the_left() -> None:
    assert prove(rule_of("0 * x => 0 * opaque(log(x))")).status is not Status.PROVED


def test_a_broadcast_is_no_identity_below_a_sum() -> None:
    x = call("sum", call("broadcast", X, shape=(3, 4)), axes=("k",))
    assert not prove(made(x, call("sum", X, axes=("k",)))).proved


def test_a_cast_to_integers_is_no_identity() -> None:
    assert not prove(made(call("cast", call("neg", X), to="si32"), call("neg", X))).proved
    assert prove(made(call("cast", call("neg", X), to="f16"), call("neg", X))).proved


def test_a_class_of_a_square_matrix_has_two_indices() -> None:
    assert prove(rule_of("transpose(a @ b) => a @ b")).status is Status.REFUTED
    assert prove(rule_of("(a * d) @ b => a @ (transpose(d) * b)")).status is Status.REFUTED


def test_json_round_trip() -> None:
    import json

    from hnfc.dsl.soundness import Verdict

    for rule in (PROVED[0], REFUTED[0], REFUTED[9]):
        verdict = prove(rule)
        assert Verdict.from_json(json.loads(json.dumps(verdict.to_json()))) == verdict


@pytest.mark.parametrize(
    "text",
    [
        "log(-exp(x)) => x",
        "log(-exp(x)) + y => x * y",
        "x / (y - y) => 1",
        "sqrt(x) => x where x < 0",
        "exp(x) => x where x > 1 and x < 0",
        "sum[k](log(-exp(x))) => 0",
        "log(-exp(x)) <=> sqrt(-1 - x * x)",
    ],
)
def test_a_rule_of_no_input_is_vacuous(text: str) -> None:
    verdict = prove(rule_of(text))
    assert verdict.status is Status.VACUOUS and not verdict.proved
    assert verdict.steps and not verdict.witness and not verdict.samples


def test_a_sum_of_nothing_has_a_value() -> None:
    nonempty = "every axis that is reduced has an element"
    assert nonempty in prove(rule_of("sum[k](log(-exp(x))) => 0")).shape_conditions
    assert nonempty not in prove(rule_of("log(-exp(sum[k](x))) => 0")).shape_conditions


@pytest.mark.parametrize(
    "text",
    [
        "log(x - 100) => log(x) - 100",  # few samples give it a value
        "exp(x - x) => 1 where x > 1234567 and x < 1234568",  # none does
        "log(-exp(x)) <=> x",  # only one side has no value
        "log(x) => log(-x) where x < 1",
        "max[k](log(-x)) => 0 where x <= 0",
    ],
)
def test_what_has_an_input_is_not_vacuous(text: str) -> None:
    assert prove(rule_of(text)).status is not Status.VACUOUS


def test_sizes_that_only_the_right_side_needs_equal_are_left_to_who_applies_the_rule() -> None:
    fitting = "the shapes that the right side combines fit"
    assert fitting in prove(rule_of("(a + b) @ c => a @ c + b @ c")).shape_conditions
    assert fitting not in prove(rule_of("a @ c + b @ c => (a + b) @ c")).shape_conditions
    assert fitting not in prove(rule_of("(a + b) @ c => a @ c + b @ c where size[-2, -1](a) = size[-2, -1](b)")).shape_conditions


def test_a_convolution_that_has_no_type_is_refuted_with_shapes() -> None:
    ranks = "where rank(x) = 4 and rank(w) = 4"
    settings, again = "stride=const s, padding=0, dilation=1, groups=1", "stride=s, padding=0, dilation=1, groups=1"
    verdict = prove(rule_of(f"conv(x, w, {settings}) => conv(x, s, {again}) {ranks}"))
    assert verdict.status is Status.REFUTED and "right side" in verdict.reason
    verdict = prove(rule_of(f"conv(x, w, {settings}) => conv(x, 2 * w, {again})"))
    assert verdict.status is Status.REFUTED
