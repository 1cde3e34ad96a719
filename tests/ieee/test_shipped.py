"""Every rule has a verdict in every format: no fault, nothing left open without a reason."""

from __future__ import annotations

import pytest

from hnfc.dsl.ieee import FORMATS_JUDGED, IeeeStatus, ieee_all, ieee_verdicts
from hnfc.dsl.rulebook import shipped
from tests.soundness.reading import corpus as soundness_corpus


def test_shipped_rules_have_verdicts() -> None:
    for rule in shipped().rules[::3]:
        for verdict in ieee_verdicts(rule, ("f8E5M2",)):
            assert verdict.status is not IeeeStatus.UNKNOWN, f"{rule.name}: {verdict}"


@pytest.mark.slow
def test_all_shipped_rules_in_all_formats() -> None:
    """And quickly: a quarter of a second for a rule on an idle core; a test allows for a busy one."""
    rules = shipped().rules
    found = ieee_all(rules)
    for rule, verdicts in zip(rules, found, strict=True):
        for verdict in verdicts:
            assert verdict.status is not IeeeStatus.UNKNOWN, f"{rule.name}: {verdict}"
    assert sum(v.seconds for verdicts in found for v in verdicts) / len(rules) < 1


@pytest.mark.slow
@pytest.mark.parametrize("name", ["proved.hnf", "refuted.hnf"])
def test_rules_of_the_prover_have_verdicts(name: str) -> None:
    rules = soundness_corpus(name)
    for rule, verdicts in zip(rules, ieee_all(rules), strict=True):
        for verdict in verdicts:
            assert verdict.format in FORMATS_JUDGED
            assert verdict.method and "prover failed" not in verdict.method, f"{rule.name}: {verdict}"
            assert str(verdict)
