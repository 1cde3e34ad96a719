"""The published claims on IEEE arithmetic, and what becomes of each in all formats."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from hnfc.dsl.core import Rule
from hnfc.dsl.ieee import FORMATS_JUDGED, IeeeStatus
from hnfc.dsl.ieee.formats import BINARY, number
from tests.ieee.reading import both_sides, corpus, verdicts
from tests.ieee.reference import Scalars

EXACT, UNLESS, ROUNDS, SAFER, LOSES = (
    IeeeStatus.EXACT,
    IeeeStatus.EXACT_UNLESS,
    IeeeStatus.ROUNDS,
    IeeeStatus.SAFER,
    IeeeStatus.MAY_LOSE,
)


def named(name: str) -> Rule:
    return next(rule for rule in corpus("wrong.hnf") if rule.name == name)


@pytest.mark.parametrize("rule", corpus("exact.hnf"), ids=lambda r: r.name)
def test_what_is_published_as_exact_is_exact(rule: Rule) -> None:
    found = verdicts(rule)
    assert set(found) == ({"f16"} if rule.name == "widened_and_back" else set(FORMATS_JUDGED))
    for form, verdict in found.items():
        assert verdict.status is EXACT, str(verdict)
        assert not verdict.examples and verdict.differing == 0
        assert verdict.proved or (rule.name == "clamp_twice_by_bounds" and form in ("f64", "f32", "f8E4M3FN")), verdict.method
        assert ("no proof" in str(verdict)) != verdict.proved


# the statuses in f64, f32, f16, bf16, f8E4M3FN, f8E5M2
TABLE: dict[str, list[IeeeStatus]] = {
    "exp_product": [SAFER, LOSES, LOSES, SAFER, LOSES, LOSES],
    "exp_quotient": [LOSES, LOSES, LOSES, SAFER, LOSES, LOSES],
    "over_exp": [LOSES] * 6,
    "power_of_exp": [LOSES] * 6,
    "root_of_square": [SAFER] * 6,
    "over_root": [LOSES, SAFER, SAFER, LOSES, LOSES, LOSES],
    "over_quotient": [LOSES] * 6,
    "plus_zero": [UNLESS] * 6,
    "times_zero": [LOSES] * 6,
    "minus_itself": [LOSES] * 6,
    "times_condition": [LOSES] * 6,
    "condition_times": [LOSES] * 6,
    "absolute_by_strict_cases": [UNLESS] * 6,
    "narrowed_sum": [LOSES, LOSES, EXACT, LOSES, SAFER, SAFER],
    "third": [ROUNDS] * 6,
    "logsumexp_shifted": [LOSES, LOSES, LOSES, LOSES, SAFER, LOSES],
    "root_by_rsqrt": [SAFER] * 6,
}

EXCEPTIONS = {
    "plus_zero": ("signed zeros",),
    "absolute_by_strict_cases": ("signed zeros",),
    "times_zero": ("signed zeros", "NaNs", "infinities"),
    "minus_itself": ("NaNs", "infinities"),
    "times_condition": ("signed zeros", "NaNs", "infinities"),
    "condition_times": ("signed zeros", "NaNs", "infinities"),
}

AT_THE_EDGE = {
    "exp_product": {"f32", "f16", "f8E5M2"},
    "exp_quotient": {"f64", "f32", "f16", "f8E4M3FN", "f8E5M2"},
    "over_root": {"f64", "f32", "f16", "bf16", "f8E4M3FN", "f8E5M2"},
    "over_exp": {"f8E5M2"},
    "narrowed_sum": {"f8E5M2"},
}


@pytest.mark.parametrize("name", TABLE)
def test_what_is_published_as_wrong(name: str) -> None:
    found = verdicts(named(name))
    assert {form: found[form].status for form in FORMATS_JUDGED} == dict(zip(FORMATS_JUDGED, TABLE[name], strict=True))
    for form, verdict in found.items():
        has_infinity = BINARY[form].infinite
        assert verdict.exceptions == tuple(e for e in EXCEPTIONS.get(name, ()) if has_infinity or e != "infinities"), str(verdict)
        assert ("at the edge of overflow" in str(verdict)) == (form in AT_THE_EDGE.get(name, ())), str(verdict)
        wrong = {"loses", "swallows NaN", "inf to NaN", "loses digits"}
        kinds = {SAFER: {"gains"}, LOSES: wrong, ROUNDS: {"value"}, UNLESS: {"signed zero"}}
        if verdict.status in kinds:
            assert kinds[verdict.status] & verdict.examples.keys()
        assert verdict.status is LOSES or not wrong & verdict.examples.keys()


def test_every_rule_of_the_corpus_is_judged() -> None:
    assert {rule.name for rule in corpus("wrong.hnf")} == TABLE.keys() | {"integer_sum", "narrowed_and_back"}


INF, NAN = math.inf, math.nan

# "input: left and right" as published, with the format
PUBLISHED: list[tuple[str, str, dict[str, Any], float, float]] = [
    ("exp_product", "f32", {"a": 200, "b": -200}, NAN, 1),
    ("exp_quotient", "f32", {"a": 100, "b": 100}, NAN, 1),
    ("over_exp", "f32", {"a": 0, "b": -100}, 0, NAN),
    ("power_of_exp", "f32", {"a": 100, "b": 0.5}, INF, 5.1847055e21),
    ("root_of_square", "f32", {"x": "1e20"}, INF, "1e20"),
    ("over_quotient", "f32", {"a": "1e30", "b": "1e30", "c": "1e30"}, "1e30", INF),
    ("plus_zero", "f32", {"x": -0.0}, 0.0, -0.0),
    ("times_zero", "f32", {"x": INF}, NAN, 0),
    ("times_zero", "f32", {"x": NAN}, NAN, 0),
    ("minus_itself", "f32", {"x": INF}, NAN, 0),
    ("times_condition", "f32", {"p": False, "x": INF}, NAN, 0),
    ("integer_sum", "f16", {"a": -2059}, -12, -11),
    ("root_by_rsqrt", "f32", {"x": 0}, NAN, 0),
    ("narrowed_and_back", "f32", {"x": 70000}, INF, 70000),
]  # fmt: skip


@pytest.mark.parametrize(("name", "form", "inputs", "left", "right"), PUBLISHED)
def test_published_examples_replay(name: str, form: str, inputs: dict[str, Any], left: Any, right: Any) -> None:
    rule = named(name)
    exact = {k: v if isinstance(v, bool) else number(str(v), BINARY[form]) for k, v in inputs.items()}
    if name == "integer_sum":
        exact = {"a": np.int32(inputs["a"])}
    expected = [number(str(v), BINARY["f16" if name == "integer_sum" else form]) for v in (left, right)]
    types = {k: "i1" if isinstance(v, bool) else "si32" if isinstance(v, np.int32) else form for k, v in exact.items()}
    scalars = Scalars({k: v.item() if isinstance(v, np.int32) else v for k, v in exact.items()}, types, form)
    found = both_sides(rule, form, **exact)
    for value, side, want in zip(found, (rule.pattern, rule.replacement), expected, strict=True):
        again = scalars.value(side, form)
        assert all(same(x, want) for x in (float(value), again)), (value, again, want)


def same(x: float, y: float) -> bool:
    return (x == y and math.copysign(1, x) == math.copysign(1, y)) or (math.isnan(x) and math.isnan(y))


def test_a_logsumexp_without_a_guard_makes_nan_of_a_row_of_minus_infinity() -> None:
    rule = named("logsumexp_shifted")
    left, right = both_sides(rule, "f32", {"k": (-1,)}, x=np.full(3, -INF))
    assert left[0] == -INF and np.isnan(right[0])
    assert "inf" in verdicts(rule)["f32"].examples


def test_a_third_differs_by_one_unit_on_about_30_percent() -> None:
    for form, verdict in verdicts(named("third")).items():
        assert verdict.ulps == 1
        if form in ("f64", "f32", "f16", "bf16"):
            assert verdict.differing is not None and 0.25 < verdict.differing < 0.35


def test_a_quotient_by_a_root_has_other_bits_in_f64() -> None:
    assert verdicts(named("over_root"))["f64"].examples["value"]


def test_a_sum_of_integers_rounds_elsewhere_than_the_float() -> None:
    """The type of the result is the format, where no capture is of one."""
    (verdict,) = verdicts(named("integer_sum")).values()
    assert (verdict.format, verdict.status) == ("f16", ROUNDS)


def test_narrowing_loses_numbers_that_the_wide_format_has() -> None:
    (verdict,) = verdicts(named("narrowed_and_back")).values()
    assert (verdict.format, verdict.status, verdict.proved) == ("f32", SAFER, True)


@pytest.mark.parametrize("rule", corpus("movement.hnf"), ids=lambda r: r.name)
def test_movement_is_exact(rule: Rule) -> None:
    for verdict in verdicts(rule).values():
        assert verdict.status is EXACT, str(verdict)
        assert "no proof" in str(verdict)
