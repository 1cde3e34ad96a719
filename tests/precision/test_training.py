"""A step of training: its gradients are those of torch, what fails in float16 is blamed on the backward pass, and the remedy trains."""

from __future__ import annotations

import copy
import math
import pickle
import warnings
from collections.abc import Callable
from functools import cache

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from hnfc.backend.fx import raise_function
from hnfc.core.errors import UsageError
from hnfc.frontend.training import capture_training, names_of_results
from hnfc.precision.assignment import Assignment, Infeasible
from hnfc.precision.training import TrainingAnalysis, growing
from hnfc.pytorch.optimized import MOST_PROGRAMS
from tests.precision.trained import (
    Net,
    Stream,
    Tensors,
    analyzed,
    apart,
    attention,
    classes,
    convolution,
    faint,
    gradients,
    masked_attention,
    mlp,
    normal,
    targets,
    tied,
    tokens,
)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("net", "inputs"), [
    (Net(lambda net, x, y: F.cross_entropy(net.net(x), y), net=mlp()), (normal(1, 6, 8), classes(2, 3, 6))),
    (convolution(False), (normal(1, 2, 2, 8, 8),)), (convolution(True), (normal(1, 2, 2, 8, 8),)),
    (attention(), (normal(1, 2, 5, 8),)), (tied(), (classes(1, 9, 7),)),
    (Net(lambda net, x: net.cell(x[1], net.cell(x[0])).square().mean(), cell=nn.GRUCell(3, 4)), (normal(1, 2, 5, 3),)),
    (Net(lambda net, x: net.cells(x)[0].square().mean(), cells=nn.LSTM(3, 4, 2, bidirectional=True)), (normal(1, 5, 2, 3),)),
    (Net(lambda net, x: (net.lin(x)[[0, 0, 2]].cumsum(-1).amax(-1) + x[..., 0][:3]).sum(), lin=nn.Linear(3, 4)), (normal(1, 4, 3),)),
], ids=["mlp", "convolution", "batch_norm", "attention", "tied", "recurrent", "lstm", "indices"])  # fmt: skip
def test_gradients_are_those_of_torch(net: nn.Module, inputs: Tensors) -> None:
    net, inputs = net.double(), tuple(x.double() if x.is_floating_point() else x for x in inputs)
    captured = capture_training(net, inputs)
    with torch.no_grad():
        results = raise_function(captured.module)(*captured.signature.gather(net, inputs))
    found = dict(zip(names_of_results(captured.signature), results, strict=True))
    loss = net(*inputs)
    assert float(found.pop("loss")) == pytest.approx(float(loss.detach()), rel=1e-12)
    buffers = dict(net.named_buffers())
    # the call of the model has just written to them what the graph gives
    for name in [name for name in found if name.startswith("new ")]:
        assert torch.allclose(found.pop(name).double(), buffers[name.removeprefix("new ")].double(), rtol=1e-12)
    true = {f"gradient of {name}": g for name, g in gradients(net, loss).items()}
    assert found.keys() == true.keys()
    largest = max(float(g.abs().max()) for g in true.values())
    for name, g in true.items():
        assert float((found[name] - g).abs().max()) < 1e-12 * largest, name


