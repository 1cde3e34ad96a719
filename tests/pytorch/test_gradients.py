"""Gradients of rewritten modules: where torch's own backward loses digits, at kinks, at 0, and of branches that are not taken."""

from __future__ import annotations

import math
import pickle
from typing import Any

import pytest
import torch
from torch import nn

import hnfc
from hnfc.backend import functions


class Function(nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.function(*inputs)


def gradient(module: nn.Module, x: torch.Tensor) -> torch.Tensor:
    given = x.clone().requires_grad_()
    return torch.autograd.grad(module(given).sum(), given)[0]


TAIL = math.exp(-20) / (1 + math.exp(-20)) ** 2
CASES = {
    "expm1": (lambda x: torch.exp(x) - 1, -20.0, math.exp(-20)),
    "sigmoid": (lambda x: 1 / (1 + torch.exp(-x)), 20.0, TAIL),
    "tanh": (lambda x: (torch.exp(2 * x) - 1) / (torch.exp(2 * x) + 1), -10.0, 4 * TAIL),
    "complement": (lambda x: 1 - torch.sigmoid(x), -20.0, -TAIL),
    "elu": (lambda x: torch.where(x > 0, x, torch.exp(x) - 1), -17.0, math.exp(-17)),
    "elu_far_out": (lambda x: torch.where(x > 0, x, torch.exp(x) - 1), 100.0, 1.0),
    "log_sigmoid": (lambda x: torch.log(torch.sigmoid(x)), 0.0, 0.5),
    "bernoulli": (lambda x: 0.3 * torch.log(torch.sigmoid(x)) + 0.7 * torch.log(1 - torch.sigmoid(x)), 0.0, -0.2),
    "erfc": (lambda x: 1 - torch.erf(x), 0.0, -2 / math.sqrt(math.pi)),
    "maximum": (lambda x: torch.maximum(x, torch.zeros(())), 0.0, 0.5),
    "clamp": (lambda x: torch.clamp(x, min=0) * torch.exp(x) / torch.exp(x), 0.0, 1.0),
    "root_of_untaken": (lambda x: torch.where(x > 0, torch.sqrt(x), torch.zeros(())), 0.0, 0.0),
    "log_of_untaken": (lambda x: torch.where(x > 0, x * torch.log(x), 0 * x), 0.0, 0.0),
    "masked_root": (lambda x: torch.sqrt(x).masked_fill(x <= 0, 0.0), 0.0, 0.0),
    "norm": (lambda x: torch.sqrt((x * x).sum(-1)), 0.0, 0.0),
    "norm_by_power": (lambda x: ((x**2).sum(-1)) ** 0.5, 0.0, 0.0),
    "root_mean_square": (lambda x: torch.sqrt(x.square().mean(-1)), 0.0, 0.0),
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("backward", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", CASES)
def test_gradients_are_right(name: str, backward: bool) -> None:
    function, point, wanted = CASES[name]
    better = hnfc.optimize(Function(function), torch.tensor([0.5, 1.5]), backward=backward)
    found = gradient(better, torch.full((2,), point))
    torch.testing.assert_close(found, torch.full((2,), wanted), rtol=1e-6, atol=0)


ROWS = {
    "logsumexp": lambda x: torch.log(torch.exp(x).sum((1, 2))),
    "softmax": lambda x: torch.exp(x) / torch.exp(x).sum((0, 2), keepdim=True),
    "log_softmax": lambda x: x - torch.log(torch.exp(x).sum((-1, 0), keepdim=True)),
}


@pytest.mark.parametrize("name", ROWS)
def test_rows_along_several_axes(name: str) -> None:
    function = ROWS[name]
    x = torch.randn(3, 5, 4, generator=torch.Generator().manual_seed(0))
    better = hnfc.optimize(Function(function), x)
    for given in (x, torch.zeros_like(x), 1e-30 * x):
        weights = torch.linspace(0.5, 1.5, function(given).numel()).reshape(function(given).shape)
        narrow, wide = given.clone().requires_grad_(), given.double().requires_grad_()
        (found,) = torch.autograd.grad(better(narrow), narrow, weights)
        (wanted,) = torch.autograd.grad(function(wide), wide, weights.double())
        torch.testing.assert_close(found.double(), wanted, rtol=4e-7, atol=2e-7 if name == "log_softmax" else 3e-8)
    assert torch.isfinite(better(1000 * x)).all()
    assert any("fusion" in rewrite["rule"] for rewrite in better._hnfc.known[0].report.data["rewrites"])
    torch.testing.assert_close(torch.func.vmap(better)(torch.stack([x, 2 * x]))[1], better(2 * x))


SPREADS = {
    "variance": lambda x: (x * x).mean(-1) - x.mean(-1) ** 2,
    "of all": lambda x: (x**2).mean() - x.mean() ** 2,
    "deviation": lambda x: torch.sqrt((x * x).mean(-1) - x.mean(-1) ** 2),
    "covariance": lambda x: 3 * (x * x).sum(-1) - x.sum(-1) ** 2,
    "written out": lambda x: ((x - x.mean(-1, keepdim=True)) ** 2).mean(-1) + torch.log(1 + torch.exp(x.sum(-1))),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
@pytest.mark.parametrize("name", SPREADS)
def test_small_deviations_beside_large_ones(name: str, dtype: torch.dtype) -> None:
    function = SPREADS[name]
    size = 1e4 if dtype == torch.float32 else 100.0
    x = torch.tensor([[size, -size, 3.0], [-size, 7.0, size]], dtype=dtype)
    better = hnfc.optimize(Function(function), torch.tensor([[1.0, 2.0, 4.0], [3.0, 0.5, 1.5]], dtype=dtype))
    found, wanted = gradient(better, x).double(), gradient(Function(function), x.double())
    assert ((found - wanted).abs() <= 8 * torch.finfo(dtype).eps * wanted.abs()).all()


def test_transforms_of_deviations() -> None:
    function = SPREADS["variance"]
    model, x = Function(function), torch.tensor([[1.0, 2.0, 4.0], [3.0, 0.5, 1.5]], dtype=torch.float64)
    better = hnfc.optimize(model, x)
    assert "spread" in better._hnfc.known[0].graph.code
    for transform in (torch.func.jacrev, torch.func.jacfwd):
        torch.testing.assert_close(transform(better)(x), transform(model)(x))
    torch.testing.assert_close(*(torch.func.hessian(lambda x, m=m: m(x).sum())(x) for m in (better, model)))
    torch.testing.assert_close(torch.func.vmap(better)(torch.stack([x, 2 * x])), torch.func.vmap(model)(torch.stack([x, 2 * x])))
    torch.testing.assert_close(*(curvature(m, x) for m in (better, model)))
    given = x.clone().requires_grad_()
    torch.compile(better, fullgraph=True, backend="aot_eager")(given).sum().backward()
    torch.testing.assert_close(given.grad, gradient(model, x))
    again = pickle.loads(pickle.dumps(better._hnfc.known[0].graph))
    torch.testing.assert_close(again(x)[0], model(x))


SLOPES: list[tuple[str, tuple[float, ...], tuple[float, ...]]] = [
    ("logaddexp", (90.0, 89.0), (0.7310585786300049, 0.2689414213699951)),
    ("logaddexp", (-50.3, -51.7), (0.8021838885585817, 0.1978161114414182)),
    ("logaddexp", (math.inf, 1.0), (1.0, 0.0)),
    ("logaddexp", (-math.inf, -math.inf), (0.5, 0.5)),
    ("mish", (-85.0,), (-84 * math.exp(-85),)),
    ("mish", (-10.0,), (-0.000408579786902992,)),
    ("silu", (-85.0,), (-84 * math.exp(-85),)),
    ("silu", (-10.0,), (-0.000408560208657082,)),
]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("name", "point", "wanted"), SLOPES)
def test_slopes_of_functions(name: str, point: tuple[float, ...], wanted: tuple[float, ...], dtype: torch.dtype) -> None:
    given = [torch.tensor(x, dtype=torch.float64).to(dtype).requires_grad_() for x in point]
    found = torch.autograd.grad(getattr(functions, name)(*given), given)
    for slope, right in zip(found, wanted, strict=True):
        assert slope.item() == pytest.approx(right, rel=8e-6 if dtype == torch.float32 else 3e-14)


def test_nested_branches() -> None:
    def pieces(x: torch.Tensor) -> torch.Tensor:
        inner = torch.where(x > 2, torch.log(x - 2), torch.where(x > 0, 1 / x, torch.exp(x) * torch.sqrt(-x)))
        return torch.where(x.abs() < 1, torch.sqrt(1 - x * x), inner)

    x = torch.tensor([0.5, -0.5, 1.5, 3.0, -2.0])
    better = hnfc.optimize(Function(pieces), x)
    wanted = torch.tensor([-1 / 3**0.5, 1 / 3**0.5, -1 / 2.25, 1.0, math.exp(-2) * (2**0.5 - 1 / (2 * 2**0.5))])
    torch.testing.assert_close(gradient(better, x), wanted)
    assert torch.equal(better(x), pieces(x))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_norms_behind_a_mask(dtype: torch.dtype) -> None:
    """A root that is rounded, reshaped or scaled before the mask takes it away."""
    torch.manual_seed(0)
    x = torch.randn(2, 4, 8).to(dtype)
    x[0, 0] = 0
    taken = x.abs().sum(-1) > 0
    forms = (
        lambda x, m: torch.where(m, x.square().sum(-1).sqrt(), x.new_zeros(())),
        lambda x, m: torch.where(m, x.square().sum(-1, keepdim=True).sqrt().squeeze(-1), x.new_zeros(())),
        lambda x, m: torch.log(x.abs().sum(-1, keepdim=True)).reshape(m.shape).masked_fill(~m, 0.0),
        lambda x, m: torch.where(m, (1 / x.abs().sum(-1, keepdim=True)).flatten(1), 0 * x.sum(-1)),
    )
    for form in forms:
        given = x.clone().requires_grad_()
        hnfc.optimize(Function(form), (x, taken))(given, taken).sum().backward()
        assert torch.isfinite(given.grad).all() and not given.grad[0, 0].any()


def test_samples_without_elements_and_complex_ones() -> None:
    def softmax(x: torch.Tensor) -> torch.Tensor:
        e = torch.exp(x)
        return e / e.sum(-1, keepdim=True)

    empty = hnfc.optimize(Function(softmax), torch.randn(0, 3))
    assert empty(torch.randn(0, 3)).shape == (0, 3)
    x = torch.tensor([[1000.0, 1000.0, 0.0]])
    assert torch.equal(empty(x), torch.softmax(x, -1))
    z = torch.randn(3, dtype=torch.complex64)
    torch.testing.assert_close(hnfc.optimize(Function(lambda z: z.abs() + 1), z)(z), z.abs() + 1)


@pytest.mark.parametrize("backward", [False, True])
def test_what_is_not_used_has_no_influence(backward: bool) -> None:
    model = Function(lambda x: (2 * x, torch.sqrt(x)))
    x = torch.tensor([0.0, 1.0], requires_grad=True)
    hnfc.optimize(model, torch.tensor([1.0, 2.0]), backward=backward)(x)[0].sum().backward()
    assert torch.equal(x.grad, torch.tensor([2.0, 2.0]))


@pytest.mark.parametrize("backward", [False, True])
def test_an_input_that_cancels(backward: bool) -> None:
    model = Function(lambda x, y: x * y / x)
    better = hnfc.optimize(model, (torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])), backward=backward)
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    better(x, torch.tensor([3.0, 4.0])).sum().backward()
    assert torch.equal(x.grad, torch.zeros(2))


def test_a_row_with_an_infinite_logit() -> None:
    def softmax(x: torch.Tensor) -> torch.Tensor:
        e = torch.exp(x)
        return e / e.sum(-1, keepdim=True)

    x = torch.tensor([[1.0, 2.0, 3.0], [math.inf, 1.0, 2.0]])
    better = hnfc.optimize(Function(softmax), x[:1])
    torch.testing.assert_close(better(x), softmax(x), equal_nan=True)


def test_the_sign_of_zero() -> None:
    model = Function(lambda x: 1 / (torch.exp(x) - 1))
    better = hnfc.optimize(model, torch.tensor([0.5, 1.0]))
    assert torch.equal(better(torch.tensor([-0.0])), model(torch.tensor([-0.0])))


def curvature(module: Any, x: torch.Tensor) -> torch.Tensor:
    given = x.clone().requires_grad_()
    (slope,) = torch.autograd.grad(module(given).sum(), given, create_graph=True)
    return torch.autograd.grad(slope.sum(), given)[0]


@pytest.mark.parametrize("name", ["sigmoid", "softplus", "log_sigmoid", "silu", "mish"])
def test_second_derivatives_at_zero(name: str) -> None:
    x = torch.tensor([0.0, -0.0, 1e-3, -2.0], dtype=torch.float64)
    plain = torch.sigmoid if name == "sigmoid" else getattr(nn.functional, name.replace("log_sigmoid", "logsigmoid"))
    torch.testing.assert_close(curvature(getattr(functions, name), x), curvature(plain, x))


def written(x: torch.Tensor) -> torch.Tensor:
    z = torch.zeros(x.shape)
    z[:, 0] = torch.exp(x[:, 1]) - 1
    z[1:] = x.sum(0)
    z.fill_diagonal_(2.0)
    return z * x


@pytest.mark.parametrize("group", ["none", "stability"])
def test_writes_in_place(group: str) -> None:
    model, x = Function(written), torch.randn(4, 3, generator=torch.Generator().manual_seed(0))
    better = hnfc.optimize(model, x, group)
    torch.testing.assert_close(gradient(better, x), gradient(model, x))
    given = x.clone().requires_grad_()
    torch.compile(better, fullgraph=True, backend="aot_eager")(given).sum().backward()
    torch.testing.assert_close(given.grad, gradient(model, x))


def test_probes_that_torch_refuses() -> None:
    """No factor of a probe exists, and the gradients are compared on others."""
    x = torch.tensor([[2.0, 1.0], [1.0, 0.5 + 1e-6]])
    model = Function(lambda x: torch.linalg.cholesky(x).diagonal().log().sum() - torch.log(1 + torch.exp(x)).sum())
    torch.testing.assert_close(hnfc.optimize(model, x)(torch.eye(2)), model(torch.eye(2)))


def test_transforms_of_functions() -> None:
    def mixed(x: torch.Tensor) -> torch.Tensor:
        e = torch.exp(x)
        return torch.log(torch.sigmoid(x)) + (e - 1) + torch.log(e / e.sum(-1, keepdim=True))

    torch.manual_seed(0)
    model, x = Function(mixed), torch.randn(4, 5)
    better = hnfc.optimize(model, x)
    for transform in (torch.func.jacrev, torch.func.jacfwd):
        torch.testing.assert_close(transform(better)(x), transform(model)(x))
    hessians = [torch.autograd.functional.hessian(lambda t, m=m: m(t).sum(), x) for m in (better, model)]
    torch.testing.assert_close(*hessians)
    torch.testing.assert_close(torch.func.vmap(better)(x.repeat(2, 1, 1)), torch.func.vmap(model)(x.repeat(2, 1, 1)))
    given = x.clone().requires_grad_()
    torch.compile(better, fullgraph=True, backend="aot_eager")(given).sum().backward()
    torch.testing.assert_close(given.grad, gradient(model, x))


WIDE = {
    "std": lambda x: x.std(-1),
    "norm": lambda x: x.norm(dim=-1),
    "normalize": lambda x: nn.functional.normalize(x, dim=-1),
    "unit": lambda x: x / x.norm(dim=-1, keepdim=True),
    "standardized": lambda x: (x - x.mean(-1, keepdim=True)) / x.std(-1, keepdim=True),
    "log_std": lambda x: torch.log(x.std(-1)),
}


@pytest.mark.parametrize("level", ["all", *(pytest.param(level, marks=pytest.mark.slow) for level in ("precision", "compensated"))])
@pytest.mark.parametrize("name", WIDE)
def test_half_precision_stays_accumulated_wide(name: str, level: str) -> None:
    torch.manual_seed(0)
    model, x = Function(WIDE[name]), torch.randn(4, 16).half()
    better = hnfc.optimize(model, x, level)
    for scale in (1.0, 500.0, 1e-4, 0.0):
        given = (x.double() * scale).half()
        before, after, truth = model(given).double(), better(given).double(), WIDE[name](given.double())
        assert not (before.isfinite() & ~after.isfinite()).any()
        both = before.isfinite() & after.isfinite() & truth.isfinite()
        errors = [((found - truth).abs() / truth.abs().clamp_min(6e-8))[both] for found in (before, after)]
        assert (errors[1] <= 4 * errors[0] + 8 * torch.finfo(torch.float16).eps).all()
        assert not (gradient(model, given).isfinite() & ~gradient(better, given).isfinite()).any()


SEARCHED = {
    "logsumexp": lambda x: torch.logsumexp(x, -1) * 2,
    "log_softmax": lambda x: torch.log_softmax(x, -1) * x,
    "likelihood": lambda x: -torch.log_softmax(x, -1)[:, 0].mean(),
    "softmax": lambda x: torch.softmax(x, -1) * x,
}


@pytest.mark.parametrize("search", ["beam", pytest.param("restarts", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", SEARCHED)
def test_a_search_leaves_stable_forms_stable(name: str, search: str) -> None:
    torch.manual_seed(0)
    model = Function(SEARCHED[name])
    better = hnfc.optimize(model, torch.rand(4, 6) * 1.3 + 0.2, "all", search=search, seconds=2)
    x = (torch.rand(4, 6) - 0.5) * 400
    torch.testing.assert_close(better(x), model(x))


def test_rewrites_that_overflow_earlier_do_not_run() -> None:
    quotient = hnfc.optimize(Function(lambda a, b, c: a / b / c), tuple(torch.rand(3, 4) + 0.5), "all")
    tiny = [torch.full((4,), value) for value in (1e-30, 1e-25, 1e-25)]
    assert torch.isfinite(quotient(*tiny)).all()
    norm = hnfc.optimize(Function(lambda x: x.norm(dim=-1)), torch.rand(3, 1), "all")
    assert torch.isfinite(norm(torch.tensor([[1.78e36]]))).all()

    def layer_norm(x: torch.Tensor) -> torch.Tensor:
        centered = x - x.mean(-1, keepdim=True)
        return centered / torch.sqrt((centered**2).mean(-1, keepdim=True) + 1e-5)

    x = torch.randn(4, 8)
    assert torch.isfinite(hnfc.optimize(Function(layer_norm), x, "fusion")(1e37 * x)).all()
    declared = hnfc.optimize(Function(layer_norm), x, "fusion", ranges={"inputs_0": (-1e3, 1e3)})
    assert [rewrite["rule"] for rewrite in declared._hnfc.known[0].report.data["rewrites"]] == ["layer_norm_fusion"]


FORWARD = {
    "untaken": lambda x: torch.where(x > 0, torch.sqrt(x), torch.exp(x) - 1),
    "masked": lambda x: torch.log(x).masked_fill(x <= 0, 0.0) * x,
    "cancelled": lambda x: x * torch.exp(x) / torch.exp(x),
}


@pytest.mark.parametrize("name", FORWARD)
def test_forward_mode(name: str) -> None:
    model, x, tangent = Function(FORWARD[name]), torch.tensor([0.5, 1.5, 2.0]), torch.tensor([1.0, -1.0, 2.0])
    better = hnfc.optimize(model, x)
    torch.testing.assert_close(torch.func.jvp(better, (x,), (tangent,)), torch.func.jvp(model, (x,), (tangent,)))
    torch.testing.assert_close(torch.func.jacfwd(better)(x), torch.func.jacfwd(model)(x))
    torch.testing.assert_close(torch.func.hessian(lambda x: better(x).sum())(x), torch.func.hessian(lambda x: model(x).sum())(x))
    with torch.autograd.forward_ad.dual_level():
        found = torch.autograd.forward_ad.unpack_dual(better(torch.autograd.forward_ad.make_dual(x, tangent))).tangent
    torch.testing.assert_close(found, torch.func.jvp(model, (x,), (tangent,))[1])


def test_the_slope_of_logaddexp_changes_where_both_are_equal() -> None:
    x = torch.tensor([0.0, 1.0, 3.0], dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(functions.logaddexp(x, x.detach()).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(slope.sum(), x)
    assert second.tolist() == [0.25] * 3


def half_angle(x, y):
    square = ((x - y) ** 2).sum(-1)
    return torch.acosh(1 + 2 * square / ((1 - (x * x).sum(-1)) * (1 - (y * y).sum(-1))))


@pytest.mark.parametrize("away", [1e-4, 0.0])
def test_near_and_equal_points_of_a_ball(away):
    generator = torch.Generator().manual_seed(1)
    x = 0.3 * torch.randn(3, 4, generator=generator)
    y = x + 1e-3 * torch.randn(3, 4, generator=generator)
    better = hnfc.optimize(Function(half_angle), (x, y))
    near = x + away * (y - x) / 1e-3
    given, wide = [t.clone().requires_grad_() for t in (x, near)], [t.double().requires_grad_() for t in (x, near)]
    found = torch.autograd.grad(better(*given).sum(), given)
    if away == 0:
        assert all((gradient == 0).all() for gradient in found)
        return
    size = ((wide[0] - wide[1]) ** 2).sum(-1) / ((1 - (wide[0] ** 2).sum(-1)) * (1 - (wide[1] ** 2).sum(-1)))
    for narrow, true in zip(found, torch.autograd.grad((2 * torch.asinh(torch.sqrt(size))).sum(), wide), strict=True):
        torch.testing.assert_close(narrow.double(), true, rtol=1e-4, atol=1e-4)


def test_what_no_caller_uses_adds_nothing_outside_the_domain():
    better = hnfc.optimize(Function(lambda t: torch.acosh(1 + t)), torch.tensor([1e-9, 1e-4, 3.0]))
    t = torch.tensor([-20.0, 1e-9, 2.0], requires_grad=True)
    (found,) = torch.autograd.grad(better(t), t, torch.tensor([0.0, 1.0, 0.0]))
    assert found[0] == 0 and found[2] == 0
    torch.testing.assert_close(found[1], torch.tensor(0.5 / math.sqrt(0.5e-9)), rtol=1e-5, atol=0)
