"""`ranges="sample"`, and inputs far outside: what needs no condition is no worse there, in values and gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import hnfc
from tests.pytorch.examples import Plain

SEEN = torch.ones(4, dtype=torch.bool)
SEEN[1] = False


def masked(x: torch.Tensor) -> torch.Tensor:
    e = torch.where(SEEN, torch.exp(x), 0.0)
    return e / e.sum(-1, keepdim=True)


POSITIVE = torch.tensor([0.5, 1.0, 2.0, 3.0])
FORMS: dict[str, tuple[Callable[..., torch.Tensor], tuple[torch.Tensor, ...], list[tuple[float, ...]]]] = {
    "inverse softplus": (lambda x: torch.log(torch.exp(x) - 1), (POSITIVE,), [(90.0,), (-3.0,), (20.0,)]),
    "masked softmax": (masked, (torch.tensor([[0.5, -1.0, 2.0, 0.1]]),), [(90.0,), (-90.0,)]),
    "quotients": (lambda x, y: x / y / (1 + y.abs()), (POSITIVE, POSITIVE + 1), [(1e20, 1e20), (1e20, 1.0), (1.0, 1e20)]),
}


@pytest.mark.parametrize("level", ["stability", "all"])
@pytest.mark.parametrize("name", FORMS)
def test_beyond_the_sample(name: str, level: str) -> None:
    function, sample, points = FORMS[name]
    better = hnfc.optimize(Plain(function), sample, level, ranges="sample")
    for point in points:
        found: list[Any] = []
        for module in (Plain(function), better):
            given = [torch.full_like(x, value).requires_grad_() for x, value in zip(sample, point, strict=True)]
            result = module(*given)
            found.append((result.detach(), *torch.autograd.grad((result * torch.arange(1.0, 5.0)).sum(), given)))
        for before, after in zip(*found, strict=True):
            kept = before.isfinite()
            torch.testing.assert_close(after[kept], before[kept])
            assert (after[~kept].isnan() | after[~kept].isinf() | (name == "masked softmax")).all()
