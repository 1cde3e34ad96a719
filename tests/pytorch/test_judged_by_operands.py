"""Rewrites whose operands have no digit left: a softmax of scores that cancelled is right for these scores, and a NaN may become that."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

import hnfc
from hnfc.dialects.types import FORMATS
from hnfc.pytorch.kept_values import WithKept
from hnfc.validation.differential import Trial
from tests.pytorch.examples import Plain

Function = Callable[..., torch.Tensor]


def weighted(kernel: Function) -> Function:
    return lambda x, q, y: (torch.exp(kernel(x, q)) * y).sum(-1) / torch.exp(kernel(x, q)).sum(-1)


KERNELS: dict[str, Function] = {
    "square": lambda x, q: -((q[:, None] - x[None]) ** 2) / 2 / 0.01,
    "absolute": lambda x, q: -(100 * q[:, None] - x[None]).abs(),
}
SMOOTHERS: dict[str, Function] = {
    **{name: weighted(kernel) for name, kernel in KERNELS.items()},
    "product": lambda x, q, y: torch.exp(KERNELS["square"](x, q)) @ y / torch.exp(KERNELS["square"](x, q)).sum(-1),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", SMOOTHERS)
def test_a_kernel_far_from_its_points(name: str) -> None:
    """exp of all scores is 0; on probes the scores themselves have no digit."""
    generator = torch.Generator().manual_seed(3)
    x, q, y = torch.randn(6, generator=generator), torch.randn(4, generator=generator) + 5, torch.randn(6, generator=generator)
    kernel = KERNELS["absolute" if name == "absolute" else "square"]
    model = Plain(SMOOTHERS[name])
    better = hnfc.optimize(model, (x, q, y))
    assert model(x, q, y).isnan().all()
    wide = [tensor.double().requires_grad_() for tensor in (x, q, y)]
    truth = torch.softmax(kernel(*wide[:2]), -1) @ wide[2]
    given = [tensor.clone().requires_grad_() for tensor in (x, q, y)]
    found = better(*given)
    torch.testing.assert_close(found.double(), truth, rtol=1e-4, atol=1e-6)
    (of_values,) = torch.autograd.grad(found.sum(), given[2])
    torch.testing.assert_close(of_values.double(), torch.autograd.grad(truth.sum(), wide[2])[0], rtol=1e-4, atol=1e-6)


def test_a_factor_that_is_zero_by_chance_keeps_its_gradient() -> None:
    def expectation(s: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return (torch.exp(-s * s / 2) * y).sum(-1) / torch.exp(-s * s / 2).sum(-1)

    better = hnfc.optimize(Plain(expectation), (30 * torch.ones(2, 4), torch.arange(4.0)))
    y = torch.tensor([90.0, 0.0, 0.0, 0.0], requires_grad=True)
    s = torch.tensor([[90.0, 0.0, 0.0, 0.0]])
    (found,) = torch.autograd.grad(better(s, y).sum(), y)
    torch.testing.assert_close(found, torch.softmax(-s[0] * s[0] / 2, -1))


def test_a_mask_of_numbers_hides_what_overflows() -> None:
    mask, x = torch.tensor([[0.0, 1.0, 1.0]]), torch.tensor([[200.0, 1.0, 2.0]])
    better = hnfc.optimize(Plain(lambda x, m: torch.log((m * torch.exp(x)).sum(-1))), (x, mask))
    torch.testing.assert_close(better(x, mask), torch.logsumexp(x[:, 1:], -1))


def test_a_nan_of_the_sample_never_becomes_a_wrong_number() -> None:
    nan, right, wrong = (np.array([value]) for value in (np.nan, 3.0, 7.0))
    trial = Trial("f", [[right]], [FORMATS["f64"]], [[right]], old=[[nan]], new=[[wrong]])
    assert list(trial.regressions()) == [(0, "on a sample nan became 7, and 3 is right")]
    trial.from_kept = lambda place: [(wrong, np.array([0.0]))]
    assert not list(trial.regressions())


def test_a_gradient_from_what_was_computed_before() -> None:
    def graph(function: Callable[[torch.fx.Graph, torch.fx.Node], torch.fx.Node]) -> torch.fx.GraphModule:
        made = torch.fx.Graph()
        x, y = made.placeholder("x"), made.placeholder("y")
        made.output((function(made, made.call_function(torch.ops.aten.sub.Tensor, (x, y))),))
        return torch.fx.GraphModule(torch.nn.Module(), made)

    def other(graph: torch.fx.Graph, difference: torch.fx.Node) -> torch.fx.Node:
        return graph.call_function(torch.ops.aten.mul.Scalar, (difference, 1.0))

    before = graph(lambda graph, difference: graph.call_function(torch.ops.aten.exp.default, (difference,)))
    kept = WithKept(before, graph(other), graph(other))
    x, y = torch.tensor([2.0**30 + 128]), torch.tensor([1.0])
    kept.record([x, y])
    doubled = [x.double().requires_grad_(), y.double()]
    (result,) = kept(*doubled)
    assert result == (x - y).double() and result != doubled[0] - doubled[1]
    assert torch.autograd.grad(result, doubled[0])[0] == 1
