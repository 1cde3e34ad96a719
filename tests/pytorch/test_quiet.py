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


class Logistic(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)
        self.norm = torch.nn.BatchNorm1d(3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.log(1 + torch.exp(self.norm(self.linear(x))))


@pytest.mark.parametrize("called", [0, 1, 2])
@pytest.mark.parametrize("training", [False, True])
def test_a_trace_warns_of_nothing_in_hnfc(called: int, training: bool) -> None:
    better = hnfc.optimize(Logistic().train(training), torch.randn(4, 3))
    for size in (4, 6)[:called]:
        better(torch.randn(size, 3))
    x = torch.randn(6, 3)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        traced = torch.jit.trace(better, x, check_trace=False)
    assert not [w for w in caught if "hnfc" in w.filename or "hnfc" in str(w.message)]
    torch.testing.assert_close(traced(100 * x), better(100 * x))
