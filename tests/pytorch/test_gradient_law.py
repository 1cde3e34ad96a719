"""Wrong gradients that a comparison of old and new has to see, and right ones in the place of no numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from hnfc.backend.fx import raise_function
from hnfc.frontend.pytorch import capture
from hnfc.pytorch.gradients import GradientTrial
from tests.exporting import FunctionModule

Function = Callable[[torch.Tensor], torch.Tensor]


def reasons(old: Function, new: Function, x: torch.Tensor) -> list[str]:
    captured = [capture(FunctionModule(function), (x,), {}) for function in (old, new)]
    before, after = (raise_function(each.module) for each in captured)
    return list(GradientTrial(before, after, [True], frozenset(), captured[0].module).regressions((x,), [None]))


def twice_where(condition: Callable[[torch.Tensor], Any], right: Function) -> Function:
    """The right values, with gradients that are twice too large under a condition."""
    return lambda x: torch.where(condition(x), 2 * right(x) - right(x).detach(), right(x))


def naive(x: torch.Tensor) -> torch.Tensor:
    return torch.log(torch.exp(x).sum())


def stable(x: torch.Tensor) -> torch.Tensor:
    return torch.logsumexp(x, 0)


X = torch.tensor([0.5, 1.5, -0.7, 2.0])
WRONG: dict[str, tuple[Function, Function]] = {
    "a root at 0": (torch.sqrt, lambda x: torch.sqrt(x.clamp(min=1e-45))),
    "a root at 0, summed": (lambda x: torch.sqrt(x).sum(), lambda x: torch.sqrt(x.clamp(min=1e-45)).sum()),
    "a power that overflows": (lambda x: 0.1 * (x * x) * (x * x), lambda x: 0.1 * (x * x).clamp(max=1.8e19) ** 2),
    "beside a large constant": (lambda x: torch.log(torch.exp(x)).sum() + 1e8, lambda x: (2 * x - x.detach()).sum() + 1e8),
    "a sum that overflows": (naive, twice_where(lambda x: x.max() > 80, stable)),
    "a sum at 0": (naive, twice_where(lambda x: x.abs().max() == 0, stable)),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_gradients_are_seen(name: str) -> None:
    old, new = WRONG[name]
    assert reasons(old, new, X)


RIGHT: dict[str, tuple[Function, Function]] = {
    "a sum that overflows": (naive, stable),
    "a softmax that overflows": (lambda x: torch.exp(x) / torch.exp(x).sum(), lambda x: torch.softmax(x, 0)),
    "an absolute value": (lambda x: torch.sqrt(x * x), torch.abs),
    "a logarithm of a product": (lambda x: torch.log(torch.prod(torch.exp(x))), torch.sum),
}


@pytest.mark.parametrize("name", RIGHT)
def test_no_numbers_may_become_right_ones(name: str) -> None:
    old, new = RIGHT[name]
    assert not reasons(old, new, X)
