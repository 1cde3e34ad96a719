"""Types and layouts beyond floating-point tensors in rows: the same result, or words and a place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import hnfc
from hnfc.core.errors import ModelError


class Form(torch.nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.function(*inputs)


def softmax(x: torch.Tensor) -> torch.Tensor:
    e = torch.exp(x)
    return e / e.sum(-1, keepdim=True)


WHOLE = torch.arange(6, dtype=torch.int32).reshape(2, 3)
X = torch.linspace(-1, 2, 12).reshape(2, 6)
SAME: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...]]] = {
    "complex input": (lambda z: softmax(z.abs()), (torch.complex(X, X.flip(0)),)),
    "views of complex numbers": (lambda x: softmax(torch.view_as_real(torch.view_as_complex(x.reshape(2, 3, 2))).flatten(1)), (X,)),
    "uint8": (lambda u: softmax(u.float()), (WHOLE.to(torch.uint8),)),
    "uint32": (lambda u: softmax(u.float()), (WHOLE.to(torch.uint32),)),
    "lower triangle": (lambda x: softmax(x.masked_fill(torch.tril(torch.ones(2, 6)) == 0, -torch.inf)), (X,)),
    "topk": (lambda x: softmax(x.topk(3).values), (X,)),
    "diagonal": (lambda x: torch.log(torch.exp(x).sum(-1)) - torch.diagonal(x), (X,)),
    "masked argmax": (lambda x, m: softmax(x) + x.masked_fill(~m, -torch.inf).argmax(0), (X, torch.tensor([[True] * 5 + [False]] * 2))),
    "several results": (lambda x: (softmax(x) > 0.1, softmax(x)), (X,)),
}
LACKING: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...], str]] = {
    "uint16": (lambda u: softmax(u.float()), (WHOLE.to(torch.uint16),), "a tensor of type uint16"),
    "sparse": (lambda a, x: softmax(torch.sparse.mm(a, x)), (torch.eye(2).to_sparse(), X), "a tensor of layout sparse_coo"),
    "complex number": (lambda x: softmax((x * 1j).abs()), (X,), r"test_odd_types\.py:\d+: the model has the complex number 1j"),
}


@pytest.mark.parametrize("name", SAME)
def test_the_same_result_and_a_measured_one(name: str) -> None:
    function, inputs = SAME[name]
    model = Form(function)
    better = hnfc.optimize(model, inputs)
    torch.testing.assert_close(better(*inputs), model(*inputs))
    (report,) = hnfc.diff(model, better).data
    assert report["rewrites"] and report["outputs"]


@pytest.mark.parametrize("name", LACKING)
def test_what_cannot_be_captured_is_named(name: str) -> None:
    function, inputs, words = LACKING[name]
    with pytest.raises(ModelError, match=words):
        hnfc.optimize(Form(function), inputs)
