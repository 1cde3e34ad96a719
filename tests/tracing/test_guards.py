"""Guards, a wider eps and another loss scale: offered where they were seen to mend, with the code that does it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import hnfc
import hnfc.tracing.remedies as remedies

F = nn.functional


@pytest.fixture(autouse=True)
def _trials_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaves out rewrites and formats, which take most of the time."""
    monkeypatch.setattr(remedies, "_add_rewrites", lambda *_: None)
    monkeypatch.setattr(remedies, "_add_formats", lambda *_: None)


class Of(nn.Module):
    """A layer before a function."""

    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor], zeros: bool = True) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.function = nn.Linear(3, 4), function
        if zeros:
            nn.init.zeros_(self.layer.bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(self.layer(x))


X = torch.cat([torch.zeros(1, 3), torch.ones(4, 3)])
NONE = torch.full((5,), -100)


@pytest.mark.parametrize(
    ("function", "code"),
    [
        (lambda z: z.square().sum(1).sqrt().mean(), "x.clamp_min"),
        (lambda z: torch.sqrt(z.abs()).sum(), "x.clamp_min"),
        (lambda z: torch.linalg.vector_norm(z, dim=1).pow(0.5).sum(), "x.clamp_min"),
        (lambda z: (z / z.abs().sum(1, keepdim=True)).square().sum(), "the divisor y"),
        (lambda z: (1 / z.square()).clamp(max=1e3).sum(), "the divisor y"),
        (lambda z: (z + float("-inf") * (z == 0)).nan_to_num(0, 0).softmax(-1).sum() + torch.log(z.square()).mean(), "x.clamp_min"),
        (lambda z: z.masked_fill(z == 0, float("-inf")).softmax(-1).square().sum(), "masked as a whole"),
        (lambda z: torch.erfinv(z.tanh().sign()).square().sum(), "x.clamp(-1"),
        (lambda z: F.cross_entropy(z, NONE), "reduction='sum'"),
        (lambda z: torch.acos(1 - z.square().clamp(max=2)).sum(), "x.clamp(-1"),
        (lambda z: F.ctc_loss(z[None].log_softmax(-1), torch.ones(5, 3, dtype=torch.long), (1,) * 5, (3,) * 5), "zero_infinity"),
    ],
)
def test_a_guard_mends(function: Any, code: str) -> None:
    found = hnfc.trace(Of(function), X, backward=True)
    assert found.first is not None and any(code in remedy and "test_guards.py" in remedy for remedy in found.first.remedies), str(found)


def test_a_clamp_that_changes_exact_values_is_not_offered() -> None:
    found = hnfc.trace(Of(lambda z: torch.exp(100 * z.abs()).log().sum()), 4 * X, backward=True)
    assert found.first is not None and found.first.kind == "overflow" and found.first.remedies == []


def test_a_wider_eps() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4, eps=0.0))
    nn.init.zeros_(model[0].weight)
    nn.init.zeros_(model[0].bias)
    found = hnfc.trace(model, X, backward=True)
    assert found.first is not None and any(remedy.startswith("eps=1e-06 for LayerNorm") for remedy in found.first.remedies)
    assert model[1].eps == 0.0


def test_another_scale_of_the_loss() -> None:
    model = Of(lambda z: z).half()
    found = hnfc.trace(model, X.half(), backward=True, loss=lambda z: z.float().square().mean() * 1e-7)
    assert found.first is not None and any("gradients in float32 divided by" in remedy for remedy in found.first.remedies)


class Masked(nn.Module):
    """Attention whose key bias has a gradient of exactly 0, with a row that is masked as a whole."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.q, self.k = nn.Linear(3, 4), nn.Linear(3, 4)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        scores = (self.q(x) @ self.k(x).transpose(1, 2)).masked_fill(mask[:, None], float("-inf"))
        return (scores.softmax(-1) @ x).square().mean()


def test_a_gradient_that_is_exactly_0_is_not_changed_by_a_guard() -> None:
    mask = torch.tensor([[False, False, True], [True, True, True]])
    found = hnfc.trace(Masked(), (torch.randn(2, 3, 3, generator=torch.Generator().manual_seed(1)), mask), backward=True)
    assert found.first is not None and any("masked as a whole" in remedy for remedy in found.first.remedies), str(found)


INFINITE = float("-inf")


@pytest.mark.parametrize(
    ("function", "code"),
    [
        (lambda z: z[z > 1e9].mean() + z.square().mean(), "max(x.numel(), 1)"),
        (lambda z: z[:1].std(0).sum() + z.square().mean(), "correction=0"),
        (lambda z: (z.masked_fill(z == 0, INFINITE) - z.detach().masked_fill(z == 0, INFINITE)).exp().sum(), "equal infinities"),
        (lambda z: torch.logdet(z.T @ z * 0), "torch.eye"),
        (lambda z: 1e-3 * z.log_softmax(-1).masked_fill(z == 0, INFINITE).sum() + z[1:].square().sum(), "adds nothing"),
        (lambda z: (z / (z != 0).sum(0)[None] / (z[:1] != 0).sum(1, keepdim=True)).square().sum(), "the divisor y"),
        (lambda z: (1 - z.square() / z.square().clamp_min(1e-9)).log().clamp_min(-9).sum() + z.square().mean(), "x.clamp_min"),
    ],
)
def test_guards_of_reductions_and_differences(function: Any, code: str) -> None:
    found = hnfc.trace(Of(function), X, backward=True)
    assert found.first is not None and any(code in remedy and "test_guards.py" in remedy for remedy in found.first.remedies), str(found)


def test_a_masked_element_that_is_added_up_is_the_fault() -> None:
    def smoothed(z: torch.Tensor) -> torch.Tensor:
        scores = z.masked_fill(torch.tensor([False, False, False, True]), INFINITE)
        return -(0.1 * scores.log_softmax(-1)).sum()

    found = hnfc.trace(Of(smoothed), X, backward=True)
    assert found.first is not None and found.first.operation.startswith("sum") and "it adds up -inf" in found.first.reason
    assert found.first.cause is not None and "masked_fill" in found.first.cause.operation


def test_a_divisor_of_0_is_named() -> None:
    found = hnfc.trace(Of(lambda z: ((z - z.mean(0)) / (z * 0).sum(0)).sum()), torch.ones(4, 3) + 0.1, backward=False)
    assert found.first is not None and ("2 of 2) is 0" in found.first.reason or "0/0" in found.first.reason)
