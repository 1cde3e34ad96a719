"""Formats whose target holds with a probability: runs keep it, a deep model gets an answer, and nothing is called proved."""

from __future__ import annotations

import copy

import pytest
import torch

from hnfc.core.errors import UsageError
from hnfc.precision.assignment import Assignment, Infeasible
from hnfc.precision.optimizer import PrecisionOptimizer
from tests.analysis.capturing import encoder
from tests.precision.test_certified import X, mlp


def test_runs_keep_the_bound_and_it_costs_less_than_a_proof() -> None:
    options = {"target_accuracy": 1e-2, "relative": False, "formats": ("bf16", "fp32")}
    found = PrecisionOptimizer(**options, probabilistic=True, probability=0.999).analyze(mlp(), X)
    proved = PrecisionOptimizer(**options, certified=True).analyze(mlp(), X)
    assert isinstance(found.outcome, Assignment) and isinstance(proved.outcome, Assignment)
    assert found.measured <= found.probable <= 1e-2 and found.proved is None and found.outcome.probability == 0.999
    assert "probabilistic: at most" in str(found) and "certified: at most" in str(proved)
    assert proved.probable is None and found.outcome.size <= proved.outcome.size
    mixed, wide, generator = found.apply(), copy.deepcopy(mlp()).double(), torch.Generator().manual_seed(4)
    for _ in range(30):
        x = torch.randn(X.shape, generator=generator)
        with torch.no_grad():
            assert (mixed(x).double() - wide(x.double())).square().mean().sqrt() <= found.probable


@pytest.mark.slow
def test_twelve_layers_of_a_transformer_get_an_answer() -> None:
    model, x = encoder(12, 16), torch.randn(1, 4, 16, generator=torch.Generator().manual_seed(1))
    found = PrecisionOptimizer(target_accuracy=1e-1, formats=("bf16", "fp32"), probabilistic=True).analyze(model, x)
    assert isinstance(found.outcome, Assignment)
    assert found.measured <= found.probable <= 1e-1
    assert {"bf16", "fp32"} >= set(found.outcome.formats.values())


def test_what_has_no_bound_is_refused_in_words_of_its_own() -> None:
    optimizer = PrecisionOptimizer(target_accuracy=1e-9, relative=False, formats=("bf16", "fp32"), probabilistic=True)
    refused = optimizer.analyze(mlp(), X).outcome
    assert isinstance(refused, Infeasible)
    assert not any("proved" in reason for reason in refused.reasons)


@pytest.mark.parametrize("wrong", [{"certified": True}, {"elementwise": True}, {"probability": 1.0}])
def test_options_that_do_not_go_together(wrong: dict[str, object]) -> None:
    with pytest.raises(UsageError, match="probab"):
        PrecisionOptimizer(probabilistic=True, **wrong).analyze(mlp(), X)  # type: ignore[arg-type]
