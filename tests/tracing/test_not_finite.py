"""hnfc.trace gives no all-clear where something is not finite or wholly lost, and names the operation, its operand and the index."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import hnfc
from tests.tracing.functions import Plain, Weighted, traced

NAN, INF = math.nan, math.inf


def tensor(*values):
    return torch.tensor(values)


POLES = {
    "1/0": (lambda x: 1 / x, [tensor(1.0, 0.0)], "reciprocal", "0 at index [1]"),
    "x/0": (lambda x, y: x / y, [tensor(1.0, 2.0), tensor(1.0, 0.0)], "div.Tensor", "operand (2 of 2) is 0 at index [1]"),
    "log 0": (lambda x: torch.log(x), [tensor(0.0, 1.0)], "log", "0 at index [0]"),
    "rsqrt 0": (lambda x: torch.rsqrt(x), [tensor(0.0, 1.0)], "rsqrt", "0 at index [0]"),
    "0**-0.5": (lambda x: x**-0.5, [tensor(1.0, 0.0)], "pow.Tensor_Scalar", "0 at index [1]"),
    "atanh 1": (lambda x: torch.atanh(x), [tensor(0.5, 1.0)], "atanh", "operand 1 at index [1]"),
    "log of a clamp": (lambda x: torch.log(x.clamp(min=0)), [tensor(-1.0, 1.0)], "log", "0 at index [0]"),
    "in place": (lambda x: x.clone().sub_(1).log_(), [tensor(1.0, 3.0)], "log_", "0 at index [0]"),
    "layer norm of constants": (lambda x: F.layer_norm(x, [4], eps=0.0), [torch.ones(3, 4)], "native_layer_norm", "row [0]"),
    "group norm of constants": (lambda x: F.group_norm(x, 2, eps=0.0), [torch.ones(3, 4, 2)], "native_group_norm", "row [0"),
    "all targets ignored": (lambda x: F.cross_entropy(x, torch.tensor([-100, -100])), [torch.ones(2, 3)], "nll_loss_forward", "no target"),
    "variance of a row": (lambda x: torch.var_mean(x, 0, correction=1)[0], [torch.ones(1, 3)], "var_mean.correction", "shape [1, 3]"),
    "weight norm": (lambda x: torch._weight_norm(x, torch.ones(2, 1)), [torch.zeros(2, 3)], "_weight_norm_interface", "all elements are 0"),
}  # fmt: skip


@pytest.mark.sampled(4)
@pytest.mark.parametrize("backward", [pytest.param(False, marks=pytest.mark.slow), True])
@pytest.mark.parametrize("name", POLES)
@pytest.mark.filterwarnings("ignore:var_mean")
def test_poles(name, backward):
    function, inputs, operation, reason = POLES[name]
    found = traced(function, *inputs, backward=backward)
    assert "nothing went wrong" not in str(found)
    assert found.first.operation == operation
    assert reason in found.first.reason
    assert "test_not_finite.py:" in found.first.source
    assert not found.first.backward
    assert all(remedy.startswith("at tests/") for remedy in found.first.remedies), "no rewrite or format has a value at a pole"


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("value", [NAN, INF])
def test_inputs(value, backward):
    found = hnfc.trace(nn.Linear(2, 2), torch.tensor([[1.0, 2.0], [3.0, value]]), backward=backward)
    assert (found.first.kind, found.first.operation, found.first.place) == ("input", "input", "input")
    assert "index [1, 1], row 1" in found.first.reason


def test_an_input_that_is_clamped():
    assert hnfc.trace(Plain(lambda x: x.clamp(max=1)), tensor(1.0, INF)).first.kind == "input"


@pytest.mark.parametrize("backward", [False, True])
def test_parameters_and_buffers(backward):
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)).eval()
    model[1].running_var[1] = NAN
    found = hnfc.trace(model, torch.ones(3, 2), backward=backward)
    assert found.first.reason == "the buffer 1.running_var has NaN at index [1]"
    with torch.no_grad():
        model[0].bias[0] = INF
    assert "the parameter 0.bias has inf at index [0]" in str(hnfc.trace(model, torch.ones(3, 2), backward=backward))


def test_masks_are_said_and_are_no_fault():
    mask = torch.tensor([[0.0, -INF], [0.0, 0.0]])
    found = hnfc.trace(Plain(lambda x, mask: torch.softmax(x + mask, -1)), (torch.ones(2, 2), mask), backward=True)
    assert not found
    assert "nothing went wrong" not in str(found)
    assert "has -inf at index [0, 1]" in str(found)


def test_a_nan_that_the_program_puts_in():
    found = traced(lambda x: x * NAN, torch.ones(2))
    assert (found.first.kind, found.first.operation) == ("constant", "mul.Tensor")


DERIVATIVES = {
    "sqrt": (Weighted(lambda w: w.sqrt(), 0.0, 1.0), (), "sqrt", "0 at index [0]"),
    "acos": (Weighted(lambda w, x: torch.acos(w) * x, 1.0, 0.5), (tensor(0.0, 1.0),), "acos", "1 at index [0]"),
    "asin": (Weighted(lambda w, x: (torch.asin(w) * x).sum(), 0.5, -1.0), (tensor(1.0, 0.0),), "asin", "-1 at index [1]"),
    "pow": (Weighted(lambda w, x: w**0.5 * x, 0.0, 1.0), (tensor(0.0, 1.0),), "pow", "0 at index [0]"),
    "distance": (Weighted(lambda w, a, b: ((a * w - b * w).pow(2).sum(1)).sqrt().mean(), 1.0, 2.0), (torch.ones(2, 2), torch.ones(2, 2)),
                 "sqrt", "0 at index [0]"),
    "logsumexp": (Weighted(lambda w, x: torch.logsumexp(w + x, 0), 1.0, 2.0), (tensor(-INF, -INF),), "logsumexp", "-inf"),
}  # fmt: skip


@pytest.mark.parametrize("name", DERIVATIVES)
def test_the_operation_whose_derivative_is_infinite(name):
    model, inputs, operation, reason = DERIVATIVES[name]
    found = hnfc.trace(model, inputs, backward=True)
    assert found.first.backward
    assert found.first.operation == operation
    assert f"the derivative of {operation} has no finite value" in found.first.reason
    assert reason in found.first.reason
    assert "test_not_finite.py:" in found.first.source


BRANCHES = {
    "sqrt": Weighted(lambda w: torch.where(w > 0, torch.sqrt(w), 0.0), 0.0, 1.0),
    "log": Weighted(lambda w: torch.where(w > 0, torch.log(w), w), 0.0, 1.0),
    "exp": Weighted(lambda w: torch.where(w < 50, torch.exp(w), w), 100.0, 1.0),
    "masked": Weighted(lambda w: torch.sqrt(w).masked_fill(w <= 0, 0.0), 0.0, 1.0),
}


@pytest.mark.parametrize("name", BRANCHES)
def test_untaken_branches(name):
    found = hnfc.trace(BRANCHES[name], (), backward=True)
    assert "test_not_finite.py:" in found.first.source
    assert found.first.reason.endswith("that is not taken")
    assert any("hnfc.optimize" in remedy and "not finite to" in remedy for remedy in found.first.remedies)


def test_gradients_that_are_wholly_lost():
    torch.manual_seed(0)
    model = nn.Linear(4, 4).half()
    found = hnfc.trace(model, torch.randn(2, 4).half(), backward=True, loss=lambda out: (out.float() ** 2).mean() * 1e-7)
    assert (found.first.kind, found.first.operation, found.first.backward) == ("underflow", "_to_copy", True)
    assert any("holds the result" in remedy for remedy in found.first.remedies)
    assert any("PrecisionOptimizer" in remedy for remedy in found.first.remedies)


def test_a_remedy_whose_gradients_are_not_finite_is_not_named():
    model = Weighted(lambda w, x: torch.sqrt((x * w).abs()), 1.0, 2.0)
    found = hnfc.trace(model, tensor(0.0, 1.0), backward=True)
    assert found.first.operation == "sqrt"
    assert all("clamp_min" in remedy for remedy in found.first.remedies)


def test_a_format_that_does_not_hold_is_not_named():
    found = traced(lambda x: torch.exp(x.float()), torch.tensor([200.0], dtype=torch.float16))
    assert found.first.kind == "overflow"
    assert not found.first.remedies  # the model computes in float32, whatever it is given
