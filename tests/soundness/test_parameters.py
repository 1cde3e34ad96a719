"""Rules with parameters: proved for all values of theirs, refuted with one, and never proved where they are wrong."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from hnfc.dsl.rulebook import load_files, load_text
from hnfc.dsl.soundness import Status
from hnfc.dsl.soundness.judge import verdict
from hnfc.dsl.soundness.obligations import obligations
from hnfc.dsl.soundness.outcome import is_orthogonal
from hnfc.dsl.soundness.proof import Blocked
from hnfc.dsl.soundness.sampling import Sampler

HERE = Path(__file__).parent
PROVED = load_files([HERE / "parameters_proved.hnf"]).rules
WRONG = load_files([HERE / "parameters_wrong.hnf"]).rules
VACUOUS = {"w31", "w32", "w35"}
OPEN = {"w11", "w34", "v20", "v25"}
"""Wrong ones that nothing refutes: the prover leaves them open."""


@pytest.mark.parametrize("rule", PROVED, ids=lambda rule: rule.name)
def test_proved_for_all_values(rule):
    assert verdict(rule, advise=False).status is Status.PROVED


@pytest.mark.parametrize("rule", WRONG, ids=lambda rule: rule.name)
def test_wrong_ones_are_not_proved(rule):
    found = verdict(rule, advise=False)
    wanted = Status.VACUOUS if rule.name in VACUOUS else Status.UNKNOWN if rule.name in OPEN else Status.REFUTED
    assert found.status is wanted
    if found.status is Status.REFUTED:
        assert {name for name, _ in found.counterexample.inputs} >= set(rule.parameters), "a counterexample has the values of parameters"


def test_what_is_missing_is_a_condition_on_the_parameter():
    (rule,) = load_text("rule r relu(x) => relu(x * s) / s for s >= 0", "r.hnf").rules
    assert verdict(rule).help == "it holds with `where s != 0`"
    (rule,) = load_text("rule r softmax[k](x) => softmax[k](x - c) for c", "r.hnf").rules
    assert verdict(rule).help == "it holds with `where free[k](c)`"


def test_samples_of_orthogonal_matrices_are_orthogonal():
    rule = next(rule for rule in PROVED if rule.name == "g8")
    sampler = Sampler(rule, random.Random(0))
    drawn = [sampler.point().inputs[name] for _ in range(100) for name in ("g", "h")]
    assert all(map(is_orthogonal, drawn)) and len({matrix.shape for matrix in drawn}) > 2
    assert any(value.denominator > 1 for matrix in drawn for value in matrix.reshape(-1).tolist())
    assert not is_orthogonal(drawn[0][..., :1]) or drawn[0].shape[-1] == 1


def test_obligations_name_what_they_lack():
    with pytest.raises(Blocked, match="orthogonal"):
        obligations(next(rule for rule in PROVED if rule.name == "g5"))
    assert obligations(next(rule for rule in PROVED if rule.name == "g10"))
