"""Rules that were published as sound are proved, and the witness meets their conditions."""

from __future__ import annotations

import pytest

from hnfc.dsl.soundness.checking import check
from tests.soundness.reading import corpus

RULES = {rule.name: rule for rule in corpus("published.hnf")}


@pytest.mark.sampled(20)
@pytest.mark.parametrize("name", RULES)
def test_is_proved(name: str) -> None:
    verdict = check(RULES[name])
    assert verdict.proved, verdict.reason
    assert verdict.samples and verdict.witness and verdict.steps
