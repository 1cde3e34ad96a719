"""Models with what is not usual: operations that torch has in float32 only, results that are no numbers, nothing at all."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

from hnfc.core.errors import ModelError
from hnfc.precision.assignment import Assignment
from hnfc.precision.optimizer import PrecisionAnalysis, PrecisionOptimizer
from tests.precision.failing import normal

Function = Callable[[torch.Tensor], torch.Tensor]


class Applied(nn.Module):
    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x)


def square(x: torch.Tensor) -> torch.Tensor:
    return x @ x.mT + torch.eye(x.shape[-1])


def error(found: PrecisionAnalysis, model: nn.Module, x: torch.Tensor) -> float:
    with torch.no_grad():
        true, away = model(x), found.apply()(x) - model(x)
    return float(away.square().mean().sqrt() / true.square().mean().sqrt())


@pytest.mark.parametrize("function", [
    lambda x: torch.fft.rfft(x).abs(), lambda x: torch.linalg.inv(square(x)), lambda x: torch.linalg.cholesky(square(x)) * 2,
], ids=["fft", "inverse", "cholesky"])  # fmt: skip
def test_what_torch_has_in_float32_only_is_done_in_float32(function: Function) -> None:
    """On the CPU; what is given to it and what it gives may be stored in less."""
    model = Applied(function)
    found = PrecisionOptimizer(1e-2, formats=("fp16", "bf16", "fp32"), headroom=1.0, least="bytes").analyze(model, normal(0, 3, 4, 4))
    assert isinstance(found.outcome, Assignment) and set(found.get_precision_assignment().values()) <= {"fp16", "bf16"}
    assert found.sites.lacking
    assert 0 < error(found, model, normal(0, 3, 4, 4)) < 1.1e-2


def test_no_results_to_be_off() -> None:
    with pytest.raises(ModelError, match="none of the results are floating-point numbers"):
        PrecisionOptimizer().analyze(Applied(lambda x: x.argmax(-1)), normal(0, 3, 4))


def test_results_that_are_nan_anyway() -> None:
    with pytest.raises(ModelError, match=r"NaN on the samples before .* from log \(.*test_unusual.py:\d+\) on; .*stability"):
        PrecisionOptimizer().analyze(Applied(lambda x: torch.log(x) * 2), normal(0, 3, 4))


def test_infinite_results_are_what_they_are() -> None:
    """The error is that of the finite ones, relative to these."""
    model, x = Applied(lambda x: torch.where(x > 0, x, -torch.inf)), normal(0, 64)
    found = PrecisionOptimizer(1e-3, formats=("bf16", "fp16", "fp32"), least="bytes").analyze(model, x)
    assert 0 < found.sites.rms < 2 and set(found.get_precision_assignment().values()) == {"fp16"}
    assert torch.equal(found.apply()(x).isinf(), x <= 0)


def test_no_elements() -> None:
    model = nn.Linear(4, 4)
    found = PrecisionOptimizer().analyze(model, torch.zeros(0, 4))
    assert isinstance(found.outcome, Assignment) and found.apply()(torch.zeros(0, 4)).shape == (0, 4)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_narrow_model_is_called_with_what_it_was_called_with(dtype: torch.dtype) -> None:
    model, x = nn.Linear(4, 4).to(dtype), normal(0, 8, 4).to(dtype)
    mixed = PrecisionOptimizer(1e-2, formats=("Q8_0", "fp32")).analyze(model, x).apply()
    with torch.no_grad():
        assert torch.equal(mixed(x), mixed(x.float()))
        assert (mixed(x) - model(x).float()).abs().max() < 3e-2


def test_a_narrow_model_is_left_without_hooks() -> None:
    model = nn.Linear(4, 4).half()
    model.register_forward_pre_hook(lambda module, args: None)
    found = PrecisionOptimizer(1e-2, formats=("fp16", "fp32")).analyze(model, normal(0, 8, 4).half())
    mixed = [found.apply() for _ in range(3)]
    assert [len(m._forward_pre_hooks) for m in (model, found.model, *mixed)] == [1, 1, 2, 2, 2]
    assert [len(m._forward_pre_hooks_with_kwargs) for m in (model, found.model, *mixed)] == [0, 0, 1, 1, 1]
    x = normal(1, 8, 4).half()
    assert torch.equal(mixed[0](x), mixed[2](x.float())) and found.model.weight.dtype == torch.float32


def test_integers_that_are_computed_from_numbers() -> None:
    model = Applied(lambda x: x * torch.cumsum(torch.histc(x, 4), 0, dtype=torch.int32)[:1])
    found = PrecisionOptimizer(1e-2, formats=("fp16", "fp32")).analyze(model, normal(0, 16))
    assert isinstance(found.outcome, Assignment) and error(found, model, normal(0, 16)) < 1e-2