@pytest.mark.parametrize(("net", "inputs"), [
    (convolution(True), (normal(1, 2, 2, 8, 8),)), (masked_attention(), (normal(1, 2, 5, 8),)),
    (Net(lambda net, x: torch.tanh(net.norm(net.line(x))).square().mean(), line=nn.Linear(4, 8), norm=nn.LayerNorm(8)), (normal(1, 6, 4),)),
], ids=["batch_norm", "attention", "layer_norm"])  # fmt: skip
def test_how_gradients_move_is_what_torch_says(net: nn.Module, inputs: Tensors) -> None:
    """The estimate derives the gradients of the graph once more: along every path on which a rounding reaches them."""
    net, inputs = net.double(), tuple(x.double() for x in inputs)
    captured = capture_training(net, inputs)
    results = raise_function(captured.module)(*captured.signature.gather(net, inputs))
    found = {name: g for name, g in zip(names_of_results(captured.signature), results, strict=True) if name.startswith("gradient")}
    parameters = dict(net.named_parameters())
    with sdpa_kernel(SDPBackend.MATH):
        true = dict(zip(parameters, torch.autograd.grad(net(*inputs), list(parameters.values()), create_graph=True), strict=True))
    moved, expected = (
        torch.autograd.grad(sum((normal(i, *g.shape) * g).sum() for i, g in enumerate(each)), list(parameters.values()), allow_unused=True)
        for each in ([found[f"gradient of {name}"] for name in parameters], true.values())
    )
    for name, one, other in zip(parameters, moved, expected, strict=True):
        assert one is not None and torch.allclose(one, other, rtol=1e-8, atol=1e-10), name


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("net", "low", "shape"), [
    (convolution(True), "fp16", (8, 2, 8, 8)), (attention(), "bf16", (4, 6, 8)),
], ids=["convolution", "attention"])  # fmt: skip
def test_the_error_of_one_format_throughout_is_as_predicted(net: nn.Module, low: str, shape: tuple[int, ...]) -> None:
    found = analyzed(net, normal(1, *shape), formats=(low,), target_accuracy=0.5)
    x = normal(2, *shape)
    mixed, true = gradients(net, found.apply()(x)), gradients(net, net(x))
    errors = [error for name, error in apart(mixed, true).items() if f"gradient of {name}" not in found.undetermined]
    together = (sum(e * e for e in errors) / len(errors)) ** 0.5
    assert together / 10 < found.error < together * 10


@cache
def of_mlp(target: float) -> tuple[nn.Module, TrainingAnalysis]:
    net = mlp()
    return net, analyzed(net, (normal(1, 64, 8), classes(2, 3, 64)), F.cross_entropy, target_accuracy=target)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("target", [5e-3, 3e-4])
def test_the_error_is_as_predicted_on_inputs_that_were_not_seen(target: float) -> None:
    net, found = of_mlp(target)
    assert isinstance(found.outcome, Assignment) and found.error <= target and found.measured <= 1.1 * target
    x, y = normal(5, 64, 8), classes(6, 3, 64)
    mixed, exact = found.apply(), copy.deepcopy(net).double()
    true = gradients(exact, F.cross_entropy(exact(x.double()), y))
    errors = list(apart(gradients(net, mixed(x, y)), true).values())
    together = (sum(e * e for e in errors) / (len(errors) + 1)) ** 0.5
    assert together / 10 < found.error < together * 10 and together < 2 * target


def test_results_and_sites_have_names_of_their_own() -> None:
    net, found = of_mlp(5e-3)
    names = [site.name for site in found.sites.sites]
    assert "loss" in names and {f"gradient of {name}" for name, _ in net.named_parameters()} <= set(names)
    product = found.sites["gradient: second.matmul"]
    assert product.backward and product.module == "second" and "trained.py" in product.place
    assert not found.sites["second.add"].backward
    both = analyzed(
        net, found.sample, F.cross_entropy, formats=("bf16", "fp32"), pins={"gradient*": "fp32", "*": "bf16"}, target_accuracy=1
    )
    formats = both.get_precision_assignment()
    assert {form for name, form in formats.items() if name.startswith("gradient")} == {"fp32"} and formats["second.add"] == "bf16"


def test_targets_by_the_names_of_results() -> None:
    net = mlp()
    sample = normal(1, 64, 8), classes(2, 3, 64)
    found = analyzed(net, sample, F.cross_entropy, target_accuracy={"loss": 1e-1, "gradient of first.*": 1e-4, "gradient of *": 1e-2})
    allowed = {output.name: output.allowed for output in found.outputs}
    assert allowed["loss"] == 0.1 and allowed["gradient of first.weight"] == 1e-4 and allowed["gradient of head.bias"] == 1e-2
    true = gradients(net, F.cross_entropy(net(sample[0]), sample[1]))
    errors = apart(gradients(net, found.apply()(*sample)), true)
    for output in found.outputs:
        assert output.measured is not None and output.measured <= 1.1 * output.allowed and output.estimated <= output.allowed
        if output.name != "loss":
            assert errors[output.name.removeprefix("gradient of ")] == pytest.approx(output.measured, rel=1e-3)
    with pytest.raises(UsageError, match="there are: loss, gradient of first"):
        analyzed(net, sample, F.cross_entropy, target_accuracy={"gradient of third.weight": 1e-2})


