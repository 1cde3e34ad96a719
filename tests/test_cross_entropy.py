"""-log(softmax(x))_y, as people write it: the logarithm of a chosen probability, which underflows, becomes a chosen log-probability."""

from __future__ import annotations

import pytest
import torch

from hnfc.backend.fx import raise_function
from hnfc.dsl.rulebook import shipped
from hnfc.pipeline.compile import compile_module
from hnfc.pipeline.request import Request
from tests.exporting import export_torch, text


def by_index(x, y):
    e = torch.exp(x)
    p = e / e.sum(-1, keepdim=True)
    return -torch.log(p[torch.arange(4), y])


def by_gather(x, y):
    return -torch.log(torch.softmax(x, -1).gather(1, y.unsqueeze(1)).squeeze(1)).mean()


def by_slice(x, y):
    return -torch.log(torch.softmax(x, -1)[:, 2])


ROWS = torch.arange(4)


@pytest.mark.parametrize(
    ("loss", "true"),
    [
        (by_index, lambda log_p, y: -log_p[ROWS, y]),
        (by_gather, lambda log_p, y: -log_p[ROWS, y].mean()),
        (by_slice, lambda log_p, y: -log_p[:, 2]),
    ],
)
def test_a_chosen_probability_may_underflow(loss, true):
    x = torch.randn(4, 5, generator=torch.Generator().manual_seed(0)) * 400
    y = torch.tensor([0, 3, 2, 1])
    module = export_torch(loss, x, y)
    assert not torch.isfinite(raise_function(module)(x, y)[0]).all()
    untouched = text(module)
    assert text(compile_module(module, Request([[]])).export()) == untouched
    rules = shipped().only(["canonical", "stability"]).rules
    compiled = compile_module(module, Request([rules]))
    expected = true(torch.log_softmax(x.double(), -1), y)
    torch.testing.assert_close(raise_function(compiled.export())(x, y)[0].double(), expected, rtol=1e-5, atol=1e-4)
