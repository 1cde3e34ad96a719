"""Scales, blocks, and numbers at the ends of ranges: what is stored is what was estimated, and no type is given what it cannot hold."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

from hnfc.formats.named import format_named
from hnfc.formats.scaled import exponent_for, split
from hnfc.formats.torch_rounding import stored_values
from hnfc.precision.assignment import Assignment
from hnfc.precision.optimizer import PrecisionOptimizer
from tests.precision.failing import normal


class Applied(nn.Module):
    def __init__(self, function: Callable[..., torch.Tensor], *parameters: torch.Tensor) -> None:
        super().__init__()
        self.function, self.parts = function, nn.ParameterList(parameters)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x, *self.parts)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("form", ["Q8_0", "MXFP4_E2M1", "NVFP4"])
@pytest.mark.parametrize("view", [lambda w: w.t(), lambda w: w.reshape(32, 128), lambda w: w[5:37]], ids=["turned", "reshaped", "cut"])
def test_a_view_is_of_the_blocks_that_are_stored(form: str, view: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """Rows of a hundred sizes: blocks along other elements would lose the small ones."""
    weight = normal(0, 64, 64) * torch.logspace(-2, 2, 64)[:, None]
    model = Applied(lambda x, w: x @ view(w), weight)
    x = torch.eye(view(weight).shape[0])
    found = PrecisionOptimizer(1e9, formats=(form,), pins={"input*": "fp32", "matmul*": "fp32"}).analyze(model, x)
    with torch.no_grad():
        assert torch.equal(found.apply()(x), view(stored_values(weight, format_named(form))))
    assert found.measured == pytest.approx(found.error, rel=0.6)


@pytest.mark.parametrize("function", [
    lambda x: torch.clamp(2 * x, -1e5, 1e5), lambda x: torch.nn.functional.hardtanh(x * x, -1e5, 1e5),
    lambda x: (2 * x).masked_fill(x > 100, -1e9), lambda x: torch.where(x > 100, 100000, x * x),
], ids=["clamp", "hardtanh", "fill", "whole"])  # fmt: skip
def test_a_number_that_a_type_cannot_hold_is_not_given_to_it(function: Callable[[torch.Tensor], torch.Tensor]) -> None:
    model, x = Applied(function), normal(0, 64)
    found = PrecisionOptimizer(1e-2, formats=("fp16", "fp32")).analyze(model, x)
    assert isinstance(found.outcome, Assignment)
    with torch.no_grad():
        assert (found.apply()(x) - model(x)).abs().max() < 2e-3 * model(x).abs().max()


@pytest.mark.parametrize(("size", "formats"), [(1e-36, ("fp16", "fp32")), (1e60, ("fp16", "fp64")), (1e60, ("fp8_e5m2", "fp32", "fp64"))])
def test_values_that_no_scale_reaches(size: float, formats: tuple[str, ...]) -> None:
    dtype = torch.float64 if "fp64" in formats else torch.float32
    model = Applied(lambda x, w: (x * w) / size, size * normal(0, 64)).to(dtype)
    found = PrecisionOptimizer(1e-3, formats=formats).analyze(model, normal(1, 64).to(dtype))
    assert isinstance(found.outcome, Assignment) and found.measured < 1e-3


def test_scales_are_numbers_of_float32() -> None:
    assert exponent_for(1e38, "fp16") == 0 and exponent_for(1e-37, "fp16") == -126 and exponent_for(1.0, "fp16") == -13


def test_a_scale_leaves_the_required_headroom() -> None:
    model, x = Applied(lambda x: torch.tanh(3e4 * x * 1e-5)), normal(0, 64)
    for headroom in (2.0, 8.0, 64.0):
        found = PrecisionOptimizer(1e-2, formats=("fp16",), headroom=headroom).analyze(model, x)
        assert isinstance(found.outcome, Assignment)
        assert max(split(form)[1] for form in found.get_precision_assignment().values()) > 0


def test_the_order_of_samples_does_not_decide() -> None:
    model, x = Applied(lambda x: torch.tanh(3e4 * x * 1e-5)), normal(0, 64)
    one, other = (PrecisionOptimizer(1e-2, formats=("fp16",)).analyze(model, *samples).outcome for samples in ((x, 10 * x), (10 * x, x)))
    assert isinstance(one, Assignment) and isinstance(other, Assignment) and one.formats == other.formats


def test_an_operation_of_somebody_else_that_asks_for_float32() -> None:
    @torch.library.custom_op("hnfc_tests::halved", mutates_args=())
    def halved(x: torch.Tensor) -> torch.Tensor:
        assert x.dtype == torch.float32, "only float32"
        return x / 2

    halved.register_fake(torch.empty_like)
    halved.register_autograd(lambda ctx, gradient: gradient / 2)
    model, x = Applied(lambda x: torch.ops.hnfc_tests.halved(2 * x)), normal(0, 64)
    found = PrecisionOptimizer(1e-2, formats=("fp16", "fp32"), least="bytes").analyze(model, x)
    assert set(found.get_precision_assignment().values()) == {"fp16"}
    assert (found.apply()(x) - x).abs().max() < 1e-2
