"""Real models: the error on inputs that no analysis was given is about what was estimated, of results and of gradients."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from hnfc.precision.assignment import Assignment
from hnfc.precision.optimizer import PrecisionOptimizer
from tests.models import FURTHER, MODELS, REAL
from tests.precision.trained import analyzed, apart, gradients

pytestmark = [pytest.mark.models, pytest.mark.filterwarnings("ignore")]

ALL = {**MODELS, **FURTHER, **REAL}
TARGET = 1e-2
UNTRAINED = ("mixtral",)
"""Tokens go to other experts on other inputs: a call takes another path."""

Tensors = tuple[torch.Tensor, ...]


def loaded(name: str) -> tuple[nn.Module, Tensors, Tensors]:
    """The model, its inputs, and others: the elements of the last axis by one place further, masks as they are."""
    pytest.importorskip("transformers")
    torch.manual_seed(0)
    model, inputs = ALL[name]()
    return model.eval(), inputs, tuple(x if x.unique().numel() <= 2 else x.roll(1, -1) for x in inputs)


def weighted(y: torch.Tensor) -> torch.Tensor:
    """A loss that no normalization makes constant."""
    return (y * torch.linspace(-1, 1, y.numel()).reshape(y.shape)).sum()


@pytest.mark.parametrize("formats", [("bf16", "fp16", "fp32"), ("Q8_0", "fp8_e4m3fn", "fp16", "fp32")], ids=["halves", "eighths"])
@pytest.mark.parametrize("name", ALL)
def test_results(name: str, formats: tuple[str, ...]) -> None:
    model, given, unseen = loaded(name)
    found = PrecisionOptimizer(TARGET, formats=formats, least="peak").analyze(model, given)
    assert isinstance(found.outcome, Assignment)
    with torch.no_grad():
        true = model(*unseen)
        error = float((found.apply()(*unseen) - true).square().mean().sqrt() / true.square().mean().sqrt())
    assert error < 2 * TARGET and found.error / 10 < error < 10 * found.error


@pytest.mark.parametrize("name", [name for name in ALL if name not in UNTRAINED])
def test_gradients(name: str) -> None:
    model, given, unseen = loaded(name)
    found = analyzed(model, given, weighted, target_accuracy=TARGET)
    assert isinstance(found.outcome, Assignment)
    true = gradients(model, weighted(model(*unseen)))
    errors = apart(gradients(model, found.apply()(*unseen)), true)
    told = [error for parameter, error in errors.items() if f"gradient of {parameter}" not in found.undetermined]
    error = math.sqrt(sum(e * e for e in told) / len(told))
    assert error < 2 * TARGET and found.error / 10 < error < 10 * found.error