def test_gradients_that_overflow_although_no_value_of_the_forward_pass_does() -> None:
    """unslothai/unsloth-zoo#866: the loss is finite, and gradients along the residual stream are not."""
    low = Stream().half()
    loss = low(*tokens(7))
    failed = gradients(low, loss)
    assert bool(loss.isfinite()) and not bool(failed["embed.weight"].isfinite().all())
    found = analyzed(Stream(), tokens(0), formats=("fp16",), scaling=False, target_accuracy=2e-2)
    assert isinstance(found.outcome, Infeasible)
    assert found.sites["add"].magnitude < 400
    assert max(site.magnitude for site in found.sites.sites if not site.backward and site.name != "loss") < 1000
    assert found.outcome.nodes and all(name.startswith("gradient: norm.") for name in found.outcome.nodes)
    # where the normalization's gradients meet, on the way to the embedding
    assert "gradient: norm.add" in found.outcome.nodes
    assert all("in the backward pass" in reason for reason in found.outcome.reasons) and "65504" in found.outcome.reasons[1]
    assert any(r.change == "allow fp32" for r in found.outcome.relaxations)


@cache
def of_stream() -> tuple[nn.Module, TrainingAnalysis]:
    net = Stream()
    return net, analyzed(net, tokens(0), scaling=False, target_accuracy=2e-2)


def test_the_remedy_of_gradients_that_overflow() -> None:
    net, found = of_stream()
    formats = found.get_precision_assignment()
    assert all(name.startswith("gradient") for name, form in formats.items() if form == "fp32") and formats["gradient: norm.add"] == "fp32"
    applied = found.apply()
    for seed in (0, 20, 30):
        mixed, true = gradients(net, applied(*tokens(seed))), gradients(net, net(*tokens(seed)))
        assert all(bool(g.isfinite().all()) for g in mixed.values()) and max(apart(mixed, true).values()) < 4e-2


@cache
def of_faint() -> tuple[nn.Module, TrainingAnalysis]:
    net = faint()
    return net, analyzed(net, targets(0), formats=("fp16",), target_accuracy=2e-2)


def test_gradients_that_vanish_are_blamed_and_a_scale_keeps_them() -> None:
    net, found = of_faint()
    x, y = targets(7)
    true = gradients(net, net(x, y))
    low = copy.deepcopy(net).half()
    assert max(apart(gradients(low, low(x.half(), y.half())), true).values()) > 0.1
    refused = analyzed(net, targets(0), formats=("fp16",), scaling=False, target_accuracy=2e-2).outcome
    assert isinstance(refused, Infeasible)
    assert refused.nodes and all(name.startswith("gradient: ") for name in refused.nodes)
    assert "makes 0" in refused.reasons[0] and "in the backward pass" in refused.reasons[0]
    formats = found.get_precision_assignment()
    assert all(form.startswith("fp16") for form in formats.values()) and any("*2^-" in form for form in formats.values())
    assert max(apart(gradients(net, found.apply()(x, y)), true).values()) < 4e-2


@pytest.mark.parametrize(("of", "unseen"), [(of_faint, targets(7)), (of_stream, tokens(7))], ids=["faint", "stream"])
def test_one_scale_for_the_loss(of: Callable[[], tuple[nn.Module, TrainingAnalysis]], unseen: Tensors) -> None:
    """In float16 throughout gradients vanish, or overflow; with the loss times the scale they do not."""
    net, found = of()
    low, inputs = copy.deepcopy(net).half(), [x.half() if x.is_floating_point() else x for x in unseen]
    true = gradients(net, net(*unseen))
    assert not max(apart(gradients(low, low(*inputs)), true).values()) < 0.1
    scale = found.loss_scale()
    assert math.log2(scale).is_integer() and (scale > 1) == (found.sites["loss"].magnitude < 1)
    scaled = gradients(low, low(*inputs) * scale)
    assert max(apart({name: g.float() / scale for name, g in scaled.items()}, true).values()) < 4e-2
    linear = {site.name for site in growing(found.sites)}
    assert {site.name for site in found.sites.sites if site.name.startswith("gradient of")} <= linear
    assert not any(site.name in linear for site in found.sites.sites if not site.backward)


