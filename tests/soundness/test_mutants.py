"""No mutant of a right rule is proved unless thousands of evaluations in high precision agree.

The proof is taken here without the search beside it, so that a fault of the proof shows.
"""

from __future__ import annotations

import random

import pytest

from hnfc.dialects.facts import NoFormula
from hnfc.dsl.core import Rule
from hnfc.dsl.soundness import refute
from hnfc.dsl.soundness.limits import PROOF, Work
from hnfc.dsl.soundness.proof import Blocked, Proof
from hnfc.dsl.soundness.uninterpreted import abstracted
from tests.soundness.mutation import mutants
from tests.soundness.reading import corpus

RULES = corpus("proved.hnf")


def proves(rule: Rule, units: int = PROOF) -> bool:
    try:
        rule, _ = abstracted(rule)
        Proof(rule, Work(units)).run()
    except (Blocked, NoFormula):
        return False
    return True


def check(rule: Rule, what: str, samples: int) -> None:
    if proves(rule):
        found = refute.search(rule, samples, seed=99, bits=256)
        assert found.counterexample is None, f"{what} was proved, but {found.counterexample}"


@pytest.mark.sampled(8)
@pytest.mark.parametrize("rule", RULES[::3], ids=lambda r: r.name)
def test_some_mutants(rule: Rule) -> None:
    found = list(mutants(rule))
    for what, mutant in random.Random(rule.name).sample(found, min(2, len(found))):
        check(mutant, what, 300)


@pytest.mark.slow
@pytest.mark.parametrize("rule", RULES, ids=lambda r: r.name)
def test_all_mutants(rule: Rule) -> None:
    for what, mutant in mutants(rule):
        check(mutant, what, 2000)
