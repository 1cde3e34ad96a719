"""hnfc.trace finds what first goes wrong, why, and what mends it."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import hnfc
from tests.pytorch.examples import Attention, naive_softmax
from tests.tracing.functions import traced

_GENERATOR = torch.Generator().manual_seed(0)


def drawn(*shape):
    """The same numbers in every run: now and then an element lies so near the mean of its row that it does cancel."""
    return torch.randn(*shape, generator=_GENERATOR)


def small_model():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 4))


F16 = torch.float16
WRONG = {
    "exp": (lambda x: torch.log(torch.exp(x) + 1), [torch.tensor([1.0, 100.0])], "overflow", "exp", "the exact result reaches 2.688e+43"),
    "beyond float64": (lambda x: torch.exp(x), [torch.tensor([1000.0])], "overflow", "exp", "lies beyond 1.8e+308"),
    "square in f16": (lambda x: x * x, [torch.tensor([300.0], dtype=F16)], "overflow", "mul.Tensor", "float16 ends at 6.55e+04"),
    "a lost difference": (lambda x: torch.log(1 - torch.exp(x)), [torch.tensor([-1e-9, -1.0])], "pole", "log", "0 that should be 1e-09"),
    "tiny squares": (lambda x: 1 / (x * x), [torch.tensor([1e-30])], "pole", "reciprocal", "0 that should be 1e-60"),
    "0/0": (lambda x: x / x, [torch.tensor([0.0, 1.0])], "undefined", "div.Tensor", "no value there in exact arithmetic either"),
    "a masked row": (lambda x: naive_softmax(x - x.amax(-1, keepdim=True)), [torch.full((1, 3), -torch.inf)], "undefined", "sub.Tensor",
                     "no value there"),
    "variance": (lambda x: (x * x).mean(-1) - x.mean(-1) ** 2, [drawn(4, 50) * 0.01 + 100], "cancellation", "sub.Tensor",
                 "bits are lost"),
    "one minus cos": (lambda x: 1 - torch.cos(x), [torch.tensor([1e-5, 1e-4])], "cancellation", "rsub.Scalar", "24 bits are lost"),
    "a slow sum": (lambda x: sum((x for _ in range(99)), torch.full((1,), 240.0).bfloat16()), [torch.ones(1, dtype=torch.bfloat16)],
                   "absorption", "add.Tensor", "1 is less than half a unit in the last place of 256"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_first_place(name):
    function, inputs, kind, operation, reason = WRONG[name]
    found = traced(function, *inputs)
    assert found.first is not None
    assert (found.first.kind, found.first.operation) == (kind, operation)
    assert reason in found.first.reason
    assert "test_trace.py:" in found.first.source


RIGHT = {
    "softmax": (lambda x: torch.softmax(x, -1), [drawn(4, 8) * 100]),
    "layer norm": (lambda x: torch.nn.functional.layer_norm(x, [64]), [drawn(4, 64) + 5]),
    "a mask": (lambda x: torch.softmax(x.masked_fill(x > 1, -torch.inf), -1), [drawn(4, 8)]),
    "centred": (lambda x: x - x.mean(-1, keepdim=True), [drawn(4, 64) + 5]),
    "a small model": (small_model(), [drawn(4, 8)]),
}


@pytest.mark.parametrize("name", RIGHT)
def test_nothing_where_nothing_is_wrong(name):
    function, inputs = RIGHT[name]
    found = traced(function, *inputs)
    assert not found, str(found)
    assert "nothing went wrong" in str(found)


def test_the_rewrite_that_mends_it_is_tried():
    found = traced(lambda x: torch.log(1 - torch.exp(x)), torch.tensor([-1e-9, -1.0]))
    assert any("log1mexp: the error of the results goes from not finite to" in remedy for remedy in found.first.remedies)


def test_the_format_that_holds():
    found = traced(lambda x: x * x, torch.tensor([300.0], dtype=F16))
    holds, chosen = found.first.remedies
    assert holds.startswith("bfloat16 holds the result (9e+04 ≤ 3.39e+38): the error of the results goes from not finite to 1.2e-03")
    assert chosen.startswith("hnfc.PrecisionOptimizer(formats=('fp16', 'bf16')).analyze(model, sample) chooses formats")


def test_the_cause_of_a_pole_is_told():
    report = str(traced(lambda x: torch.log(1 - torch.exp(x)), torch.tensor([-1e-9, -1.0])))
    assert "log is infinite in" in report
    assert "after   rsub.Scalar loses its digits" in report


def test_gradients():
    function, x = (lambda p: torch.sqrt(torch.abs(p))), torch.tensor([0.0, 1.0])
    assert not traced(function, x)
    found = traced(function, x, backward=True)
    assert found.first.backward
    assert "in the gradient of" in str(found)
    assert "test_trace.py:" in found.first.source


def test_modules_and_lines():
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(8, 8), Attention()).eval()
    found = hnfc.trace(model, 300 * torch.randn(2, 5, 8))
    assert found.first.operation == "exp"
    assert found.first.place.startswith("1 (tests/pytorch/examples.py:")
    assert any("softmax_fusion" in remedy for remedy in found.first.remedies)


def test_compiled_modules():
    torch._dynamo.reset()
    model = torch.compile(Attention().eval(), backend="aot_eager")
    found = hnfc.trace(model, 300 * torch.randn(2, 5, 8))
    assert len(found.compiled) == 2
    assert "compiled code gives for result 1: float32 in" in str(found)


def test_the_model_stays_as_it_is():
    model = Attention()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    hnfc.trace(model, torch.randn(2, 5, 8))
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