def test_training_in_mixed_precision_is_training() -> None:
    rule = normal(9, 8, 3)
    steps = [(x := normal(100 + step, 64, 8), (x @ rule).argmax(-1)) for step in range(30)]
    start = mlp()
    found = analyzed(start, steps[0], F.cross_entropy, target_accuracy=3e-4)
    assert {"fp16", "fp32"} == set(found.get_precision_assignment().values())

    def trained(net: nn.Module, loss_of: Callable[..., torch.Tensor]) -> list[float]:
        optimizer = torch.optim.SGD(net.parameters(), lr=0.3, momentum=0.9)
        losses = []
        for x, y in steps:
            optimizer.zero_grad()
            loss = loss_of(x, y)
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            losses.append(float(loss.detach()))
        return losses

    plain = copy.deepcopy(start)
    wide = trained(plain, lambda x, y: F.cross_entropy(plain(x), y))
    mixed = trained(start, found.apply())
    assert wide[-1] < 0.5 * wide[0]
    assert mixed == pytest.approx(wide, rel=3e-2) and mixed != wide


def test_the_module_that_trains() -> None:
    net, found = of_mlp(5e-3)
    mixed = found.apply()
    assert isinstance(mixed, type(net)) and [id(p) for p in mixed.parameters()] == [id(p) for p in net.parameters()]
    x, y = normal(3, 10, 8), classes(4, 3, 10)  # another size of batch
    true = gradients(net, F.cross_entropy(net(x), y))
    assert max(apart(gradients(net, mixed(x, y)), true).values()) < 5e-2
    tripled = gradients(net, 3 * mixed(x, y))
    assert all(torch.allclose(tripled[name], 3 * g, rtol=0.1, atol=1e-3) for name, g in true.items())
    with torch.no_grad():
        loss = mixed(x, y)
    assert not loss.requires_grad and float(loss) == float(mixed(x, y).detach())
    linear = nn.Linear(8, 3)
    applied = analyzed(linear, (x, y), F.cross_entropy).apply()
    assert torch.equal(pickle.loads(pickle.dumps(applied))(x, y), applied(x, y))


def test_buffers_are_kept_up_and_what_is_frozen_has_no_gradient() -> None:
    nets = [convolution(True) for _ in range(2)]
    for net in nets:
        net.conv.bias.requires_grad_(False)
    x = normal(3, 4, 2, 8, 8)
    found = analyzed(nets[0], x)
    assert "new norm.running_var" in [site.name for site in found.sites.sites]
    before = nets[0].norm.running_mean.clone()
    assert torch.equal(before, torch.zeros(3))
    mixed, true = gradients(nets[0], found.apply()(x)), gradients(nets[1], nets[1](x))
    assert max(apart(mixed, true).values()) < 2e-2 and mixed.keys() == {"conv.weight", "norm.weight", "norm.bias"}
    assert torch.allclose(nets[0].norm.running_mean, nets[1].norm.running_mean, rtol=2e-2)
    assert int(nets[0].norm.num_batches_tracked) == 1


@pytest.mark.parametrize(("net", "x", "noise"), [
    (convolution(True), normal(3, 4, 2, 8, 8), "conv.bias"), (masked_attention(), normal(3, 4, 5, 8), "key.bias"),
], ids=["normalized", "attention"])  # fmt: skip
def test_a_gradient_that_is_nothing_but_rounding_has_no_target(net: nn.Module, x: torch.Tensor, noise: str) -> None:
    """It is 0, and no format computes it to 1 %."""
    found = analyzed(net, x)
    assert found.undetermined == (f"gradient of {noise}",) and isinstance(found.outcome, Assignment)
    mixed, true = gradients(net, found.apply()(x)), gradients(net, net(x))
    assert bool(mixed.pop(noise).isfinite().all()) and true.pop(noise) is not None
    assert max(apart(mixed, true).values()) < 3e-2


