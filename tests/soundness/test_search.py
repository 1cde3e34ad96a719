"""The search for counterexamples where few points give the left side a value."""

from __future__ import annotations

import pytest

from hnfc.dsl.soundness import Status, prove, refute
from tests.soundness.reading import rule_of


def test_where_few_points_fit_most_are_near_those_that_do() -> None:
    """The left side has a value only where x is 0 throughout: at one point in ten, or fewer."""
    found = refute.search(rule_of("y / (1 + sqrt(-sum[k](x * x))) => y"), 5000)
    assert found.counterexample is None
    assert found.agreed == 5000 and found.tried < 4 * 5000 + refute.FIRST


@pytest.mark.slow
def test_points_near_others_break_rules_too() -> None:
    """Random fractions of 1024 fall into so small a range once in a few thousand points."""
    rule = rule_of("y / (1 + sqrt(-sum[k](x * x))) => where(y > 3.5 and y < 3.51, 0, y)")
    assert any(refute.search(rule, 5000, seed).counterexample is not None for seed in range(4))


def test_what_no_proof_can_be_tried_of_is_searched_for_longer() -> None:
    """The left side lacks an operation whose meaning is not known for tensors of any rank; few shapes have a type at all."""
    settings, again = "stride=const s, padding=const p, dilation=const d, groups=const r", "stride=s, padding=p, dilation=d, groups=r"
    rule = rule_of(f"conv(x, w, {settings}) * g => conv(x, w * unsqueeze[-1](g), {again}) where size[-4](w) = size[-3](g)")
    assert prove(rule).status is Status.REFUTED
