"""Almost right is not exact, and what was only searched does not pass for proved."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hnfc.dsl.ieee import FORMATS_JUDGED, IeeeStatus, ieee_verdicts
from hnfc.dsl.rulebook import shipped
from tests.ieee.reading import verdict_of

# differs at x = 1234 only, which no number in the rule gives away
ONE_VALUE = "where(x - 1000 == 234, x + 1, x) => 1 * x"


def test_one_value_of_65536_is_found() -> None:
    verdict = verdict_of(ONE_VALUE, "f16")
    assert (verdict.status, verdict.proved, verdict.ulps) == (IeeeStatus.ROUNDS, True, 1)
    assert str(verdict.examples["value"]) == "x = 1234: 1235 and 1234"
    assert verdict.differing is not None and round(verdict.differing * 63491) == 1


def test_one_value_of_all_is_found_by_z3_and_replayed() -> None:
    verdict = verdict_of(ONE_VALUE, "f32")
    assert verdict.status is IeeeStatus.ROUNDS
    assert str(verdict.examples["value"]) == "x = 1234: 1235 and 1234"


def test_what_nobody_finds_is_not_proved() -> None:
    """In f64 the search has no chance, and Z3 gives up."""
    verdict = verdict_of(ONE_VALUE, "f64")
    assert verdict.status is IeeeStatus.ROUNDS or (not verdict.proved and "no proof" in str(verdict))


def test_one_pair_of_65536_is_found() -> None:
    verdict = verdict_of("where((a - 3) * (a - 3) + (b - 5) * (b - 5) == 0, a + b + 1, a + b) => a + b", "f8E4M3FN")
    assert verdict.proved
    assert str(verdict.examples["value"]) == "a = 3, b = 5: 9 and 8"


def test_one_loss_is_found() -> None:
    verdict = verdict_of("1 * x => x / where(x - 1000 == 234, 0, 1)", "f16")
    assert (verdict.status, verdict.proved, verdict.edge) == (IeeeStatus.MAY_LOSE, True, 1234 / 65504)
    assert str(verdict.examples["loses"]) == "x = 1234: 1234 and inf"


def test_a_search_is_not_a_proof() -> None:
    verdict = verdict_of("sum[k](x) => sum[k](1 * x)", "f32")
    assert (verdict.status, verdict.proved) == (IeeeStatus.EXACT, False)
    assert "no proof" in str(verdict) and "no proof" in verdict.method


def test_a_pattern_that_replaces_itself_is_exact() -> None:
    """Both sides are the same expression, in every shipped rule: whatever differs is made by the evaluation."""
    for rule in shipped().rules[::4]:
        for verdict in ieee_verdicts(replace(rule, replacement=rule.pattern), ("f16", "f8E4M3FN")):
            assert verdict.status is IeeeStatus.EXACT, f"{rule.name}: {verdict}"


def test_conditions_are_honoured() -> None:
    assert verdict_of("sqrt(x) * sqrt(x) => abs(x)", "f16").status is IeeeStatus.MAY_LOSE
    assert verdict_of("sqrt(x) * sqrt(x) => abs(x) where x >= 0", "f16").status is IeeeStatus.ROUNDS
    assert verdict_of("abs(x) => 1 * x where x >= 0", "f16").exceptions == ("signed zeros",)
    assert verdict_of("abs(x) => 1 * x where x > 0", "f16").status is IeeeStatus.EXACT
    assert verdict_of("x - x => 0 where finite(x)", "f16").status is IeeeStatus.EXACT
    assert verdict_of("x - x => 0 where finite(x)", "f64").proved


def test_a_number_in_a_condition_is_exact() -> None:
    """0.1 lies between two numbers of f16: 0.09998 does not meet x >= 0.1."""
    left = "where(x == 0.09998, x + 1, x) => 1 * x"
    assert verdict_of(left, "f16").status is IeeeStatus.ROUNDS
    assert verdict_of(f"{left} where x >= 0.1", "f16").status is IeeeStatus.EXACT


def test_conditions_that_nothing_meets_leave_it_open() -> None:
    verdict = verdict_of("x - x => 0 where x > 1 and x < 0", "f16")
    assert verdict.status is IeeeStatus.UNKNOWN
    assert "no input" in verdict.method


@pytest.mark.parametrize("form", FORMATS_JUDGED)
def test_a_rule_that_may_be_read_both_ways_loses_where_either_reading_does(form: str) -> None:
    one_way, both = (verdict_of(f"sqrt(x * x) {arrow} abs(x)", form) for arrow in ("=>", "<=>"))
    assert (one_way.status, both.status) == (IeeeStatus.SAFER, IeeeStatus.MAY_LOSE)
    assert "gains" in both.examples


def test_losses_that_hang_on_single_elements_are_found() -> None:
    """Products that are 0 on the left are differences from a mean on the right, which overflow."""
    rule = shipped().named("covariance_two_pass")
    assert rule is not None
    for verdict in ieee_verdicts(rule, ("f64", "f32", "bf16")):
        assert verdict.status is IeeeStatus.MAY_LOSE, str(verdict)
        assert verdict.examples["loses"].is_finite
