"""Reports of a transformer of twelve layers: small enough to send, and quick to open."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from hnfc.backend.torch_mlir import emit_torch
from hnfc.frontend.pytorch import capture
from tests.pages.browser import opened
from tests.terminal import hnfc

WIDTH, HEADS, TOKENS = 32, 4, 8


class Attention(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv = torch.nn.Linear(WIDTH, 3 * WIDTH)
        self.out = torch.nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (part.view(*x.shape[:2], HEADS, -1).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        weights = torch.exp(q @ k.transpose(-1, -2) / (WIDTH // HEADS) ** 0.5)
        return self.out((weights / weights.sum(-1, keepdim=True) @ v).transpose(1, 2).reshape(x.shape))


class Layer(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = Attention()
        self.first, self.second = torch.nn.LayerNorm(WIDTH), torch.nn.LayerNorm(WIDTH)
        self.up, self.down = torch.nn.Linear(WIDTH, 2 * WIDTH), torch.nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.first(x))
        return x + self.down(torch.nn.functional.gelu(self.up(self.second(x))))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model with its modules, and a sample of all that it takes."""
    folder = tmp_path_factory.mktemp("transformer")
    torch.manual_seed(0)
    model, x = torch.nn.Sequential(*(Layer() for _ in range(12))).eval(), torch.randn(1, TOKENS, WIDTH)
    captured = capture(model, (x,), {})
    (folder / "model.mlir").write_text(emit_torch(captured.module, True))
    given = captured.signature.gather(model, [x])
    np.savez(folder / "samples.npz", **{f"arg{i}": t.detach().numpy() for i, t in enumerate(given)})
    return folder


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        ("model.mlir", "--calibrate", "samples.npz", "-q", "-o", "out.mlir"),
        ("run", "model.mlir", "--inputs", "samples.npz", "--compare"),
        ("analyze", "model.mlir", "--calibrate", "samples.npz"),
        ("precision", "model.mlir", "--calibrate", "samples.npz"),
    ],
    ids=lambda command: command[0],
)
def test_a_report_is_small_and_opens_quickly(browser: Any, folder: Path, command: tuple[str, ...]) -> None:
    done = hnfc(*command, "--report", "report.html", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert (folder / "report.html").stat().st_size < 3_000_000
    began = time.monotonic()
    with opened(browser, folder / "report.html") as page:
        modules = page.locator(".pane").first.locator(".box.module")
        assert modules.count() == 12
        assert time.monotonic() - began < 10
        modules.first.click()
        assert page.locator(".crumbs button:disabled").inner_text() == "0"
        page.fill("#search", "attention")
        page.locator("#hits", has_text="hit").wait_for()
