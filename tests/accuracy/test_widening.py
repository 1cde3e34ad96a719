"""Parts of a model in a wider type where digits are lost on the sample: found, small, and no worse anywhere."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch

import hnfc
from hnfc.accuracy.losses import beyond_chance
from hnfc.accuracy.searches import PartsWhereLost
from hnfc.accuracy.widening import comes_back
from hnfc.rewrite.conditions import Observations
from hnfc.rewrite.record import RewriteOutcome
from tests.graphs import Graph
from tests.pytorch.examples import Plain


def near(size: int = 6) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(size, 5, generator=generator)
    return x, x * (1 + 1e-5 * torch.randn(size, 5, generator=generator))


CASES: dict[str, tuple[Callable[..., torch.Tensor], Callable[[], tuple[torch.Tensor, ...]]]] = {
    "alignment": (lambda x, y: 1 - (x * y).sum(-1) / (x.square().sum(-1) * y.square().sum(-1)).sqrt(), near),
    "weighted variance": (
        lambda w, x: (w * x * x).sum(-1) - (w * x).sum(-1) ** 2,
        lambda: (torch.full((4, 8), 0.125), torch.randn(4, 8) * 0.01 + 900),
    ),
    "running denominator": (
        lambda x: torch.log(torch.cumsum(torch.exp(x - x.max()), -1)),
        lambda: (torch.tensor([-150.0, -120.0, -3.0, 0.0]),),
    ),
    "partition ratio": (
        lambda a, b, v, w: (v * a.exp() + w * b.exp()) / (a.exp() + b.exp()),
        lambda: tuple(torch.tensor(x) for x in ([95.0, -115.0], [94.0, -115.0], [1.0, 2.0], [3.0, 5.0])),
    ),
    "half sums": (lambda p, t: 2 * (p * t).sum() / (p.sum() + t.sum()), lambda: (torch.rand(300, 300).half(), torch.rand(300, 300).half())),
    "tail of a distribution": (lambda x: 0.5 - torch.atan(x) / math.pi, lambda: (torch.tensor([1e3, 1.0, 1e6]),)),
    # what overflows is the norms alone, and with only those wide the numerator would underflow on a probe
    "half correlation": (
        lambda x, y: (x * y).sum(-1) / ((x * x).sum(-1).sqrt() * (y * y).sum(-1).sqrt()),
        lambda: ((torch.rand(3, 64) * 100 + 50).half(), (torch.rand(3, 64) * 100 + 50).half()),
    ),
    "half angles": (
        lambda pos, step: torch.cos(pos[:, None] * step),
        lambda: (torch.tensor([3000.0, 9010.0]).bfloat16(), torch.tensor([1.0, 0.75, 0.3]).bfloat16()),
    ),
}


def optimized(name: str) -> tuple[torch.nn.Module, tuple[torch.Tensor, ...], torch.Tensor]:
    formula, inputs = CASES[name]
    torch.manual_seed(0)
    args = inputs()
    return hnfc.optimize(Plain(formula), args, ranges="sample"), args, formula(*(x.double() for x in args))


def error(found: torch.Tensor, truth: torch.Tensor) -> float:
    return float(((found.double() - truth).abs() / truth.abs()).nan_to_num(nan=float("inf")).max())


@pytest.mark.parametrize("name", CASES)
def test_digits_are_kept(name: str) -> None:
    better, args, truth = optimized(name)
    narrow = torch.finfo(args[0].dtype).eps
    assert error(CASES[name][0](*args), truth) > 16 * narrow
    assert error(better(*args), truth) < 8 * narrow
    assert better(*args).dtype == args[0].dtype


def test_other_sizes_are_wide_too() -> None:
    better, _, _ = optimized("alignment")
    args = near(9)
    formula = CASES["alignment"][0]
    assert error(better(*args), formula(*(x.double() for x in args))) < 1e-5
    assert error(better(*near(17)), formula(*(x.double() for x in near(17)))) < 1e-5


def test_gradients_are_those_of_the_wide_part() -> None:
    better, (x, y), _ = optimized("alignment")
    formula = CASES["alignment"][0]
    (got,) = torch.autograd.grad(better(x.requires_grad_(True), y).sum(), x)
    (want,) = torch.autograd.grad(formula(wide := x.detach().double().requires_grad_(True), y.double()).sum(), wide)
    assert float((got - want).abs().max() / want.abs().max()) < 1e-5


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_a_network_without_a_fault_stays_as_it_is(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)
    model = torch.nn.Sequential(layer, torch.nn.Linear(32, 8), torch.nn.GELU(), torch.nn.Linear(8, 3)).to(dtype).eval()
    x = torch.randn(3, 7, 32, dtype=dtype)
    assert torch.equal(hnfc.optimize(model, x)(x), model(x))


def test_a_number_does_not_become_nan_where_nothing_is_right() -> None:
    """Rounding made the cosine of two equal rows at most 1; in float64 it is beyond, and has no angle."""
    u = torch.nn.functional.normalize(torch.randn(64, 3, generator=torch.Generator().manual_seed(1)), dim=-1)
    better = hnfc.optimize(Plain(lambda u, v: torch.acos((u * v).sum(-1))), (u, u))
    assert not (better(u, u).isnan() & ~torch.acos((u * u).sum(-1)).isnan()).any()


def test_chance_is_no_loss() -> None:
    generator = torch.Generator().manual_seed(0)
    a, b = torch.randn(2, 100_000, generator=generator)
    lost = torch.log2(1 + ((a + b).double() - (a.double() + b.double())).abs() / (2.0**-24 * (a.double() + b.double()).abs()))
    assert beyond_chance(lost.numpy()) < 3


def test_only_what_needs_it_is_wide() -> None:
    g = Graph((4,), (4,))
    x, y = g.args
    before = g.tanh(g.mul(x, y))
    difference = g.sub(g.cos(x), g.cos(y))
    g.returns(g.mul(difference, before))
    sample = dict(zip(g.args, (torch.linspace(1, 2, 4).numpy(), torch.linspace(1, 2, 4).add(1e-6).numpy()), strict=True))
    outcome = RewriteOutcome()
    PartsWhereLost()(g.block, Observations([sample]), outcome, lambda op: op.name, ())
    wide = [op.name for op in g.block.ops if op.results and "f64" in str(op.results[0].type)]
    assert sorted(wide) == ["num.cast", "num.cast", "num.cos", "num.cos", "num.sub"]
    assert len(outcome.rewrites) == 1


def test_what_a_kernel_rounds_at_its_end_stays_wide_where_a_smaller_part_fails() -> None:
    """Norms are numbers of float16 on the sample, and no longer at 1e4: with products alone in float32 the cosine is 0 there."""
    model = Plain(lambda a, b: (a * b).sum(-1) / (a.norm(dim=-1) * b.norm(dim=-1) + 1e-8))
    g = torch.Generator().manual_seed(3)
    a, b = ((200 * torch.randn(3, 64, generator=g)).half() for _ in range(2))
    better = hnfc.optimize(model, (a, b))
    assert not model(a, b).isfinite().any()
    for scale in (1, 40):
        torch.testing.assert_close(better(scale * a, scale * b), model(a.double(), b.double()).half(), rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("narrow", ["f16", "bf16"])
@pytest.mark.parametrize("own", [True, False])
def test_the_rounding_of_a_model_is_its_own(own: bool, narrow: str) -> None:
    """A cast that rounds inputs of the narrow type again belongs to a kernel; one that rounds wider inputs is the model's."""
    g = Graph(("f32" if own else narrow, 4))
    wide = g.args[0] if own else g.cast(g.args[0], to="f32")
    rounded = g.cast(g.sqrt(g.square(wide)), to=narrow)
    g.returns(rounded)
    assert comes_back(rounded.owner, "f32") is not own
