"""Divergences of softmaxes, however written: of distributions that are near, and of some that are far apart."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

import hnfc
from tests.exporting import FunctionModule

Function = Callable[..., torch.Tensor]


def normalized(x: torch.Tensor) -> torch.Tensor:
    return torch.exp(x) / torch.exp(x).sum(-1, keepdim=True)


SPELLINGS: dict[str, Function] = {
    "one sum": lambda t, s: (F.softmax(t, -1) * (F.log_softmax(t, -1) - F.log_softmax(s, -1))).sum(-1),
    "two sums": lambda t, s: (F.softmax(t, -1) * F.log_softmax(t, -1)).sum(-1) - (F.softmax(t, -1) * F.log_softmax(s, -1)).sum(-1),
    "negated": lambda t, s: -(F.softmax(t, -1) * (F.log_softmax(s, -1) - F.log_softmax(t, -1))).sum(-1),
    "of a quotient": lambda t, s: (F.softmax(t, -1) * torch.log(F.softmax(t, -1) / F.softmax(s, -1))).sum(-1),
    "written out": lambda t, s: (normalized(t) * (torch.log(normalized(t)) - torch.log(normalized(s)))).sum(-1),
    "torch's own": lambda t, s: F.kl_div(F.log_softmax(s, -1), F.softmax(t, -1), reduction="none").sum(-1),
}


def right(t: torch.Tensor, s: torch.Tensor) -> torch.Tensor:
    gap = torch.log_softmax(s, -1) - torch.log_softmax(t, -1)
    terms = torch.where(gap > 1, s.softmax(-1) - t.softmax(-1) * (1 + gap), t.softmax(-1) * (torch.expm1(gap.clamp(max=1)) - gap))
    return terms.sum(-1)


@pytest.mark.parametrize("name", SPELLINGS)
def test_near_and_far(name: str) -> None:
    random = torch.Generator().manual_seed(5)
    t = torch.randn(3, 5, generator=random) * 3
    near = t + torch.randn(3, 5, generator=random) * 1e-3
    better = hnfc.optimize(FunctionModule(SPELLINGS[name]), (t, near))
    # at probabilities of 0 the gradient of torch's own is NaN
    for first, second in ((t, near), (near, t), (200 * t, -50 * t))[: 2 if name == "torch's own" else 3]:
        given = [x.clone().requires_grad_() for x in (first, second)]
        wide = [x.double().requires_grad_() for x in (first, second)]
        found, wanted = better(*given), right(*wide)
        torch.testing.assert_close(found.double(), wanted, rtol=2e-3, atol=0)
        for got, want in zip(torch.autograd.grad(found.sum(), given), torch.autograd.grad(wanted.sum(), wide), strict=True):
            torch.testing.assert_close(got.double(), want, rtol=1e-2, atol=1e-3 * float(want.abs().max()))


def bernoulli(p: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
    return p * torch.log(p / q) + (1 - p) * torch.log((1 - p) / (1 - q))


def jensen_shannon(p: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
    return 0.5 * (p * torch.log(2 * p / (p + q)) + q * torch.log(2 * q / (p + q))).sum(-1)


def test_certain_events() -> None:
    """A probability of 0 or 1 has a divergence, and a gradient by the other distribution."""
    better = hnfc.optimize(FunctionModule(bernoulli), (torch.tensor([0.3, 0.5, 0.9]), torch.tensor([0.4, 0.6, 0.2])))
    p, q = (torch.tensor(each, requires_grad=True) for each in ([0.0, 1.0, 0.5], [0.3, 0.4, 0.25]))
    found = better(p, q)
    wanted = torch.tensor([-torch.log(torch.tensor(0.7)), -torch.log(torch.tensor(0.4)), 0.5 * torch.log(torch.tensor(4 / 3))])
    torch.testing.assert_close(found, wanted)
    by_p, by_q = torch.autograd.grad(found.sum(), (p, q))
    torch.testing.assert_close(by_q, torch.tensor([1 / 0.7, -1 / 0.4, 0.5 / 0.75 - 0.5 / 0.25]))
    assert torch.isfinite(by_p).all()


def test_distributions_with_gaps() -> None:
    given = [torch.softmax(torch.randn(3, 4, generator=torch.Generator().manual_seed(seed)), -1) for seed in (0, 1)]
    better = hnfc.optimize(FunctionModule(jensen_shannon), tuple(given))
    p, q = (torch.tensor([each], requires_grad=True) for each in ([0.5, 0.5, 0.0, 0.0], [0.0, 0.5, 0.5, 0.0]))
    found = better(p, q)
    torch.testing.assert_close(found, torch.log(torch.tensor([2.0])) / 2)
    by_p, by_q = torch.autograd.grad(found.sum(), (p, q))
    assert torch.isfinite(by_p).all() and torch.isfinite(by_q).all()
    torch.testing.assert_close(by_p[0, :2], torch.tensor([0.5 * torch.log(torch.tensor(2.0)), 0.0]))
