"""Gradients pass through rounding to every format: unchanged, and 0 beyond the largest number of one that saturates."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from hnfc.dialects.formats import Block, Overflow
from hnfc.formats.named import format_named, known_formats
from hnfc.precision import PrecisionOptimizer, round_to
from hnfc.precision.cast_insertion import stored_in

FORMATS = [form.name for form in known_formats().formats()]
LACKING = ("Q8_0", "MXFP4_E2M1", "MXFP8_E4M3", "MXINT8", "NVFP4", "fp8_e4m3", "fp8_e5m2fnuz", "fp6_e3m2fn", "tf32")
"""Formats that torch does not store."""


def drawn(form: str) -> torch.Tensor:
    """Numbers within the range of a format and, last, two beyond it, as far as float64 has such."""
    stored = format_named(form)
    scale = min(1.0, stored.largest / 8)
    inside = np.random.default_rng(0).standard_normal(62) * scale
    return torch.tensor([*inside, min(stored.largest * 4, 1e300), max(stored.lowest * 4, -1e300)], dtype=torch.float64)


@pytest.mark.parametrize("form", FORMATS)
def test_values_and_gradients(form: str) -> None:
    stored, x = format_named(form), drawn(form).requires_grad_()
    y = stored_in(x, form)
    np.testing.assert_array_equal(y.detach().numpy(), round_to(x.detach().numpy(), stored))
    weights = torch.arange(1.0, 65.0, dtype=torch.float64)
    (gradient,) = torch.autograd.grad(y, x, weights)
    saturates = not isinstance(stored, Block) and stored.overflow is Overflow.SATURATE
    beyond = (x > stored.largest) | (x < stored.lowest)
    assert torch.equal(gradient, torch.where(beyond & saturates, 0.0, weights))


@pytest.mark.parametrize("form", [pytest.param(f, marks=[] if f in ("Q8_0", "fp8_e4m3") else pytest.mark.slow) for f in LACKING])
def test_gradients_of_an_applied_model(form: str) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 4))
    x = torch.randn(8, 32)
    mixed = PrecisionOptimizer(5.0, formats=(form,)).analyze(model, x).apply()
    mixed(x).square().sum().backward()
    got = [p.grad.clone() for p in mixed.parameters()]
    model.zero_grad()
    model(x).square().sum().backward()
    for found, parameter in zip(got, model.parameters(), strict=True):
        assert parameter.grad is not None
        similarity = nn.functional.cosine_similarity(found.flatten(), parameter.grad.flatten(), dim=0)
        assert similarity > 0.8


@pytest.mark.parametrize("form", ["Q8_0", "fp8_e4m3", "tf32"])
def test_other_ways_to_differentiate(form: str) -> None:
    x = torch.randn(4, 64, generator=torch.Generator().manual_seed(0)).requires_grad_()

    def energy(v: torch.Tensor) -> torch.Tensor:
        return stored_in(v, form).square().sum()

    (first,) = torch.autograd.grad(energy(x), x, create_graph=True)
    assert torch.equal(first, 2 * stored_in(x, form))
    (second,) = torch.autograd.grad(first.sum(), x)
    assert torch.equal(second, torch.full_like(x, 2.0))
    plain = x.detach()
    assert torch.equal(torch.func.jvp(lambda v: stored_in(v, form), (plain,), (torch.ones_like(plain),))[1], torch.ones_like(plain))
    assert torch.equal(torch.func.vmap(torch.func.grad(energy))(plain), first)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["Q8_0", "MXFP4_E2M1", "fp8_e4m3"])
def test_under_torch_compile(form: str) -> None:
    x = torch.randn(4, 64, generator=torch.Generator().manual_seed(0)).requires_grad_()
    expected = 2 * stored_in(x.detach(), form)
    torch.compile(lambda v: stored_in(v, form).square().sum())(x).backward()
    assert torch.equal(x.grad, expected)
