"""Formulas that the literature names as unstable, on arguments where they are, each beside the form that the literature gives instead."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F


@dataclass(frozen=True)
class Pattern:
    """unstable: the formula as it is written down. stable: what is to be written instead. Both take the inputs."""

    name: str
    source: str
    unstable: Callable[..., Tensor]
    stable: Callable[..., Tensor]
    inputs: tuple[Tensor, ...]


class Formula(torch.nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: Tensor) -> Tensor:
        return self.function(*inputs)


def _softmax(x: Tensor) -> Tensor:
    e = torch.exp(x)
    return e / e.sum(-1, keepdim=True)


def _one_pass(x: Tensor) -> Tensor:
    mean = x.mean(-1, keepdim=True)
    return (x * x).mean(-1, keepdim=True) - mean * mean


def _two_pass(x: Tensor) -> Tensor:
    return torch.square(x - x.mean(-1, keepdim=True)).mean(-1, keepdim=True)


def _softplus(x: Tensor) -> Tensor:
    return torch.relu(x) + torch.log1p(torch.exp(-x.abs()))


def _cross_entropy(x: Tensor, y: Tensor) -> Tensor:
    p = torch.sigmoid(x)
    return -(y * torch.log(p) + (1 - y) * torch.log(1 - p))


def _attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return torch.softmax(q @ k.transpose(-1, -2) * 0.125, -1) @ v


def _scaled_first(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return torch.softmax((q * 0.125) @ k.transpose(-1, -2), -1) @ v


def _distances(a: Tensor, b: Tensor) -> Tensor:
    return (a * a).sum(-1, keepdim=True) + (b * b).sum(-1, keepdim=True) - 2 * (a * b).sum(-1, keepdim=True)


def _log1mexp(x: Tensor) -> Tensor:
    return torch.where(x > -0.6931472, torch.log(-torch.expm1(x)), torch.log1p(-torch.exp(x)))


def _root(b: Tensor, c: Tensor) -> Tensor:
    return -b + torch.sqrt(b * b - c)


def _line(low: float, high: float, count: int = 64) -> Tensor:
    """Numbers from low to high, of which neighbours have equal ratios."""
    return torch.logspace(torch.log10(torch.tensor(low)), torch.log10(torch.tensor(high)), count)


def patterns() -> list[Pattern]:
    """All of them, on inputs that a seed gives."""
    seeded = torch.Generator().manual_seed(0)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=seeded)

    logits, wide, near = 60 * normal(8, 16), torch.cat([-_line(0.1, 100), _line(0.1, 100)]), normal(16, 8)
    queries, keys, values = (scale * normal(1, 8, 64).half() for scale in (100, 100, 1))
    unlikely = torch.cat([normal(8, 8), normal(8, 8) - 200], -1)
    softplus = torch.cat([-_line(1, 80), _line(1, 200)])
    points = normal(16, 8) + 10
    return [
        Pattern("softmax without a shift", "Blanchard, Higham, Higham 2021", _softmax, lambda x: torch.softmax(x, -1), (logits,)),
        Pattern("log of a softmax", "Blanchard, Higham, Higham 2021", lambda x: torch.log(torch.softmax(x, -1)),
                lambda x: torch.log_softmax(x, -1), (unlikely,)),
        Pattern("log-sum-exp", "Blanchard, Higham, Higham 2021", lambda x: torch.log(torch.exp(x).sum(-1, keepdim=True)),
                lambda x: torch.logsumexp(x, -1, keepdim=True), (logits,)),
        Pattern("softplus, log(1 + eˣ)", "Mächler 2012", lambda x: torch.log(1 + torch.exp(x)),
                _softplus, (softplus,)),
        Pattern("log of a sigmoid", "Mächler 2012", lambda x: torch.log(1 / (1 + torch.exp(-x))), F.logsigmoid, (softplus,)),
        Pattern("cross-entropy of a sigmoid", "Goodfellow, Bengio, Courville 2016, 6.2.2.2", _cross_entropy,
                lambda x, y: _softplus((1 - 2 * y) * x), (wide, (wide > 5).float())),
        Pattern("variance in one pass", "Chan, Golub, LeVeque 1983", _one_pass, _two_pass, (1e4 + normal(8, 64),)),
        Pattern("log(1 + x), small x", "Goldberg 1991, theorem 4", lambda x: torch.log(1 + x), torch.log1p, (_line(1e-10, 0.5),)),
        Pattern("eˣ - 1, small x", "Higham 2002, 1.14.1", lambda x: torch.exp(x) - 1, torch.expm1, (_line(1e-10, 0.5),)),
        Pattern("log(1 - eˣ), x < 0", "Mächler 2012", lambda x: torch.log(1 - torch.exp(x)), _log1mexp, (-_line(1e-6, 40),)),
        Pattern("√(a² + b²)", "Blue 1978; Moler, Morrison 1983", lambda a, b: torch.sqrt(a * a + b * b), torch.hypot,
                (_line(1e-30, 1e30), 2 * _line(1e-30, 1e30))),
        Pattern("1 - cos x, small x", "Hamming 1987", lambda x: 1 - torch.cos(x), lambda x: 2 * torch.square(torch.sin(x / 2)),
                (_line(1e-6, 1),)),
        Pattern("scale after the product (float16)", "Ding et al. 2021 (CogView)", _attention, _scaled_first, (queries, keys, values)),
        Pattern("tanh by exponentials", "Kahan 1987", lambda x: (torch.exp(2 * x) - 1) / (torch.exp(2 * x) + 1), torch.tanh, (wide,)),
        Pattern("asinh by a logarithm", "Kahan 1987", lambda x: torch.log(x + torch.sqrt(x * x + 1)), torch.asinh, (wide * 1e3,)),
        Pattern("distance by squares", "Higham 2002, 1.7", _distances, lambda a, b: torch.square(a - b).sum(-1, keepdim=True),
                (points, points + 1e-3 * near)),
        Pattern("√(x + 1) - √x, large x", "Hamming 1987", lambda x: torch.sqrt(x + 1) - torch.sqrt(x),
                lambda x: 1 / (torch.sqrt(x + 1) + torch.sqrt(x)), (_line(1, 1e7),)),
        Pattern("x² - y²", "Goldberg 1991", lambda x, y: x * x - y * y, lambda x, y: (x - y) * (x + y),
                (1 + _line(0.1, 10), 1 + _line(0.1, 10) * (1 + 1e-4))),
        Pattern("smaller root of a quadratic", "Goldberg 1991; Higham 2002, 1.8", _root,
                lambda b, c: -c / (b + torch.sqrt(b * b - c)), (_line(1, 1e4), torch.ones(64) / 2)),
    ]  # fmt: skip
