"""Training runs that go wrong after a while, and such that do not, by name; each takes a seed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import torch
from torch import nn

F = nn.functional
Run = Callable[[int], tuple[nn.Module, Iterator[None]]]
"""A function of a seed: the model, and its loop, one step of the optimizer at a time."""


def _data(seed: int, rows: int = 32, columns: int = 8) -> tuple[torch.Tensor, torch.Tensor]:
    made = torch.Generator().manual_seed(1000 + seed)
    x = torch.randn(rows, columns, generator=made)
    return x, (x[:, :1] * 2 + torch.randn(rows, 1, generator=made) * 0.3)


def _net(seed: int, *widths: int, dtype: torch.dtype = torch.float32) -> nn.Sequential:
    torch.manual_seed(seed)
    layers: list[nn.Module] = []
    for a, b in pairwise(widths):
        layers += [nn.Linear(a, b), nn.ReLU()]
    return nn.Sequential(*layers[:-1]).to(dtype)


class Logits(nn.Module):
    """A classifier whose softmax is written by hand, on data that can be separated: its logits grow for ever."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.net = _net(seed, 8, 24 + 8 * seed, 3)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        z = self.net(x)
        e = torch.exp(z)
        return (e.sum(-1).log() - z.gather(1, y[:, None])[:, 0]).mean() - 0.05 * z.gather(1, y[:, None]).mean()


def growing_logits(seed: int) -> tuple[nn.Module, Iterator[None]]:
    model = Logits(seed)
    x, _ = _data(seed)
    optimizer = torch.optim.Adam(model.parameters(), 0.003)

    def loop() -> Iterator[None]:
        for _ in range(3000):
            optimizer.zero_grad()
            model(x, (x[:, 0] > 0).long() + (x[:, 1] > 0).long()).backward()
            optimizer.step()
            yield

    return model, loop()


def rate_too_high(seed: int) -> tuple[nn.Module, Iterator[None]]:
    """A quadratic loss under SGD: each step makes the error a few times as large."""
    model = nn.Linear(8 + seed, 1)
    x, y = _data(seed, columns=8 + seed)
    with torch.no_grad():
        top = float(torch.linalg.eigvalsh(2 * x.T @ x / len(x)).max())
    optimizer = torch.optim.SGD(model.parameters(), (2.2 + 0.2 * seed) / top)

    def loop() -> Iterator[None]:
        for _ in range(2000):
            optimizer.zero_grad()
            (model(x) - y).square().mean().backward()
            optimizer.step()
            yield

    return model, loop()


