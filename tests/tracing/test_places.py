"""File and line are those of the formula itself: inside helper functions, autocast regions and checkpointing; for all that reports them."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import hnfc
from tests.tracing.functions import line_of


def exponential(x):
    return torch.exp(x)


def shares(e):
    return e / e.sum(-1, keepdim=True)


def soft(x):
    return shares(exponential(x))


def log_sum(x):
    return torch.log(torch.exp(x).sum(-1))


def root(x):
    return torch.sqrt(x)


class Helped(nn.Module):
    def forward(self, x):
        return soft(x), log_sum(x), log_sum(2 * x)


class UnderAutocast(nn.Module):
    def forward(self, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return soft((x @ x.t()).float())


class Checkpointed(nn.Module):
    def forward(self, x):
        return checkpoint(soft, x, use_reentrant=False)


class Unfollowed(nn.Module):
    def forward(self, x):
        with torch.no_grad():
            fixed = soft(x)
        return log_sum(x) + fixed.sum(-1)


@pytest.mark.parametrize("kind", [Helped, UnderAutocast, Checkpointed])
def test_trace(kind):
    found = hnfc.trace(kind(), 300 * torch.ones(3, 3))
    assert found.first.operation == "exp"
    assert found.first.source.endswith(line_of(exponential))


def test_gradients():
    class Rooted(nn.Module):
        def forward(self, x):
            return checkpoint(root, x, use_reentrant=False)

    found = hnfc.trace(Rooted(), torch.zeros(2), backward=True)
    assert found.first.backward
    assert found.first.source.endswith(line_of(root))


@pytest.mark.parametrize("kind", [Helped, UnderAutocast, Checkpointed, Unfollowed])
def test_optimize(kind):
    model = kind()
    (data,) = hnfc.diff(model, hnfc.optimize(model, torch.randn(3, 3))).data
    places = {rewrite["rule"]: rewrite["place"] for rewrite in data["rewrites"]}
    assert places["softmax_fusion"].endswith(line_of(shares))
    if "logsumexp_fusion" in places:
        assert places["logsumexp_fusion"].endswith(line_of(log_sum))


def test_formulas_at_different_lines_stay_apart():
    class Two(nn.Module):
        def forward(self, x):
            return soft(x), exponential(x) / exponential(x).sum(-1, keepdim=True)

    model = Two()
    text = str(hnfc.diff(model, hnfc.optimize(model, torch.randn(3, 3))))
    assert "×2" not in text


def test_analyze_and_precision():
    model = nn.Sequential(nn.Linear(3, 3), Helped())
    found = hnfc.PrecisionOptimizer().analyze(model, torch.randn(3, 3))
    assert any(line_of(log_sum) in site.place for site in found.sites.sites if hasattr(site, "place")) or line_of(log_sum) in str(
        found.sites
    )


def test_torch_is_left_as_it_was():
    from torch.fx.proxy import TracerBase

    before = TracerBase._filter_traceback_frames
    hnfc.optimize(Helped(), torch.randn(3, 3))
    assert TracerBase._filter_traceback_frames is before
