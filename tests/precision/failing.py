"""Small models of mixed-precision failures that were reported in public, each with what the reports blame."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

Inputs = tuple[torch.Tensor, ...]


@dataclass(frozen=True)
class Failure:
    """reported: issues. inputs: for a seed. low: the format that fails. blamed: patterns, each of which a culprit must match.

    spared: patterns of sites that are not to blame, and stay narrow in the remedy. target: of the error, relative to the root mean square
    of the outputs.
    """

    model: type[nn.Module]
    inputs: Callable[[int], Inputs]
    reported: str
    blamed: tuple[str, ...]
    low: str = "fp16"
    spared: tuple[str, ...] = ()
    target: float = 1e-2


def normal(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def rms_norm(x: torch.Tensor) -> torch.Tensor:
    return x * torch.rsqrt((x / 1024).square().mean(-1, keepdim=True) + 1e-6) / 1024


class FeedForward(nn.Module):
    """The second projection has a feature of some 7·10⁴."""

    def __init__(self) -> None:
        super().__init__()
        self.wi, self.wo = nn.Linear(16, 32, bias=False), nn.Linear(32, 16, bias=False)
        with torch.no_grad():
            self.wi.weight.copy_(normal(1, 32, 16).abs())
            self.wo.weight.copy_(normal(2, 16, 32))
            self.wo.weight[3] = 250.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return rms_norm(x + self.wo(torch.relu(self.wi(x))))


class Residual(nn.Module):
    """What is added fits, and so does what it is added to."""

    def __init__(self) -> None:
        super().__init__()
        self.fc2 = nn.Linear(16, 16, bias=False)
        with torch.no_grad():
            self.fc2.weight.copy_(normal(1, 16, 16))
            self.fc2.weight[5] = 1000.0

    def forward(self, x: torch.Tensor, hidden: torch.Tensor) -> torch.Tensor:
        return rms_norm(hidden + self.fc2(x))


class Gated(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate, self.up, self.down = (nn.Linear(16, 16, bias=False) for _ in range(3))
        with torch.no_grad():
            for seed, linear in enumerate((self.gate, self.up)):
                linear.weight.copy_(10 * normal(1 + seed, 16, 16).abs())
            self.down.weight.copy_(normal(3, 16, 16) / 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return rms_norm(self.down(torch.nn.functional.silu(self.gate(x)) * self.up(x)))


class Scores(nn.Module):
    """Scores of 10⁵ even after the scale."""

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return torch.softmax((q * 0.125) @ k.transpose(-1, -2), -1) @ v


class ScaledLate(nn.Module):
    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return torch.softmax((q @ k.transpose(-1, -2)) * 2.0**-12, -1) @ v


class LinearAttention(nn.Module):
    """The last query has no positive element: its denominator is the constant alone."""

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        q, k = torch.relu(q), torch.relu(k)
        return (q @ (k.transpose(0, 1) @ v)) / (q @ k.sum(0).unsqueeze(-1) + 1e-15)


class RationalGelu(nn.Module):
    """tanh as the seventh convergent of Lambert's continued fraction, in a form that float16 has coefficients for."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = (0.79788456 * (x + 0.044715 * x.clamp(-9, 9) ** 3)).clamp(-4, 4)
        s = y * y
        above = ((s / 135135 + 378 / 135135) * s + 17325 / 135135) * s + 1
        below = ((s * (28 / 135135) + 3150 / 135135) * s + 62370 / 135135) * s + 1
        return 0.5 * x * (1 + y * above / below)


