"""Models and losses whose step of training is not analyzed, each with a sentence that says why; and those that look so and are."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.parametrizations import weight_norm

from hnfc.core.errors import ModelError, UsageError
from hnfc.precision.assignment import Assignment, Infeasible
from hnfc.pytorch.optimized import optimized
from hnfc.pytorch.settings import Settings
from hnfc.rewriter import load_rules
from tests.precision.trained import Net, analyzed, apart, classes, convolution, gradients, mlp, normal

X = normal(0, 5, 4)


def test_casts_of_the_model_itself_are_dropped_before_gradients_are_taken() -> None:
    """Of its embedding, too, whose gradient is put together in the type that the model chose."""

    def rule(net: nn.Module, x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        h = torch.tanh(net.line(x).half())[[0, 0, 1]] + net.embed(i).half()
        return h.float().square().mean()

    net = Net(rule, line=nn.Linear(4, 8), embed=nn.Embedding(5, 8))
    sample = X, torch.tensor([1, 2, 2])
    found = analyzed(net, sample, formats=("fp32",), target_accuracy=1e-6)
    assert isinstance(found.outcome, Assignment)
    exact = Net(lambda net, x, i: (torch.tanh(net.line(x))[[0, 0, 1]] + net.embed(i)).square().mean(), line=net.line, embed=net.embed)
    exact.load_state_dict(net.state_dict())
    assert max(apart(gradients(net, found.apply()(*sample)), gradients(exact, exact(*sample))).values()) < 1e-5


class Rounded(torch.autograd.Function):
    @staticmethod
    def forward(ctx: object, x: torch.Tensor) -> torch.Tensor:
        return x.round()

    @staticmethod
    def backward(ctx: object, gradient: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        return gradient


def line(rule: Callable[..., torch.Tensor], *parts: nn.Module) -> nn.Module:
    return Net(rule, line=nn.Linear(4, 3), **{f"part{i}": part for i, part in enumerate(parts)})


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("net", "sample", "loss", "message"), [
    (line(lambda net, x: net.line(x)), X, None, r"shape \(5, 3\).*`loss`"),
    (line(lambda net, x: (net.line(x).sum(), x)), X, None, "one result, a scalar loss, and the model has 2"),
    (line(lambda net, x: net.line(x).argmax()), X, None, "int64"),
    (line(lambda net, x: net.line(x).sum()).requires_grad_(False), X, None, "no parameter of Net requires a gradient"),
    (line(lambda net, x: net.line(x).detach().sum()), X, None, "depends on no parameter"),
    (line(lambda net, x: net.part0(net.line(x)).sum(), nn.Dropout()), X, None, r"`part0` draws random numbers.*model.part0.eval\(\)"),
    (line(lambda net, x: (Rounded.apply(3 * net.line(x)) * net.line(x)).sum()), X, None, "not that of the model: a hook, or"),
    (line(lambda net, x: torch.sqrt(net.line(x) - 100).sum()), X, None, "before any rounding: loss, gradient of line.weight, grad"),
    (line(lambda net, x: (0 * net.line(x)).sum()), X, None, "all gradients are 0"),
    (line(lambda net, x: torch.cdist(net.line(x), 2 * net.line(x)).sum()), X, None, "torch cannot say how roundings move"),
    (Net(lambda net, x: net.part(x).sum(), part=weight_norm(nn.Linear(4, 3))), X, None, "torch cannot say how roundings move"),
    (line(lambda net, x: net.line(x)), (X, classes(1, 3, 4)), F.cross_entropy, "torch.export cannot capture Net"),
], ids=["tensor", "two", "index", "frozen", "detached", "dropout", "derivative", "nan", "zero", "second", "derived", "shapes"])  # fmt: skip
def test_what_cannot_be_analyzed_is_said(net: nn.Module, sample: object, loss: Callable[..., torch.Tensor], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        analyzed(net, sample, loss)


@pytest.mark.parametrize(("sample", "loss", "message"), [
    ((X,), F.mse_loss, "takes the output of the model and 1 more, the last parts of a sample; the sample has 1"),
    ({"input": X}, F.mse_loss, "the sample has 0"), (X, nn.Linear(3, 1), "parameters of its own"), (X, 3, "not int"),
], ids=["no_target", "names", "learned", "number"])  # fmt: skip
def test_a_loss_that_cannot_be_called_is_said(sample: object, loss: Callable[..., torch.Tensor], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        analyzed(nn.Linear(4, 3), sample, loss)
    with pytest.raises(UsageError, match="not function"):
        analyzed(lambda x: x, X)  # type: ignore[arg-type]


def test_a_call_that_takes_another_path_is_said() -> None:
    net = convolution(True)
    x = normal(1, 4, 2, 8, 8)
    step = analyzed(net, x).apply()
    assert torch.isfinite(step(x[:2]))
    with pytest.raises(UsageError, match="another path"):
        step.eval()(x)
    step.train()
    step.conv.bias.requires_grad_(False)
    with pytest.raises(UsageError, match=r"another path .*Unlike with the sample, no gradient is required of conv.bias$"):
        step(x)
    step.conv.bias.requires_grad_(True)
    assert torch.isfinite(step(x))
    with pytest.raises(UsageError, match=r"Unlike with the sample, a gradient is required of argument 0$"):
        step(x.clone().requires_grad_())
    net.conv.bias.requires_grad_(False)
    again = analyzed(net, x).apply()
    net.norm.requires_grad_(False)
    net.conv.bias.requires_grad_(True)
    with pytest.raises(UsageError, match=r"no gradient is required of norm.weight, norm.bias, and a gradient is required of conv.bias$"):
        again(x)


def test_second_derivatives_are_refused() -> None:
    """They would be those of gradients that are taken for constants."""
    net, x = mlp(), normal(1, 16, 8)
    step = analyzed(net, x.requires_grad_(), lambda out: out.square().mean()).apply()
    with pytest.raises(UsageError, match=r"create_graph=True .*second derivatives"):
        torch.autograd.grad(step(x), x, create_graph=True)
    with pytest.raises(UsageError, match="gradient penalty"):
        step(x).backward(create_graph=True)
    loss = step(x)
    loss.backward(retain_graph=True)  # type: ignore[no-untyped-call]
    once = net.head.weight.grad.clone()
    loss.backward()  # type: ignore[no-untyped-call]
    assert torch.allclose(net.head.weight.grad, 2 * once) and bool(once.any())


def test_a_module_that_hnfc_made_is_analyzed_as_the_original() -> None:
    net, sample = mlp(), (normal(1, 16, 8), classes(2, 3, 16))
    made = optimized(net, sample[0], Settings(load_rules("none")))
    first = analyzed(made, sample, F.cross_entropy)
    again = analyzed(first.apply(), sample, F.cross_entropy)
    assert first.get_precision_assignment() == again.get_precision_assignment()


def test_gradients_that_nearly_cancel_are_not_blamed_on_hooks() -> None:
    """The mean square of a normalized value is 1: some of its gradients are a few per cent rounding errors, in a graph and without."""
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True)
    net = Net(lambda net, x: net.part(x).square().mean(), part=nn.TransformerEncoder(layer, 2)).eval()
    assert isinstance(analyzed(net, normal(0, 2, 5, 16)).outcome, Assignment | Infeasible)
