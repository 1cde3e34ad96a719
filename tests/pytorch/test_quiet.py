"""Warnings of torch about numbers that hnfc made up reach nobody."""

from __future__ import annotations

import warnings

import pytest
import torch

import hnfc


class Spread(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.var(-1) * torch.exp(x).sum(-1).log()


def test_a_variance_of_one_number_warns_as_the_original_does(capfd: pytest.CaptureFixture[str]) -> None:
    """torch prints to stderr itself where an operation is not called as a function of Python."""
    better = hnfc.optimize(Spread(), torch.randn(3, 4))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        better(torch.randn(3, 1))
    own = [w for w in caught if "degrees of freedom" in str(w.message)]
    assert len(own) == 1
    assert "degrees of freedom" not in capfd.readouterr().err
