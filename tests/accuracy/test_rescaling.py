"""Exponentials as pairs: programs whose exponentials leave the range of every type, in spellings that no rule has."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch

import hnfc
from hnfc.accuracy.rescaled import Change, starts_of
from hnfc.accuracy.rescaling import Rescaling
from hnfc.core.interpreter import evaluate
from tests.graphs import Graph
from tests.pytorch.examples import Plain


def of(*numbers: float | list[float]) -> torch.Tensor:
    return torch.tensor(numbers, dtype=torch.float64)


def large(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(5)) * 900


Tensors = tuple[torch.Tensor, ...]
CASES: dict[str, tuple[Callable[..., torch.Tensor], Tensors, Callable[..., torch.Tensor]]] = {
    "quotient of two": (
        lambda a, b: torch.exp(a) / (torch.exp(a) + torch.exp(b)),
        (of(1000, -1500, 1), of(999, -1500, 2)),
        lambda a, b: torch.sigmoid(a - b),
    ),
    "logarithm of a mean": (
        lambda x: torch.log(torch.exp(x).mean(-1)),
        (large(3, 5),),
        lambda x: torch.logsumexp(x, -1) - math.log(x.shape[-1]),
    ),
    "mask as a factor": (
        lambda x, m: torch.exp(x) * m / (torch.exp(x) * m).sum(-1, keepdim=True),
        (of([2000, 1, 900], [-900, -800, 5]), of([0, 1, 1], [1, 1, 0])),
        lambda x, m: torch.softmax(x.masked_fill(m == 0, -torch.inf), -1),
    ),
    "mask as a choice": (
        lambda x, m: torch.where(m > 0, torch.exp(x), 0.0) / torch.where(m > 0, torch.exp(x), 0.0).sum(-1, keepdim=True),
        (of([2000, 1, 900], [-900, -800, 5]), of([0, 1, 1], [1, 1, 0])),
        lambda x, m: torch.softmax(x.masked_fill(m == 0, -torch.inf), -1),
    ),
    "weighted rows": (
        lambda s, v: (torch.exp(s) @ v) / torch.exp(s).sum(-1, keepdim=True),
        (large(3, 4), large(4, 2) / 900),
        lambda s, v: torch.softmax(s, -1) @ v,
    ),
    "weighted two": (
        lambda p, q, a, b: (p * torch.exp(a) + q * torch.exp(b)) / (torch.exp(a) + torch.exp(b)),
        (of(1, 2, 3), of(4, -5, 6), of(1000, -2000, 0), of(1001, -2000, 1)),
        lambda p, q, a, b: p * torch.sigmoid(a - b) + q * torch.sigmoid(b - a),
    ),
    "a floor": (
        lambda x: torch.log(1e-8 + torch.exp(x).sum(-1)),
        (large(3, 5),),
        lambda x: torch.logaddexp(torch.logsumexp(x, -1), torch.tensor(math.log(1e-8), dtype=x.dtype)),
    ),
    "logarithm of a difference": (
        lambda a, b: torch.log(torch.exp(a) - torch.exp(b)),
        (of(1000, 3), of(990, 2)),
        lambda a, b: a + torch.log(-torch.expm1(b - a)),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_nothing_overflows_on_the_way(name: str) -> None:
    formula, inputs, stable = CASES[name]
    args = tuple(x.float() for x in inputs)
    truth = stable(*(x.double() for x in args))
    assert not torch.isfinite(formula(*args)).all()
    model = Plain(formula)
    better = hnfc.optimize(model, args)
    assert float((better(*args).double() - truth).abs().max() / truth.abs().max()) < 1e-6
    # a pointwise form may come first
    assert any(name in str(hnfc.diff(model, better)) for name in ("rescaled_", "form_"))


def test_other_sizes_and_gradients() -> None:
    formula, (s, v), stable = CASES["weighted rows"]
    better = hnfc.optimize(Plain(formula), (s.float(), v.float()))
    s, v = large(6, 7).float(), torch.randn(7, 3)
    torch.testing.assert_close(better(s, v), stable(s, v))
    torch.testing.assert_close(better(s[:4], v), stable(s[:4], v))
    got, want = (torch.autograd.grad(f(s, x := v.clone().requires_grad_(True)).square().sum(), x)[0] for f in (better, stable))
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)


def test_values_stay_and_an_undone_change_leaves_no_trace() -> None:
    g = Graph(("f64", 3, 4), ("f64", 4, 2))
    x, v = g.args
    e = g.exp(x)
    total = g.reshape(g.sum(e, axes=(1,)), shape=(3, 1))
    g.returns(g.div(g.matmul(e, v), total), g.sqrt(g.square(g.mul(e, e))), g.log(g.mean(g.concat(e, g.neg(g.neg(e)), axis=1), axes=(0, 1))))
    sample = {x: np.random.default_rng(0).standard_normal((3, 4)), v: np.random.default_rng(1).standard_normal((4, 2))}
    before, text = evaluate(g.block, sample), [op.name for op in g.block.ops]
    outputs = list(g.block.last_op.operands)
    change = Change.of(Rescaling(g.block, starts_of(g.block, set(g.block.ops))))
    change.do()
    after, now = evaluate(g.block, sample), list(g.block.last_op.operands)
    for old, new in zip(outputs, now, strict=True):
        assert new is not old
        np.testing.assert_allclose(after[new], before[old], rtol=1e-13)
    change.undo()
    assert list(g.block.last_op.operands) == outputs and [op.name for op in g.block.ops] == text


POWERS: dict[str, tuple[Callable[..., torch.Tensor], Callable[..., torch.Tensor]]] = {
    "root of a product": (
        lambda a, b: torch.sqrt(torch.exp(a) * torch.exp(b) * 4),
        lambda a, b: 2 * torch.exp((a + b) / 2),
    ),
    "choice": (
        lambda a, b: torch.log(torch.where(a > b, 3 * torch.exp(a), torch.exp(b))),
        lambda a, b: torch.where(a > b, a + math.log(3), b),
    ),
    "size of a difference": (
        lambda a, b: torch.log(torch.abs(torch.exp(b) - torch.exp(a))),
        lambda a, b: a + torch.log1p(-torch.exp(b - a)),
    ),
    "square": (
        lambda a, b: torch.log(torch.square(torch.exp(a) - torch.exp(b))),
        lambda a, b: 2 * (a + torch.log1p(-torch.exp(b - a))),
    ),
}


@pytest.mark.parametrize("name", POWERS)
def test_roots_choices_and_sizes(name: str) -> None:
    formula, stable = POWERS[name]
    a, b = of(800, 500).float(), of(-790, -480).float()
    better = hnfc.optimize(Plain(formula), (a, b))
    torch.testing.assert_close(better(a, b).double(), stable(a.double(), b.double()), rtol=3e-5, atol=0)
