"""Which side's bound is smaller: what is proved holds, and what does not hold is not proved."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from flint import arb

from hnfc.dialects.facts import NoFormula
from hnfc.dsl.core import Apply, captures
from hnfc.dsl.error import (
    DEPENDS,
    NEVER_BETTER,
    NEVER_WORSE,
    UNKNOWN,
    ErrorReport,
    context_of,
    error_fingerprint,
    error_of,
    error_reports,
    rounding_of,
)
from hnfc.dsl.error.analysis import FAULTS
from hnfc.dsl.error.floating import evaluate
from hnfc.dsl.error.shipped import _stored
from hnfc.dsl.rulebook import load_files, shipped
from hnfc.dsl.soundness import balls
from hnfc.dsl.soundness.outcome import ERRORS, holds
from hnfc.dsl.soundness.sampling import Sampler
from tests.error.running import rule_of

POINTS = 40


@pytest.fixture(scope="module")
def reports():
    return error_reports(shipped().rules)


def test_the_reports_that_ship_are_those_of_these_sources():
    """`make shipped` makes them."""
    stored = _stored()
    assert [rule.name for rule in shipped().rules if error_fingerprint(rule) not in stored] == []


def text_of(report):
    """What does not depend on how much time the prover had."""
    return report.left, report.right, report.sensitivity, report.verdict, report.worst, report.example


def test_reports_made_now_are_those_that_ship(reports):
    for rule in random.Random(1).sample(shipped().rules, 6):
        assert text_of(error_of(rule)) == text_of(reports[rule.name]), rule.name


@pytest.mark.slow
def test_all_reports_made_now_are_those_that_ship(reports):
    for rule in shipped().rules:
        report = error_of(rule)
        assert text_of(report) == text_of(reports[rule.name]), rule.name
        assert report.proved == reports[rule.name].proved, rule.name


def ratios(rule, points, seed=0):
    """(right > left for sure, left > right for sure) at points of the prover's sampler, in ball arithmetic."""
    context = context_of(rule)
    left, right = (rounding_of(context, side, frozenset())[0].expression for side in (rule.pattern, rule.replacement))
    sampler = Sampler(rule, random.Random(f"{rule.name}/{seed}"))
    for _ in range(points):
        point = sampler.point()
        try:
            with balls.precision(200):
                tensors = point.tensors()
                if holds(rule.where, point, tensors) is not True:
                    continue
                sides = [balls.evaluate(e, tensors, point.axes, 0).values for e in (rule.pattern, left, right)]
            value, l, r = np.broadcast_arrays(*sides)
        except (*ERRORS, balls.Unsupported, NoFormula):
            continue
        for v, a, b in zip(value.reshape(-1), l.reshape(-1), r.reshape(-1), strict=True):
            if not any(isinstance(x, balls.Mark | bool) for x in (v, a, b)):
                yield bool(arb(b) > arb(a)), bool(arb(a) > arb(b))


def test_no_sample_speaks_against_a_proof(reports):
    compared = 0
    for rule in shipped().rules:
        report = reports[rule.name]
        if report.verdict not in (NEVER_WORSE, NEVER_BETTER) or not report.proved:
            continue
        for worse, better in ratios(rule, POINTS):
            compared += 1
            assert not (worse if report.verdict == NEVER_WORSE else better), rule.name
    assert compared > 2000


def test_many_rules_are_proved_to_be_never_worse(reports):
    proved = [name for name, report in reports.items() if report.verdict == NEVER_WORSE and report.proved]
    assert len(proved) >= 70
    strictly = [name for name in proved if "the bounds are equal" not in reports[name].notes]
    assert len(strictly) >= 30
    for name in (
        "log1p_fusion", "softplus_fusion", "log_of_sigmoid", "sinh_of_difference", "asinh_of_log", "atanh_of_log", "log_of_exp",
        "sum_kahan", "sum_pairwise", "difference_of_products", "softmax_shift", "binary_cross_entropy_of_probabilities",
    ):  # fmt: skip
        assert name in strictly


def test_nothing_is_unknown(reports):
    """The rules of casts are about single types, and a report is about any; errors of those with parameters depend on their values. The
    search finds no inputs whose joined part is all 0."""
    others = {rule.name for rule in shipped().rules if rule.group == "widening" or rule.parameters} | {"zero_columns_leave"}
    assert {name for name, report in reports.items() if report.verdict == UNKNOWN} == others


def test_an_example_is_given_wherever_the_right_side_may_be_worse(reports):
    for name, report in reports.items():
        if report.verdict in (DEPENDS, NEVER_BETTER) and report.proved:
            assert report.example is not None and report.example.ratio > 1, name
        assert report.worst >= 1 and (not report.at_most or report.at_most >= report.worst * (1 - 1e-6))


def test_reports_survive_json(reports):
    for report in reports.values():
        assert ErrorReport.from_json(json.loads(json.dumps(report.to_json(), allow_nan=False))) == report


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("log(1 + x) => log1p(x)", NEVER_WORSE),
        ("x * y + x * z => x * (y + z) structural", NEVER_WORSE),
        ("a * a - b * b => (a - b) * (a + b)", DEPENDS),
        ("sqrt(x * x + y * y) => hypot(x, y)", NEVER_BETTER),
        ("exp(x) * exp(y) => exp(x + y)", DEPENDS),
        ("x / y => x * (1 / y)", NEVER_BETTER),
        ("sqrt(x + 1) - sqrt(x) => 1 / (sqrt(x + 1) + sqrt(x)) where x >= 2", NEVER_WORSE),
        ("sum[k](x) / size[k](x) => mean[k](x)", NEVER_WORSE),
    ],
)
def test_known_verdicts(text, verdict):
    report = error_of(rule_of(text))
    assert report.verdict == verdict, report