class LayerNorm(nn.Module):
    """As an exporter writes it: subtraction, power, mean, square root, division."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        d = x - x.mean(-1, keepdim=True)
        return d / torch.sqrt(torch.pow(d, 2).mean(-1, keepdim=True) + 1e-5)


class GroupNorm(nn.Module):
    """The results of the convolution fit; their squares do not."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, bias=False)
        with torch.no_grad():
            self.conv.weight.copy_(60 * normal(1, 4, 3, 3, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.conv(x)
        return y * torch.rsqrt((y * y).mean((1, 2, 3), keepdim=True) + 1e-5)


class Moments(nn.Module):
    """The mean is 30 times the deviation."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mean = x.mean(-1, keepdim=True)
        return (x - mean) * torch.rsqrt((x * x).mean(-1, keepdim=True) - mean * mean + 1e-5)


class Normalize(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x / torch.clamp(torch.sqrt((x * x).sum(-1, keepdim=True)), min=1e-12)


class Adam(nn.Module):
    def forward(self, m: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return m / (torch.sqrt(v) + 1e-8)


class GuardedLog(nn.Module):
    def forward(self, weights: torch.Tensor) -> torch.Tensor:
        return torch.log(weights + 1e-8)


class Overlap(nn.Module):
    """Of boxes of which each side fits, and no area."""

    def forward(self, p: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
        sides = torch.clamp(torch.minimum(p[:, 2:], q[:, 2:]) - torch.maximum(p[:, :2], q[:, :2]), min=0)
        one, other = p[:, 2:] - p[:, :2], q[:, 2:] - q[:, :2]
        common = sides[:, 0] * sides[:, 1]
        return common / (one[:, 0] * one[:, 1] + other[:, 0] * other[:, 1] - common)


class Average(nn.Module):
    """Exponential averages of weights: what is added is less than a half unit of what it is added to."""

    def forward(self, average: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        start = average
        for _ in range(16):
            average = average + (weights - average) * 0.001
        return average - start


class RunningSum(nn.Module):
    """The denominator of a softmax, term by term: the first is 1, and each of the others less than a half unit of it."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        e = torch.exp(x)
        total = e[..., 0]
        for i in range(1, x.shape[-1]):
            total = total + e[..., i]
        return e / total.unsqueeze(-1)


class RMSNorm(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6)


class Rotary(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("frequencies", 10000.0 ** (-torch.arange(16) / 16))

    def forward(self, positions: torch.Tensor) -> torch.Tensor:
        return torch.cos(positions.unsqueeze(-1) * self.frequencies)


class CrossEntropy(nn.Module):
    """The logarithm of a probability that vanishes."""

    def forward(self, logits: torch.Tensor) -> torch.Tensor:
        return -torch.log(torch.softmax(logits, -1))[..., 0]


class Pooling(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(2, 3, 3, bias=False)
        with torch.no_grad():
            self.conv.weight.copy_(normal(1, 3, 2, 3, 3).abs())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.conv(x))
        return y.sum((-1, -2)) / (y.shape[-1] * y.shape[-2])


def _attention(scale: float) -> Callable[[int], Inputs]:
    return lambda seed: (scale * normal(seed, 8, 64), scale * normal(seed + 1, 8, 64), normal(seed + 2, 8, 16))


def _linear_attention(seed: int) -> Inputs:
    q, k, v = normal(seed, 4, 16).abs() * 6, normal(seed + 1, 1024, 16).abs() * 4, normal(seed + 2, 1024, 8).abs() * 3
    q[3] = -1.0
    return q, k, v


def _boxes(seed: int) -> Inputs:
    corner, size = 30 * normal(seed, 8, 2).abs(), 300 + 50 * normal(seed + 1, 8, 2).abs()
    box = torch.cat([corner, corner + size], 1)
    return box, box + 20 * normal(seed + 2, 8, 4)


def _zero_row(seed: int) -> torch.Tensor:
    x = normal(seed, 4, 8)
    x[2] = 0.0
    return x


FAILURES = {
    "feed_forward": Failure(
        FeedForward, lambda s: (normal(s, 4, 16).abs() + 1,), "huggingface/transformers#5651", ("wo.matmul", "add"), spared=("wi.*",)
    ),
    "residual": Failure(
        Residual,
        lambda s: (2 + 0.05 * normal(s, 4, 16), 4e4 + 500 * normal(s + 1, 4, 16)),
        "huggingface/transformers#12225",
        ("add",),
        spared=("fc2.*", "input 1"),
    ),
    "gated": Failure(
        Gated, lambda s: (normal(s, 4, 16).abs() + 1,), "unslothai/unsloth#5092", ("mul", "down.matmul"), spared=("gate.*", "up.*")
    ),
    "scores": Failure(Scores, _attention(400), "huggingface/transformers#30199", ("matmul",), spared=("input 2", "matmul#2")),
    "scaled_late": Failure(ScaledLate, _attention(100), "ultralytics/ultralytics#24990", ("matmul",), spared=("mul", "matmul#2")),
    "linear_attention": Failure(LinearAttention, _linear_attention, "mit-han-lab/efficientvit#15", ("matmul#2", "add")),
    "rational_gelu": Failure(
        RationalGelu, lambda s: (-10 - 80 * normal(s, 256).sigmoid(),), "Tencent/ncnn#6978", ("div*", "add*"), target=0.05
    ),
    "layer_norm": Failure(
        LayerNorm, lambda s: (600 * normal(s, 4, 32),), "NVIDIA/TensorRT#2466", ("square", "mean#2"), spared=("sub", "div")
    ),
    "group_norm": Failure(GroupNorm, lambda s: (normal(s, 2, 3, 8, 8),), "neuroneural/brainchop-cli#56", ("mul",), spared=("conv*",)),
    "moments": Failure(
        Moments, lambda s: (3 + 0.1 * normal(s, 4, 256),), "tenstorrent/tt-metal#45968", ("mean#2", "mul#2"), "bf16", target=0.05
    ),
    "normalize": Failure(Normalize, lambda s: (_zero_row(s),), "pytorch/pytorch#32137", ("maximum",)),
    "adam": Failure(Adam, lambda s: (_zero_row(s), _zero_row(s) ** 2), "google-deepmind/optax#1754", ("add",), spared=("sqrt",)),
    "guarded_log": Failure(GuardedLog, lambda s: (_zero_row(s).abs(),), "rwightman/efficientdet-pytorch#291", ("add",)),
    "overlap": Failure(Overlap, _boxes, "pytorch/vision#3383", ("mul*",), spared=("div",)),
    "average": Failure(
        Average, lambda s: (1 + normal(s, 16).abs(), 2 + normal(s + 1, 16).abs()), "pytorch/ao#1124", ("add*",), "bf16", target=0.05
    ),
    "running_sum": Failure(
        RunningSum,
        lambda s: (torch.cat([torch.zeros(4, 1), -6.2 - 0.3 * normal(s, 4, 47).abs()], 1),),
        "pytorch/executorch#20090",
        ("add*",),
        "bf16",
    ),
    "rms_norm": Failure(RMSNorm, lambda s: (500 * normal(s, 4, 32),), "pytorch/pytorch#133085", ("mul",)),
    "rotary": Failure(
        Rotary, lambda s: ((4000 * normal(s, 8).abs()).round(),), "huggingface/transformers#29285", ("mul",), "bf16", spared=("cos",)
    ),
    "cross_entropy": Failure(
        CrossEntropy, lambda s: (torch.cat([-22 + normal(s, 8, 1), normal(s, 8, 7)], 1),), "dmlc/gluon-cv#942", ("softmax",)
    ),
    "pooling": Failure(Pooling, lambda s: (20 + normal(s, 1, 2, 64, 64),), "pytorch/pytorch#44350", ("sum",), spared=("conv*", "relu")),
}
