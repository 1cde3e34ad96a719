"""Rules that were published as sound are proved, in the processes that `hnfc check` uses, and the witness meets their conditions."""

from __future__ import annotations

import pytest

from hnfc.dsl.soundness import Verdict, prove_all
from tests.soundness.reading import corpus

RULES = corpus("published.hnf")


@pytest.fixture(scope="module")
def verdicts() -> dict[str, Verdict]:
    return {rule.name: verdict for rule, verdict in zip(RULES, prove_all(RULES, jobs=2), strict=True)}


@pytest.mark.sampled(35)
@pytest.mark.parametrize("name", [rule.name for rule in RULES])
def test_is_proved(name: str, verdicts: dict[str, Verdict]) -> None:
    verdict = verdicts[name]
    assert verdict.proved, verdict.reason
    assert verdict.samples and verdict.witness and verdict.steps
