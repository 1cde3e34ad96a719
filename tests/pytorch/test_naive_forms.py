"""Formulas as people write them first come out stable, in every format, as modules."""

from __future__ import annotations

import math
from functools import partial

import pytest
import torch
from torch import nn

import hnfc
from tests.pytorch.examples import Plain

shifted = partial(torch.softmax, dim=-1)


def naive(x):
    e = torch.exp(x)
    return e / e.sum(-1, keepdim=True)


def attention(q, k, v, softmax=naive):
    return softmax(q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])) @ v


def causal_attention(q, k, v, softmax=naive):
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    hidden = torch.triu(torch.ones(q.shape[-2], q.shape[-2], dtype=torch.bool), 1)
    return softmax(scores.masked_fill(hidden, -torch.inf)) @ v


def sliding_window(q, k, v, window=3, softmax=naive):
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    place = torch.arange(q.shape[-2])
    far = (place[:, None] - place[None, :]).abs() > window
    return softmax(scores.masked_fill(far, -torch.inf)) @ v


def linear_attention(q, k, v, softmax=naive):
    return softmax(q) @ (softmax(k.transpose(-1, -2)) @ v)


def cross_entropy(logits, target):
    return -torch.log(naive(logits)).gather(-1, target[:, None]).mean()


def layer_norm(x):
    mean = x.mean(-1, keepdim=True)
    return (x - mean) / torch.sqrt((x * x).mean(-1, keepdim=True) - mean * mean + 1e-5)


def batch(scale, *shapes):
    generator = torch.Generator().manual_seed(0)
    return lambda: tuple(scale * torch.randn(shape, generator=generator) for shape in shapes)


QKV = ((2, 12, 16),) * 3
FORMS = {
    "softmax": (naive, shifted, batch(60, (4, 9))),
    "attention": (attention, partial(attention, softmax=shifted), batch(12, *QKV)),
    "causal_attention": (causal_attention, partial(causal_attention, softmax=shifted), batch(12, *QKV)),
    "sliding_window": (sliding_window, partial(sliding_window, softmax=shifted), batch(12, *QKV)),
    "linear_attention": (linear_attention, partial(linear_attention, softmax=shifted), batch(60, *QKV)),
    "layer_norm": (layer_norm, lambda x: nn.functional.layer_norm(x, x.shape[-1:]), lambda: (12 + 0.1 * batch(1, (4, 64))()[0],)),
    "cross_entropy": (cross_entropy, nn.functional.cross_entropy, lambda: (*batch(120, (4, 9))(), torch.tensor([0, 3, 8, 1]))),
}  # fmt: skip
"""The formula as written first, the form that torch has for it, and inputs on which the first fails."""


@pytest.mark.sampled(4)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, pytest.param(torch.bfloat16, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", FORMS)
def test_it_comes_out_as_good_as_the_form_that_torch_has(name, dtype):
    written, stable, inputs = FORMS[name]
    given = tuple(x.to(dtype) if x.is_floating_point() else x for x in inputs())
    truth = stable(*(x.double() if x.is_floating_point() else x for x in given))

    def error(found):
        return float(((found.double() - truth).abs() / truth.abs().max()).nan_to_num(nan=torch.inf).max())

    # squares of numbers that float16 holds overflow, so that a variance is only computed anew for inputs that are known to be small
    better = hnfc.optimize(Plain(written), given, ranges="sample" if name == "layer_norm" and dtype == torch.float16 else None)
    before, after, best = error(written(*given)), error(better(*given)), error(stable(*given))
    assert after <= max(2 * best, 8 * torch.finfo(dtype).eps)
    assert before > 4 * after, "the naive form fails here"


def test_the_float64_form_is_the_definition():
    q, k, v = (x.double() / 12 for x in FORMS["attention"][2]())
    wanted = torch.nn.functional.scaled_dot_product_attention(q, k, v)
    torch.testing.assert_close(hnfc.optimize(Plain(attention), (q, k, v))(q, k, v), wanted)
