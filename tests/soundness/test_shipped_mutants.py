"""Every shipped rule, changed in one place: refuted, or proved and then confirmed by ten thousand evaluations in high precision."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable

import pytest

from hnfc.dsl.core import Rule
from hnfc.dsl.rulebook import shipped
from hnfc.dsl.soundness import refute
from hnfc.dsl.soundness.formats import explicit_roundings
from hnfc.dsl.soundness.judge import verdict
from hnfc.dsl.soundness.verdict import Status
from tests.soundness.mutation import mutants

RULES = shipped().rules
EVALUATIONS = 10_000
UNDECIDED: list[str] = []
FEW: list[str] = []
"""Those proved for which there were fewer evaluations, since few inputs give their left side a value."""

BITS = 256


def judged(changed: Iterable[tuple[str, Rule]], evaluations: int) -> Counter[str]:
    """How many mutants got which verdict; fails where one is proved that an evaluation breaks."""
    counts: Counter[str] = Counter()
    for what, mutant in changed:
        found = verdict(mutant, 60_000, advise=False)
        counts[found.status.value] += 1
        if found.status is Status.UNKNOWN:
            UNDECIDED.append(f"{mutant.name}: {found.reason[:100]}")
        if found.proved:
            search = refute.search(explicit_roundings(mutant), evaluations, seed=99, bits=BITS)
            assert search.counterexample is None, f"{mutant.name}: {what} was proved, but {search.counterexample}"
            assert search.agreed, f"{mutant.name}: {what} was proved, and no evaluation confirms it"
            counts["evaluations"] += search.agreed
            if search.agreed < evaluations:
                FEW.append(f"{mutant.name}: {search.agreed}")
    return counts


def told(counts: Counter[str]) -> str:
    return "\n".join((
        f"{counts.total() - counts['evaluations']} mutants of shipped rules: {counts['REFUTED']} refuted, {counts['PROVED']} proved and "
        f"confirmed by {counts['evaluations']} evaluations, {counts['VACUOUS']} of which it is proved that their left side has no value, "
        f"{counts['UNKNOWN']} not decided, none proved wrongly",
        *UNDECIDED,
    ))  # fmt: skip


def test_some_mutants_of_shipped_rules(record_property: object) -> None:
    counts: Counter[str] = Counter()
    for rule in RULES[::3]:
        counts += judged(random.Random(rule.name).sample(list(mutants(rule)), 1), 300)
    assert counts["REFUTED"] > 0.8 * (counts.total() - counts["evaluations"])
    record_property("shown", told(counts))  # type: ignore[operator]


@pytest.mark.slow
def test_all_mutants_of_shipped_rules(record_property: object) -> None:
    """A quarter of an hour."""
    UNDECIDED.clear()
    FEW.clear()
    counts: Counter[str] = Counter()
    for rule in RULES:
        counts += judged(mutants(rule), EVALUATIONS)
    assert not counts["UNKNOWN"], UNDECIDED
    assert not FEW
    record_property("shown", told(counts))  # type: ignore[operator]
