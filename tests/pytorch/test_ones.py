"""Sizes of 1: an open graph answers where the model does the same, operation by operation; other calls are captured."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.export import Dim

import hnfc


def log_sum(x: torch.Tensor) -> torch.Tensor:
    return torch.log(torch.exp(x).sum(-1))


def in_place(x: torch.Tensor) -> torch.Tensor:
    y = x + 1
    y.relu_()
    y.mul_(2)
    return log_sum(y)


def branching(x: torch.Tensor) -> torch.Tensor:
    return 2 * log_sum(x) if x.shape[0] == 1 else log_sum(x)


def swapped(p: torch.Tensor, q: torch.Tensor, one: bool) -> tuple[torch.Tensor, torch.Tensor]:
    return (p, q) if one else (q, p)


class Form(torch.nn.Module):
    def __init__(self, function: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.function = function
        self.norm = torch.nn.BatchNorm1d(6)
        self.dropout = torch.nn.Dropout()
        self.first, self.second = torch.nn.Linear(6, 6), torch.nn.Linear(6, 6)
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        return self.function(self, *inputs)


SAME: dict[str, Callable[..., torch.Tensor]] = {
    "rows": lambda self, x: log_sum(x),
    "columns": lambda self, x: torch.sqrt((x * x).sum(0)),
    "the size itself": lambda self, x: log_sum(x) + x.shape[0],
    "another shape": lambda self, x: log_sum(x.reshape(-1, 3)).reshape(x.shape[0], -1),
    "in place": lambda self, x: in_place(x),
    "evaluated": lambda self, x: log_sum(self.dropout(self.norm(x))),
}
OTHER: dict[str, Callable[..., torch.Tensor]] = {
    "squeezed": lambda self, x: log_sum(x.squeeze()),
    "branching": lambda self, x: branching(x),
    "another layer": lambda self, x: log_sum(self.first(x) if x.shape[0] == 1 else self.second(x)),
    "swapped": lambda self, x: swapped(self.first(x), x * 2, x.shape[0] == 1),
    "detached": lambda self, x: self.first(x).detach() if x.shape[0] == 1 else self.first(x),
    "structure": lambda self, x: {"y": log_sum(x)} if x.shape[0] == 1 else {"y": log_sum(x), "z": x},
    "random": lambda self, x: log_sum(torch.nn.functional.dropout(x)),
}


def optimized(function: Callable[..., torch.Tensor], *inputs: torch.Tensor) -> tuple[torch.nn.Module, Any]:
    model = Form(function).eval()
    return model, hnfc.optimize(model, inputs, dynamic_shapes=(tuple({0: Dim.AUTO} for _ in inputs),))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", [*SAME, *OTHER])
def test_a_batch_of_one(name: str) -> None:
    model, better = optimized({**SAME, **OTHER}[name], torch.randn(4, 6))
    x = torch.randn(1, 6)
    torch.manual_seed(0)
    expected = model(x)
    torch.manual_seed(0)
    found = better(x)
    torch.testing.assert_close(found, expected)
    for a, b in zip(torch.utils._pytree.tree_leaves(found), torch.utils._pytree.tree_leaves(expected), strict=True):
        assert a.requires_grad == b.requires_grad
    assert len(better._hnfc.known) == (1 if name in SAME else 2)
    again = torch.randn(5, 6)
    torch.manual_seed(0)
    expected = model(again)
    torch.manual_seed(0)
    torch.testing.assert_close(better(again), expected)


def test_what_changes_for_one_changes_once() -> None:
    def counting(self: Form, x: torch.Tensor) -> torch.Tensor:
        if x.shape[0] == 1:
            self.seen.add_(1.0)
            x.mul_(2.0)
        return log_sum(x)

    model, better = optimized(counting, torch.randn(4, 6))
    x = torch.ones(1, 6)
    torch.testing.assert_close(better(x), log_sum(2 * torch.ones(1, 6)))
    assert torch.equal(x, torch.full((1, 6), 2.0)) and float(model.seen) == 1.0


def test_a_branch_on_one_and_on_another_size() -> None:
    def function(self: Form, x: torch.Tensor) -> torch.Tensor:
        return 2 * log_sum(x) if x.shape[0] == 1 and x.shape[1] > 10 else log_sum(x)

    model = Form(function).eval()
    better: Any = hnfc.optimize(model, torch.randn(4, 6), dynamic_shapes=(({0: Dim.AUTO, 1: Dim.AUTO},),))
    for tokens, graphs in ((6, 1), (7, 1), (20, 2), (6, 2)):
        x = torch.randn(1, tokens)
        torch.testing.assert_close(better(x), model(x))
        assert len(better._hnfc.known) == graphs


def test_one_is_broadcast_beside_another_size() -> None:
    model, better = optimized(lambda self, x, y: log_sum(x + y), torch.randn(4, 6), torch.randn(4, 6))
    for sizes, graphs in (((1, 1), 1), ((1, 3), 2), ((3, 1), 3)):
        given = tuple(torch.randn(size, 6) for size in sizes)
        torch.testing.assert_close(better(*given), model(*given))
        assert len(better._hnfc.known) == graphs


def test_it_stays_better_for_one() -> None:
    _, better = optimized(SAME["rows"], torch.randn(4, 6))
    assert better(torch.full((1, 6), 500.0)).isfinite().all()
    assert len(better._hnfc.known) == 1