class HalfAttention(nn.Module):
    """Attention in float16 whose scores are not divided by the root of their width."""

    def __init__(self, seed: int, width: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.q, self.k = nn.Linear(8, width), nn.Linear(8, width)
        self.v = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k = self.q(x).half(), self.k(x).half()
        scores = q @ k.transpose(-1, -2)
        return torch.softmax(scores.float(), -1) @ self.v(x)


def softmax_without_scaling(seed: int) -> tuple[nn.Module, Iterator[None]]:
    model = HalfAttention(seed, 64 + 32 * seed)
    x, _ = _data(seed)
    optimizer = torch.optim.Adam(model.parameters(), 0.01)

    def loop() -> Iterator[None]:
        for _ in range(1500):
            optimizer.zero_grad()
            q, k = model.q(x), model.k(x)
            (model(x).square().mean() - 1e-3 * (q * k).sum(-1).mean()).backward()
            optimizer.step()
            yield

    return model, loop()


def weights_without_decay(seed: int) -> tuple[nn.Module, Iterator[None]]:
    """Weights before a normalization get an update across them at each step, and grow; a product of theirs is in float16."""
    torch.manual_seed(seed)

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b, self.c = nn.Linear(8, 32), nn.Linear(32, 32), nn.Linear(32, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            z = self.b(torch.relu(self.a(x))).half()
            return self.c(F.layer_norm(z.float(), [32]))

    model = Net()
    x, y = _data(seed)
    optimizer = torch.optim.SGD(model.parameters(), 0.02)

    def loop() -> Iterator[None]:
        for _ in range(1500):
            optimizer.zero_grad()
            with torch.no_grad():  # what grows by a share of itself, as with an update that does not get smaller
                model.b.weight.mul_(1.008 + 0.002 * seed)
            (model(x) - y).square().mean().backward()
            optimizer.step()
            yield

    return model, loop()


def stale_variance(seed: int) -> tuple[nn.Module, Iterator[None]]:
    """Fine-tuning with the running statistics of another time: a deep stack multiplies what they leave too large."""
    torch.manual_seed(seed)
    parts: list[nn.Module] = []
    for _ in range(4 + seed):
        parts += [nn.Linear(8, 8), nn.BatchNorm1d(8)]
    model = nn.Sequential(*parts, nn.Linear(8, 1)).half()
    for part in model:
        if isinstance(part, nn.BatchNorm1d):
            assert part.running_var is not None
            part.running_var.fill_(0.3)
            part.eval()
    x, y = (part.half() for part in _data(seed))
    optimizer = torch.optim.SGD(model.parameters(), 1e-6)

    def loop() -> Iterator[None]:
        for _ in range(500):
            optimizer.zero_grad()
            for part in model:
                if isinstance(part, nn.BatchNorm1d) and part.running_var is not None:
                    part.running_var.mul_(0.98)
            ((model(x).float() - y).square().mean() * 1e-6).backward()
            optimizer.step()
            yield

    return model, loop()


def scale_stuck(seed: int) -> tuple[nn.Module, Iterator[None]]:
    """A fixed scale of the loss in float16, while gradients grow."""
    model = _net(seed, 8, 16 + 4 * seed, 1, dtype=torch.float16)
    x, y = (part.half() for part in _data(seed))
    optimizer = torch.optim.SGD(model.parameters(), 1e-9)

    def loop() -> Iterator[None]:
        for step in range(1500):
            optimizer.zero_grad()
            loss = (model(x).float() - y.float()).square().mean() * 1.02 ** (step * (1 + 0.3 * seed))
            (loss * 64).backward()
            optimizer.step()
            yield

    return model, loop()


def eps_in_float16(seed: int) -> tuple[nn.Module, Iterator[None]]:
    """Adam in float16, whose eps is 0 there; second moments of a layer that is trained less and less vanish."""
    model = _net(seed, 8, 16 + 8 * seed, 1, dtype=torch.float16)
    x, y = (part.half() for part in _data(seed))
    optimizer = torch.optim.Adam(model.parameters(), 1e-3, foreach=False)

    def loop() -> Iterator[None]:
        for step in range(400):
            optimizer.zero_grad()
            ((model(x).float() - y.float()).square().mean() * 8 * 0.98**step).backward()
            optimizer.step()
            yield

    return model, loop()


def poisoned_batch(seed: int) -> tuple[nn.Module, Iterator[None]]:
    model = _net(seed, 8, 16, 1)
    x, y = _data(seed)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)

    def loop() -> Iterator[None]:
        for step in range(200):
            optimizer.zero_grad()
            (model(x * (math.inf if step == 120 + seed else 1.0)) - y).square().mean().backward()
            optimizer.step()
            yield

    return model, loop()


DIVERGING: dict[str, Run] = {
    "growing logits": growing_logits, "a rate too high": rate_too_high, "softmax without scaling": softmax_without_scaling,
    "weights without decay": weights_without_decay, "a stale variance": stale_variance, "a scale that is stuck": scale_stuck,
    "eps in float16": eps_in_float16, "a poisoned batch": poisoned_batch,
}  # fmt: skip


def _healthy(make: Callable[[], nn.Module], optimizer: Callable[[Any], torch.optim.Optimizer], loss: Any, *, half: bool = False) -> Run:
    def run(seed: int) -> tuple[nn.Module, Iterator[None]]:
        torch.manual_seed(seed)
        model = make()
        x, y = _data(seed)
        chosen = optimizer(model.parameters())

        def loop() -> Iterator[None]:
            for step in range(200):
                made = torch.randperm(len(x), generator=torch.Generator().manual_seed(step))[:16]
                chosen.zero_grad()
                with torch.autocast("cpu", torch.bfloat16, enabled=half):
                    value = loss(model(x[made]), y[made])
                value.backward()
                chosen.step()
                yield

        return model, loop()

    return run


class Attending(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.block = nn.TransformerEncoderLayer(8, 2, 32, batch_first=True, norm_first=True, dropout=0.0)
        self.head = nn.Linear(8, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.block(x[None])[0])


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell, self.head = nn.GRU(1, 12, batch_first=True), nn.Linear(12, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.cell(x[..., None])[0][:, -1])


def _warm(ps: Any) -> torch.optim.Optimizer:
    """Adam whose rate grows for the first steps."""
    made = torch.optim.AdamW(ps, 1e-5)
    count = iter(range(10**6))
    made.register_step_pre_hook(lambda *_: made.param_groups[0].update(lr=1e-2 * min(1.0, next(count) / 80)))
    return made


def _two_classes(z: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return F.binary_cross_entropy_with_logits(z, (y > 0).float())


HEALTHY: dict[str, Run] = {
    "a perceptron": _healthy(lambda: _net(0, 8, 32, 1), lambda ps: torch.optim.SGD(ps, 0.05), F.mse_loss),
    "momentum": _healthy(lambda: _net(1, 8, 32, 32, 1), lambda ps: torch.optim.SGD(ps, 0.01, 0.9), F.mse_loss),
    "separable classes": _healthy(lambda: _net(2, 8, 32, 1), lambda ps: torch.optim.Adam(ps, 1e-2), _two_classes),
    "a transformer": _healthy(Attending, lambda ps: torch.optim.AdamW(ps, 3e-3), F.mse_loss),
    "a warm-up": _healthy(Attending, _warm, F.smooth_l1_loss),
    "a recurrent net": _healthy(Recurrent, lambda ps: torch.optim.RMSprop(ps, 3e-3), F.mse_loss),
    "normalized": _healthy(
        lambda: nn.Sequential(nn.Linear(8, 32), nn.BatchNorm1d(32), nn.GELU(), nn.Linear(32, 1)),
        lambda ps: torch.optim.SGD(ps, 0.1),
        F.mse_loss,
    ),
    "autocast": _healthy(lambda: _net(3, 8, 64, 1), lambda ps: torch.optim.Adam(ps, 1e-2), F.mse_loss, half=True),
}  # fmt: skip
