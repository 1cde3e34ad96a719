"""Probabilistic bounds: runs exceed them no more often than is stated, they stay near what runs show, and every output names the level."""

from __future__ import annotations

import copy
import json

import numpy as np
import pytest
import torch
from torch import nn

import hnfc
from hnfc.analysis.probabilistic import probable_error
from hnfc.core.errors import UsageError
from tests.analysis.capturing import captured, encoder, mlp
from tests.analysis.test_deep import chain


def bound_of(model: nn.Module, x: torch.Tensor, probability: float) -> float:
    imported, block, given = captured(model, x)
    arrays = {value: tensor.numpy() for value, tensor in zip(block.args, given, strict=True)}
    return probable_error(block, arrays, imported.weight, probability).errors[None]


def error(model: nn.Module, wide: nn.Module, x: torch.Tensor) -> float:
    with torch.no_grad():
        return float((model(x).double() - wide(x.double())).square().mean().sqrt())


def runs(model: nn.Module, x: torch.Tensor, count: int) -> list[float]:
    """Errors on inputs of which all bounds are alike: the roundings of each are others."""
    wide, generator = copy.deepcopy(model).double(), torch.Generator().manual_seed(5)
    return [error(model, wide, torch.randn(x.shape, generator=generator)) for _ in range(count)]


MODELS = {
    "chain": (lambda: chain(6, 64), (1, 64)),
    "deep": (lambda: chain(12, 96), (1, 96)),
    "relu": (lambda: chain(3, 40, nn.ReLU), (2, 40)),
    "one": (lambda: nn.Linear(300, 8), (3, 300)),
    "encoder": (lambda: encoder(2, 16), (1, 4, 16)),
}


@pytest.mark.parametrize("name", MODELS)
def test_few_runs_are_above_and_none_is_far_below(name: str, count: int = 200) -> None:
    make, shape = MODELS[name]
    torch.manual_seed(1)
    model, x = make().eval(), torch.randn(shape, generator=torch.Generator().manual_seed(2))
    bound, found = bound_of(model, x, 0.99), runs(model, x, count)
    assert np.mean(np.array(found) > bound) <= 0.01
    assert bound < 12 * max(found)


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_none_of_many_runs_is_above(name: str) -> None:
    test_few_runs_are_above_and_none_is_far_below(name, 10_000)


def test_stochastic_rounding_exceeds_it_no_more_often_than_stated() -> None:
    """Sums of products, each addition rounded up or down at random with mean 0: the model that the bound is about."""
    generator = np.random.default_rng(0)
    model = nn.Linear(64, 1, bias=False)
    x = torch.randn(1, 64, generator=torch.Generator().manual_seed(3))
    bound = bound_of(model, x, 0.9)
    terms = (x.double() * model.weight.double()).detach().numpy()[0]
    exceeded = 0
    for _ in range(400):
        total = 0.0
        for term in terms:
            total += term
            unit = float(np.spacing(np.float32(abs(total))))
            below = np.floor(total / unit)
            total = (below + (generator.random() < total / unit - below)) * unit
        exceeded += abs(total - terms.sum()) > 2 * bound  # rounding at random is off by up to a whole unit
    assert exceeded <= 40


def test_a_higher_probability_costs_more_and_a_chaotic_model_has_no_bound() -> None:
    model, x = mlp(), torch.randn(2, 8)
    assert bound_of(model, x, 0.9) < bound_of(model, x, 0.999999) < 4 * bound_of(model, x, 0.9)

    class Chaotic(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for _ in range(60):
                x = 3.9 * x * (1 - x)
            return x

    assert bound_of(Chaotic(), torch.rand(1, 4), 0.99) == np.inf


def test_the_level_is_named_everywhere(tmp_path, capsys: pytest.CaptureFixture[str]) -> None:
    model, x = mlp(), torch.randn(2, 8)
    by_level = {level: hnfc.analyze(model, x, bound=level) for level in ("certified", "probabilistic", "estimate")}
    for level, found in by_level.items():
        assert found.level == level == found.found.data()["level"]
        assert level in str(found) and level in repr(found)
    assert by_level["probabilistic"].found.probability == 0.99 and "independent" in str(by_level["probabilistic"])
    assert by_level["estimate"].error < by_level["probabilistic"].error < by_level["certified"].error
    assert json.loads(json.dumps(by_level["probabilistic"].found.data()))["assumption"]
    one = hnfc.analyze(model, x, bound="probabilistic", probability=0.999)
    assert hnfc.analyze(model, x, 2 * x, bound="probabilistic", probability=0.999).error > one.error


@pytest.mark.parametrize("wrong", [
    {"bound": "proved"}, {"bound": "estimate", "certified": True}, {"probability": 0.9}, {"bound": "probabilistic", "probability": 1.0},
    {"bound": "probabilistic", "width": 0.1}, {"bound": "probabilistic", "per": "element"},
])  # fmt: skip
def test_options_that_do_not_go_together(wrong: dict[str, object]) -> None:
    with pytest.raises(UsageError, match=r"bound|probability"):
        hnfc.analyze(mlp(), torch.ones(1, 8), **wrong)  # type: ignore[arg-type]
