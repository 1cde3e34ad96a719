"""Small models, one for each thing that a module may do besides computing; each has a naive softmax that overflows."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch
from torch import nn


def naive_softmax(x: torch.Tensor) -> torch.Tensor:
    e = torch.exp(x)
    return e / e.sum(-1, keepdim=True)


class Plain(nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: Any) -> torch.Tensor:
        return self.function(*inputs)


class Attention(nn.Module):
    """Naive attention with dropout, batch norm, and a buffer that is not saved."""

    def __init__(self, d: int = 8) -> None:
        super().__init__()
        self.q, self.k, self.v = nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d)
        self.dropout, self.norm = nn.Dropout(0.1), nn.BatchNorm1d(d)
        self.register_buffer("scale", torch.tensor(0.35), persistent=False)

    def forward(self, x: torch.Tensor) -> dict[str, Any]:
        p = naive_softmax(self.q(x) @ self.k(x).transpose(-1, -2) * self.scale)
        out = self.norm((self.dropout(p) @ self.v(x)).transpose(1, 2)).transpose(1, 2)
        return {"out": out, "p": p, "none": None}


class WithoutGradient(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            fixed = self.linear(x)
        return naive_softmax(self.linear(x) + fixed + self.linear(x).detach())


class AutocastInside(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = self.linear(x)
        with torch.autocast("cpu", enabled=False):
            z = self.linear(x)
        return naive_softmax(y.float() + z)


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.head = nn.Embedding(10, 4), nn.Linear(4, 10, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return naive_softmax(self.head(self.embedding(tokens)))


class Remembering(nn.Module):
    """Writes over its buffers, whole and in part."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(4))
        self.register_buffer("cache", torch.zeros(5, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.total += x.sum(0)
        self.cache[1:3] = x
        return naive_softmax(x + self.total)


class WritesItsInput(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        y.add_(naive_softmax(x))
        return y * 2


@dataclasses.dataclass
class Pair:
    first: torch.Tensor
    second: torch.Tensor


torch.export.register_dataclass(Pair)


class ReturnsDataclass(nn.Module):
    def forward(self, x: torch.Tensor) -> Pair:
        return Pair(naive_softmax(x), x + 1)


class Options(nn.Module):
    def forward(self, x: torch.Tensor, flag: bool = True, times: int = 3) -> torch.Tensor:
        return naive_softmax(x) * times if flag else naive_softmax(-x)


class Nested(nn.Module):
    def forward(self, xs: list[torch.Tensor], named: dict[str, torch.Tensor]) -> Any:
        return [naive_softmax(x) for x in xs], {"k": naive_softmax(named["a"])}, 3, "text"


class Constants(nn.Module):
    """Tensors that are neither parameters nor buffers."""

    def __init__(self) -> None:
        super().__init__()
        self.offset = torch.arange(4.0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return naive_softmax(x + self.offset + torch.tensor([1.0, 2.0, 3.0, 4.0]))


class Spectrum(nn.Module):
    """Complex numbers, which hnfc does not know."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.fft.rfft(naive_softmax(x)).abs()


class Parametrized(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a = nn.utils.parametrizations.weight_norm(nn.Linear(4, 4))
        self.b = nn.utils.parametrizations.spectral_norm(nn.Linear(4, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return naive_softmax(self.b(self.a(x)))


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(4, 5, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return naive_softmax(self.lstm(x[None])[0])


class DataDependent(nn.Module):
    """The number of rows depends on the values; so does a factor."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return naive_softmax(x[x[:, 0] > -9]) * x.max().item()


class Branching(nn.Module):
    """What torch.export cannot follow."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return naive_softmax(x) if x.sum() > 0 else x


def _x() -> torch.Tensor:
    return torch.randn(2, 4)


MODELS: dict[str, Callable[[], tuple[nn.Module, tuple[Any, ...]]]] = {
    "attention": lambda: (Attention(), (torch.randn(2, 5, 8),)),
    "without_gradient": lambda: (WithoutGradient(), (_x(),)),
    "autocast_inside": lambda: (AutocastInside(), (_x(),)),
    "tied": lambda: (Tied(), (torch.tensor([[1, 2], [3, 4]]),)),
    "remembering": lambda: (Remembering(), (_x(),)),
    "writes_its_input": lambda: (WritesItsInput(), (_x(), _x())),
    "dataclass": lambda: (ReturnsDataclass(), (_x(),)),
    "options": lambda: (Options(), (_x(),)),
    "nested": lambda: (Nested(), ([_x(), _x()], {"a": _x()})),
    "constants": lambda: (Constants(), (_x(),)),
    "spectrum": lambda: (Spectrum(), (_x(),)),
    "parametrized": lambda: (Parametrized(), (_x(),)),
    "recurrent": lambda: (Recurrent(), (_x(),)),
    "data_dependent": lambda: (DataDependent(), (_x(),)),
}
