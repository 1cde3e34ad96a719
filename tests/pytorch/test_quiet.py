"""Warnings of torch and NumPy about numbers that hnfc made up reach nobody."""

from __future__ import annotations

import os
import warnings

import pytest
import torch

import hnfc


class Spread(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.var(-1) * torch.exp(x).sum(-1).log()


class Factored(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        return torch.log(torch.exp(x * z) + torch.exp(y * z))


def test_a_variance_of_one_number_warns_as_the_original_does(capfd: pytest.CaptureFixture[str]) -> None:
    """torch prints to stderr itself where an operation is not called as a function of Python."""
    better = hnfc.optimize(Spread(), torch.randn(3, 4))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        better(torch.randn(3, 1))
    own = [w for w in caught if "degrees of freedom" in str(w.message)]
    assert len(own) == 1
    assert "degrees of freedom" not in capfd.readouterr().err


def test_probes_next_to_the_largest_float64(capfd: pytest.CaptureFixture[str]) -> None:
    x = torch.tensor([0.3, 0.7, 0.2], dtype=torch.float64)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        hnfc.optimize(Factored(), (x, x.flip(0), x + 1), group="all")
    assert not [w for w in caught if os.path.join("hnfc", "") in w.filename and w.category is RuntimeWarning]
    assert not capfd.readouterr().err
