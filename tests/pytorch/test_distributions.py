"""Modules with torch.distributions inside, whose checks of arguments no graph holds; tails of the normal distribution in every spelling."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import distributions

import hnfc
from hnfc.core.errors import ModelError
from tests.pytorch.examples import Plain

NORMAL = distributions.Normal(0.0, 1.0)
TAILS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "logarithm of cdf": (lambda x: torch.log(NORMAL.cdf(x)), torch.special.log_ndtr),
    "complement of cdf": (lambda x: 1 - NORMAL.cdf(-x), lambda x: torch.special.erfc(-x / math.sqrt(2)) / 2),
    "complement of ndtr": (lambda x: 1 - torch.special.ndtr(-x), lambda x: torch.special.erfc(-x / math.sqrt(2)) / 2),
    "inverse Mills ratio": (
        lambda x: torch.exp(-x * x / 2) / math.sqrt(2 * math.pi) / (0.5 * (1 + torch.erf(x / math.sqrt(2)))),
        lambda x: math.sqrt(2 / math.pi) / torch.special.erfcx(-x / math.sqrt(2)),
    ),
    "hazard": (
        lambda x: torch.exp(NORMAL.log_prob(x)) / (1 - NORMAL.cdf(-x)),
        lambda x: math.sqrt(2 / math.pi) / torch.special.erfcx(-x / math.sqrt(2)),
    ),
    "scaled erfc": (lambda x: torch.exp(x * x) * torch.erfc(-x), lambda x: torch.special.erfcx(-x)),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", TAILS)
def test_tails_of_the_normal_distribution(name: str) -> None:
    function, stable = TAILS[name]
    x = torch.tensor([-30.0, -12.0, -6.6, -1.0, 0.5, 3.0])
    better = hnfc.optimize(Plain(function), x)
    given, wide = x.clone().requires_grad_(), x.double().requires_grad_()
    found, true = better(given), stable(wide)
    torch.testing.assert_close(found.double(), true, rtol=2e-5, atol=1e-38)
    narrow, exact = torch.autograd.grad(found.sum(), given)[0].double(), torch.autograd.grad(true.sum(), wide)[0]
    torch.testing.assert_close(narrow, exact, rtol=2e-4, atol=1e-37)


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Distributions check their arguments, as they do until something runs under torch.compile."""
    monkeypatch.setattr(distributions.Distribution, "_validate_args", True)


@pytest.mark.usefixtures("checked")
def test_arguments_are_not_checked_and_the_report_says_so() -> None:
    model = Plain(lambda x, s: distributions.Normal(x, s).log_prob(0 * x))
    x, s = torch.randn(3), torch.rand(3) + 0.5
    better = hnfc.optimize(model, (x, s))
    torch.testing.assert_close(better(x, s), model(x, s))
    assert "arguments of torch.distributions are not checked" in str(hnfc.diff(model, better))
    assert better(x, -s).isnan().all()
    with pytest.raises(ValueError, match="constraint"):
        model(x, -s)


def test_checks_that_were_chosen_are_a_reason_to_refuse() -> None:
    model = Plain(lambda x: distributions.Normal(x, x.abs(), validate_args=True).log_prob(x))
    with pytest.raises(ModelError, match="validate_args=True"):
        hnfc.optimize(model, torch.randn(3))
