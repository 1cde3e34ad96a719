"""Inputs that share memory, where the model writes in place."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import pytest
import torch

import hnfc


def softmax(x: torch.Tensor) -> torch.Tensor:
    e = torch.exp(x)
    return e / e.sum(-1, keepdim=True)


class Writes(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x.add_(1)
        return x, softmax(x) + y


def numbers(rows: int) -> torch.Tensor:
    return torch.randn(rows, 4, generator=torch.Generator().manual_seed(rows))


PAIRS: dict[str, Callable[[torch.Tensor], tuple[torch.Tensor, torch.Tensor]]] = {
    "the same": lambda z: (z[:3], z[:3]),
    "overlapping": lambda z: (z[:3], z[1:4]),
    "transposed": lambda z: (z[:4], z[:4].t()),
    "apart": lambda z: (z[:3], z[3:]),
}


@pytest.mark.sampled(6)
@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("sample", PAIRS)
def test_a_written_input_that_shares_memory_with_another(pair: str, sample: str) -> None:
    """The graph, which writes at its end, would read the other as it was before."""
    better = hnfc.optimize(Writes(), PAIRS[sample](numbers(6)))
    ours, theirs = numbers(6), numbers(6)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = better(*PAIRS[pair](ours))
    torch.testing.assert_close(found, Writes()(*PAIRS[pair](theirs)))
    assert torch.equal(ours, theirs)
    assert any("shares memory" in str(w.message) for w in caught) == (pair != "apart")


def test_a_written_input_that_is_returned_is_the_input() -> None:
    better, x = hnfc.optimize(Writes(), (numbers(3), numbers(3))), numbers(3)
    returned, _ = better(x, numbers(3))
    assert returned is x


def test_a_compiled_module_writes_to_an_input_that_is_given_twice() -> None:
    compiled = torch.compile(hnfc.optimize(Writes(), (numbers(3), numbers(3))), backend="eager")
    ours, theirs = numbers(3), numbers(3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = compiled(ours, ours)
    torch.testing.assert_close(found, Writes()(theirs, theirs))