@pytest.mark.sampled(1)
@pytest.mark.parametrize("large", [torch.finfo(torch.float32).min, -1e9], ids=["least", "billion"])
@pytest.mark.parametrize("added", [False, True], ids=["kept", "added"])
def test_a_mask_of_numbers_is_exact(large: float, added: bool) -> None:
    """1 - 1 is 0 in every format: of the last bits of a mask no gradient is made."""

    def rule(net: nn.Module, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        scores = net.query(x) @ net.key(x).mT + (mask if added else (1.0 - mask) * large)[:, None]
        return (scores.softmax(-1) @ net.value(x)).pow(3).mean()

    net = Net(rule, query=nn.Linear(8, 8), key=nn.Linear(8, 8), value=nn.Linear(8, 8))
    x, keep = normal(1, 2, 5, 8), (torch.arange(5) < torch.tensor([[3], [5]])).float()
    mask = torch.where(keep == 0, large, 0.0) if added else keep
    found = analyzed(net, (x, mask))
    assert found.undetermined == ("gradient of key.bias",) and isinstance(found.outcome, Assignment)
    mixed, true = gradients(net, found.apply()(x, mask)), gradients(net, net(x, mask))
    del mixed["key.bias"], true["key.bias"]
    assert max(apart(mixed, true).values()) < 3e-2


def test_parameters_that_are_whole_numbers_have_last_bits_too() -> None:
    net = Net(lambda net, x: net.norm(net.line(x)).pow(3).mean(), line=nn.Linear(4, 4), norm=nn.BatchNorm1d(4))
    x = (normal(0, 16, 4) * 8).round()
    with torch.no_grad():
        for p in net.parameters():
            p.copy_((p * 4).round() + 1)
    assert analyzed(net, x).undetermined == ("gradient of line.bias",)


def test_a_tensor_that_is_given_twice() -> None:
    """It has the sum of both gradients, and two tensors, later, have one each."""
    net = Net(lambda net, x, y: (torch.tanh(net.line(x)) * y).pow(3).mean(), line=nn.Linear(4, 4))
    x, y = (normal(seed, 6, 4).requires_grad_() for seed in (1, 2))
    step = analyzed(net, (x, x)).apply()
    for one, other in ((x, x), (x, y)):
        found, true = (torch.autograd.grad(loss, {one, other}) for loss in (step(one, other), net(one, other)))
        assert all(torch.allclose(a, b, rtol=2e-2, atol=1e-4) for a, b in zip(found, true, strict=True))


@pytest.mark.slow
def test_graphs_for_other_shapes_have_a_limit() -> None:
    net = nn.Linear(4, 2)
    step = analyzed(net, (normal(0, 3, 4), normal(1, 3, 2)), F.mse_loss).apply()
    with warnings.catch_warnings(record=True) as said:
        for rows in range(3, 3 + MOST_PROGRAMS):
            step(normal(0, rows, 4), normal(1, rows, 2))
    assert not any("hnfc" in str(warning.message) for warning in said)
    x, y = normal(0, 40, 4), normal(1, 40, 2)
    with pytest.warns(UserWarning, match="original model, not in mixed precision: more than 16 kinds of calls") as told:
        found = [gradients(net, step(x, y)) for _ in range(2)][1]
    assert sum("hnfc" in str(warning.message) for warning in told) == 1
    assert len(step._hnfc.known) == MOST_PROGRAMS  # type: ignore[union-attr,arg-type]
    true = gradients(net, F.mse_loss(net(x), y))
    assert all(torch.equal(found[name], g) for name, g in true.items())
    # those that are known stay
    assert not torch.equal(step(normal(0, 3, 4), normal(1, 3, 2)), F.mse_loss(net(normal(0, 3, 4)), normal(1, 3, 2)))
    step.double()
    assert not step._hnfc.known  # type: ignore[union-attr]