FLIPPED = {NEVER_WORSE: NEVER_BETTER, NEVER_BETTER: NEVER_WORSE, DEPENDS: DEPENDS}


@pytest.mark.parametrize(
    "name",
    [
        "log1p_fusion",
        "softplus_fusion",
        "difference_of_products",
        "hypot_fusion",
        "sum_of_sum",
        "factor_out",
        "exp_product",
        "self_quotient",
    ],
)
def test_swapped_sides_flip_the_verdict(name, reports):
    rule = shipped().named(name)
    assert rule is not None
    flipped = error_of(replace(rule, pattern=rule.replacement, replacement=rule.pattern))
    assert flipped.verdict == FLIPPED[reports[name].verdict]
    assert flipped.proved == reports[name].proved


@pytest.mark.parametrize("name", ["log1p_fusion", "softplus_fusion", "sinh_of_difference", "log_of_sigmoid", "factor_out", "sum_pairwise"])
def test_a_side_made_worse_is_never_proved_better(name):
    """The right side plus a difference that cancels: over the reals nothing changes, but its error grows."""
    from hnfc.dsl.error.expression import call

    rule = shipped().named(name)
    assert rule is not None
    x = next(iter(captures(rule.pattern).values()))
    noise: Apply = call("sub", call("mul", call("exp", x), call("exp", x)), call("exp", call("add", x, x)))
    report = error_of(replace(rule, replacement=call("add", rule.replacement, noise)))
    assert report.verdict != NEVER_WORSE


def test_a_condition_that_is_proved_excludes_the_worse(reports):
    """Where the report says `proved`, points that meet the condition are not worse."""
    from hnfc.dsl.error.conditions import families
    from hnfc.dsl.error.search import search

    checked = 0
    for rule in shipped().rules:
        text = reports[rule.name].better_where
        if "(proved)" not in text:
            continue
        context = context_of(rule)
        bounds = [rounding_of(context, side, frozenset())[0].expression for side in (rule.pattern, rule.replacement)]
        found = search(rule, context, *bounds)
        condition = next(c for family in families(rule, context) for name, c in family if text.startswith(f"{name} (proved)"))
        met, against = found.meeting(condition)
        assert met and not against, rule.name
        checked += 1
    assert checked >= 10


EXACTLY = {
    "exp_product": ("|a + b| ≤ 9", lambda a, b: abs(a + b) <= 9),
    "exp_quotient": ("|b - a| ≤ 9", lambda a, b: abs(b - a) <= 9),
    "constant_split": ("|c| ≥ |x - c|", lambda x, c: abs(c) >= abs(x - c)),
    "expm1_fusion": ("8·exp(x) ≥ 7·|exp(x) - 1|", lambda x: 8 * np.exp(x) >= 7 * abs(np.exp(x) - 1)),
    "sigmoid_fusion": ("exp(-x) ≥ 3", lambda x: np.exp(-x) >= 3),
    "one_minus_tanh": ("4·|exp(2·x) - 1| ≥ 7", lambda x: 4 * abs(np.exp(2 * x) - 1) >= 7),
}


@pytest.mark.parametrize("name", EXACTLY)
def test_an_exact_condition_is_met_where_the_right_side_is_no_worse_and_nowhere_else(reports, name):
    text, condition = EXACTLY[name]
    assert f"exactly where {text}" in reports[name].better_where
    rule = shipped().named(name)
    assert rule is not None
    context = context_of(rule)
    random_number = np.random.default_rng(0).normal
    bounds = [rounding_of(context, side, frozenset())[0].expression for side in (rule.pattern, rule.replacement)]
    outcomes = set()
    for _ in range(200):
        numbers = {x: random_number() * 8 for x in captures(rule.pattern)}
        left, right = (float(evaluate(bound, numbers, {})) for bound in bounds)
        outcomes.add(met := bool(condition(**numbers)))
        assert met == (right <= left), numbers
    assert outcomes == {True, False}


def test_no_rule_makes_the_analysis_fail():
    """Whatever a rule says, there is a report; where there is no formula, it says why."""
    folder = Path(__file__).parent.parent / "soundness"
    rules = [rule for name in ("proved.hnf", "refuted.hnf") for rule in load_files([folder / name]).rules]
    assert len(rules) > 60
    chosen = random.Random(0).sample(rules, 4)
    for rule in chosen:
        report = error_of(rule)
        assert isinstance(report, ErrorReport)
        assert not any(note.startswith("the analysis failed") for note in report.notes), (rule.name, report.notes)
        if report.verdict == UNKNOWN:
            assert report.notes


def test_where_there_is_no_first_order_the_report_says_so():
    report = error_of(rule_of("floor(x * y) => floor(y * x)"))
    assert report.verdict == UNKNOWN and "first order" in report.notes[0]
    with pytest.raises(FAULTS):
        rule = rule_of("floor(x * y) => floor(y * x)")
        rounding_of(context_of(rule), rule.pattern, frozenset())
