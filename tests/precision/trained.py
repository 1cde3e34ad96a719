"""Small models that are trained, and what torch says of their gradients."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional as F

from hnfc.precision.optimizer import PrecisionOptimizer
from hnfc.precision.training import TrainingAnalysis

Tensors = tuple[torch.Tensor, ...]


def normal(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def classes(seed: int, count: int, *shape: int) -> torch.Tensor:
    return torch.randint(0, count, shape, generator=torch.Generator().manual_seed(seed))


class Net(nn.Module):
    """Parts, and what `forward` does with them."""

    def __init__(self, forward: Callable[..., torch.Tensor], **parts: nn.Module) -> None:
        super().__init__()
        self.rule = forward
        for name, part in parts.items():
            self.add_module(name, part)
        draw = torch.Generator().manual_seed(0)
        with torch.no_grad():
            for name, p in self.named_parameters():
                p.copy_(torch.randn(p.shape, generator=draw) / max(p[0].numel(), 1) ** 0.5 + ("norm" in name and "weight" in name))

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        return self.rule(self, *inputs)


def mlp() -> nn.Module:
    def rule(net: nn.Module, x: torch.Tensor) -> torch.Tensor:
        h = torch.relu(net.norm(net.first(x)))
        return net.head(h + net.second(h))

    return Net(rule, first=nn.Linear(8, 16), norm=nn.LayerNorm(16), second=nn.Linear(16, 16), head=nn.Linear(16, 3))


def convolution(train: bool) -> nn.Module:
    def rule(net: nn.Module, x: torch.Tensor) -> torch.Tensor:
        return F.max_pool2d(F.gelu(net.norm(net.conv(x))), 2).square().mean()

    return Net(rule, conv=nn.Conv2d(2, 3, 3), norm=nn.BatchNorm2d(3).train(train))


def attention() -> nn.Module:
    return Net(lambda net, x: net.layer(x).pow(3).mean(), layer=nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True))


def tied() -> nn.Module:
    net = Net(lambda net, i: F.cross_entropy(net.head(torch.tanh(net.embed(i))), i), embed=nn.Embedding(9, 4), head=nn.Linear(4, 9))
    net.head.weight = net.embed.weight
    return net


def analyzed(net: nn.Module, sample: object, loss: Callable[..., torch.Tensor] | None = None, **requirements: object) -> TrainingAnalysis:
    return PrecisionOptimizer(**{"target_accuracy": 1e-2, "formats": ("fp16", "fp32"), "least": "bytes", **requirements}).analyze_training(
        net, sample, loss=loss
    )  # type: ignore[arg-type]


def gradients(net: nn.Module, loss: torch.Tensor) -> dict[str, torch.Tensor]:
    for p in net.parameters():
        p.grad = None
    loss.backward()  # type: ignore[no-untyped-call]
    found = {name: p.grad.clone() for name, p in net.named_parameters() if p.grad is not None}
    for p in net.parameters():
        p.grad = None
    return found


def apart(found: dict[str, torch.Tensor], true: dict[str, torch.Tensor]) -> dict[str, float]:
    assert found.keys() == true.keys()
    return {name: float((found[name].double() - g.double()).norm() / g.double().norm()) for name, g in true.items()}


class Norm(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x / torch.sqrt((x * x).mean(-1, keepdim=True) + 1e-7)


class Stream(nn.Module):
    """A residual stream that starts small and peaks near 350: what normalizes its start makes gradients large there."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.norm = nn.Embedding(32, 16), Norm()
        self.up, self.down, self.head = nn.Linear(16, 32, False), nn.Linear(32, 16, False), nn.Linear(16, 8, False)
        for seed, (part, size) in enumerate(((self.embed, 2e-3), (self.up, 1.0), (self.down, 3.0), (self.head, 0.5))):
            with torch.no_grad():
                part.weight.copy_(size * normal(seed + 1, *part.weight.shape))

    def forward(self, tokens: torch.Tensor, following: torch.Tensor) -> torch.Tensor:
        h = self.embed(tokens)
        h = h + self.down(torch.relu(self.up(self.norm(h))))
        return F.cross_entropy(self.head(h), following, reduction="sum")


def tokens(seed: int) -> Tensors:
    return classes(seed, 32, 32), classes(seed + 1, 8, 32)


def faint() -> nn.Module:
    """A loss so small that gradients are below the normal numbers of float16."""

    def rule(net: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return 1e-3 * F.mse_loss(torch.tanh(net.last(torch.tanh(net.first(x)))), y)

    return Net(rule, first=nn.Linear(16, 32), last=nn.Linear(32, 64))


def targets(seed: int) -> Tensors:
    return normal(seed, 128, 16), torch.tanh(normal(seed + 1, 128, 64))


def masked_attention() -> nn.Module:
    def rule(net: nn.Module, x: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(net.query(x), net.key(x), net.value(x), is_causal=True).pow(3).mean()

    return Net(rule, query=nn.Linear(8, 8), key=nn.Linear(8, 8), value=nn.Linear(8, 8))
