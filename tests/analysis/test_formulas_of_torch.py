"""Composite operations are bounded by the formula of torch's kernel, not by another one that is equal over the reals."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import hnfc

FORMULAS: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "lerp towards the start": lambda x, y: torch.lerp(x, y, 0.3),
    "lerp towards the end": lambda x, y: torch.lerp(x, y, 0.99999),
    "lerp beyond the start": lambda x, y: torch.lerp(x, y, -2.3),
    "lerp by a tensor": lambda x, y: torch.lerp(x, y, x),
    "ndtr": lambda x, y: torch.special.ndtr(x),
}


class Formula(torch.nn.Module):
    def __init__(self, function: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return self.function(x, y)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", FORMULAS)
def test_the_bound_holds_for_the_kernel(name: str, dtype: torch.dtype) -> None:
    generator, model = torch.Generator().manual_seed(1), Formula(FORMULAS[name])
    for shape in ((1, 1), (3, 40)):
        x, y = ((torch.randn(shape, generator=generator) * scale).to(dtype) for scale in (2, 100))
        (found,) = hnfc.analyze(model, (x, y), bound="certified", per="element").found.outputs
        error = (model(x, y).double() - model(x.double(), y.double())).abs()
        assert (error <= torch.as_tensor(found.errors) + 1e-13 * error.max()).all()


def test_the_end_of_an_interpolation_is_met() -> None:
    """x + (y - x) is 0 here."""
    model = Formula(lambda x, y: torch.log(torch.exp(torch.lerp(x, y, 1.0))))
    x, y = torch.tensor([1e8]), torch.tensor([1.0])
    assert hnfc.optimize(model, (x, y))(x, y) == 1
