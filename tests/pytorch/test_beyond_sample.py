"""`ranges="sample"`, and inputs far outside: what needs no condition is no worse there, in values and gradients."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
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


@pytest.mark.sampled(3)
@pytest.mark.parametrize("level", ["stability", "all"])
@pytest.mark.parametrize("name", FORMS)
def test_beyond_the_sample(name: str, level: str) -> None:
    function, sample, points = FORMS[name]
    better = hnfc.optimize(Plain(function), sample, level, ranges="sample")
    for point in points:
        found: list[Any] = []
        for module, kind in ((Plain(function), torch.float32), (better, torch.float32), (Plain(function), torch.float64)):
            given = [torch.full_like(x, value, dtype=kind).requires_grad_() for x, value in zip(sample, point, strict=True)]
            result = module(*given)
            found.append((result.detach(), *torch.autograd.grad((result * torch.arange(1.0, 5.0)).sum(), given)))
        for before, after, wide in zip(*found, strict=True):
            kept, mended = before.isfinite(), ~before.isfinite() & after.isfinite()
            torch.testing.assert_close(after[kept], before[kept])
            torch.testing.assert_close(after[mended], wide[mended].float())


LATER: dict[str, tuple[Callable[..., torch.Tensor], Callable[..., torch.Tensor], float]] = {
    "mean of exponentials": (
        lambda x: torch.log(torch.exp(5 * x).mean(-1)) / 5, lambda x: (torch.logsumexp(5 * x, -1) - math.log(6)) / 5, 40.0,
    ),
    "one more class": (
        lambda x: torch.exp(x) / (1 + torch.exp(x).sum(-1, keepdim=True)),
        lambda x: torch.softmax(torch.cat([x, torch.zeros(3, 1, dtype=x.dtype)], -1), -1)[:, :-1],
        90.0,
    ),
    "mean of a high power": (lambda x: (x.abs() ** 9).mean(-1) ** (1 / 9), lambda x: (x.abs() ** 9).mean(-1) ** (1 / 9), 1e5),
    "expectation": (lambda x: (x * torch.exp(x)).sum(-1) / torch.exp(x).sum(-1), lambda x: (x * torch.softmax(x, -1)).sum(-1), 200.0),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("ranges", ["sample", None])
@pytest.mark.parametrize("name", LATER)
def test_what_the_sample_does_not_show(name: str, ranges: Any) -> None:
    """A sample on which nothing is lost, and later inputs that are larger."""
    function, stable, scale = LATER[name]
    sample = torch.randn(3, 6, generator=torch.Generator().manual_seed(4))
    better = hnfc.optimize(Plain(function), sample, ranges=ranges)
    later = scale * torch.randn(3, 6, generator=torch.Generator().manual_seed(5))
    assert not function(later).isfinite().all()
    torch.testing.assert_close(better(later).double(), stable(later.double()), rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(better(sample), function(sample), rtol=1e-5, atol=1e-7)


def test_what_is_stable_at_every_size_stays() -> None:
    torch.manual_seed(0)
    model, x = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True).eval(), torch.randn(2, 5, 16)
    assert torch.equal(hnfc.optimize(model, x)(x), model(x))


@pytest.mark.parametrize("seed", range(3))
def test_small_elements_may_err_as_rounded_inputs_do(seed: int) -> None:
    """Just below the overflow the written form has more digits of its smallest elements: those that the inputs do not have."""
    x = torch.rand(4, 7, generator=torch.Generator().manual_seed(seed)) * 140 - 60
    better = hnfc.optimize(Plain(lambda x: torch.exp(x) / torch.exp(x).sum(-1, keepdim=True)), x)
    torch.testing.assert_close(better(2 * x).double(), torch.softmax(2 * x.double(), -1), rtol=1e-4, atol=1e-30)


def test_what_is_ill_conditioned_stays() -> None:
    """sin of a large number has few digits in any form: no part of such a model becomes wide for inputs that are larger than the sample."""
    torch.manual_seed(0)
    first, last = torch.nn.Linear(2, 8), torch.nn.Linear(8, 1)
    model = torch.nn.Sequential(first, Plain(lambda x: torch.sin(30 * x)), last)
    x = torch.rand(5, 2)
    assert torch.equal(hnfc.optimize(model, x)(x), model(x))


class Probability(torch.nn.Module):
    """Softmax of a vector as it is written down, of which one class is wanted."""

    def forward(self, x):
        e = torch.exp(x)
        return (e / e.sum())[2]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_one_element_may_lose_what_all_of_them_may(dtype):
    x = torch.tensor([0.5, -1.0, 1.5, 0.25], dtype=dtype)
    better = hnfc.optimize(Probability(), x)
    assert not torch.isfinite(Probability()(1000 * x)) and better(1000 * x) == 1


def test_an_infinite_result_on_the_sample_stays(tmp_path: Path) -> None:
    """A call of another size is captured with its own inputs as the sample."""
    path = tmp_path / "own.hnf"
    path.write_text("rule own\n    log(exp(x) + exp(y)) => max(x, y) + log1p(exp(-abs(x - y)))\n", encoding="utf-8")
    model, x = Plain(lambda x, y: torch.log(torch.exp(x) + torch.exp(y))), torch.linspace(0.1, 0.9, 6)
    better = hnfc.optimize(model, (x, x.flip(0)), group=str(path))
    infinite = torch.tensor([torch.inf, -torch.inf]).repeat(10)
    assert torch.equal(better(infinite, infinite), infinite)


@pytest.mark.parametrize("search", ["greedy", "egraph"])
@pytest.mark.parametrize("name", ["value", "quotient"])
def test_a_search_gives_no_number_outside_of_a_domain(name: str, search: str) -> None:
    """An argument itself may be what stands for the result in the end."""
    form = {"value": lambda x, y: torch.exp(torch.log(x)) + 0 * y, "quotient": lambda x, y: torch.exp(torch.log(x) - torch.log(y))}[name]
    model, x, y = Plain(form), torch.tensor([1.0, 2.0, 0.5]), torch.tensor([3.0, 0.25, 2.0])
    better = hnfc.optimize(model, (x, y), group="all", search=search)
    torch.testing.assert_close(better(x, y), model(x, y))
    assert better(-x, -y).isnan().all()


def test_an_argument_in_the_place_of_the_result_is_a_rewrite() -> None:
    model, x = Plain(lambda x: torch.exp(torch.log(x))), torch.tensor([1.0, 2.0])
    better = hnfc.optimize(model, x, group="all", search="egraph", ranges={"inputs_0": (0.5, 4.0)})
    assert "exp_of_log" in str(hnfc.diff(model, better)) and torch.equal(better(x), x)
