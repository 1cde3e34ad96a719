"""Bytes, memory, time and error of mixed formats beside autocast, float32 and the best uniform format, on small models of seven kinds.

One run for all: `python benchmarks/precision_running.py [NAME …]`. Weights are random. The target is the error that autocast makes on the
samples; errors are of fresh inputs, relative to the outputs' root mean square. A uniform format is the model converted as a whole, of
those whose error is within the target; "-" where none is.
"""

from __future__ import annotations

import copy
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).parent.parent))

from precision_nets import MODELS

from hnfc.precision import PrecisionOptimizer
from hnfc.precision.running import RunRecord, record

Call = Callable[..., torch.Tensor]


class Autocast(nn.Module):
    """A model under torch.autocast to bfloat16."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            result: torch.Tensor = self.model(*inputs)
        return result.float()


class Uniform(nn.Module):
    """A model converted as a whole, called with float32."""

    def __init__(self, model: nn.Module, dtype: torch.dtype) -> None:
        super().__init__()
        self.model, self.dtype = copy.deepcopy(model).to(dtype), dtype

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.model(*(x.to(self.dtype) if x.is_floating_point() else x for x in inputs))
        return result.float()


def error(call: Call, model: Call, batches: list[tuple[torch.Tensor, ...]]) -> float:
    """The largest over batches of the root mean square error."""
    with torch.no_grad():
        pairs = [(call(*batch).double(), model(*batch).double()) for batch in batches]
    found = max(float((a - b).square().mean().sqrt() / b.square().mean().sqrt()) for a, b in pairs)
    return found if found == found else float("inf")


def compared(name: str) -> list[tuple[str, RunRecord, float]]:
    """Each way to run the model with its record and its error on fresh inputs."""
    torch.manual_seed(0)
    model, draw = MODELS[name]()
    model.eval()
    sample, fresh = draw(), [draw() for _ in range(3)]
    autocast = Autocast(model)
    target = error(autocast, model, [sample])
    ways: dict[str, Any] = {"float32": model, "autocast": autocast}
    uniform = {dtype: Uniform(model, dtype) for dtype in (torch.bfloat16, torch.float16)}
    found = PrecisionOptimizer(target, formats=("bf16", "fp16", "fp32")).analyze(model, sample)
    ways["hnfc"] = found.apply()
    for dtype, converted in uniform.items():
        try:
            holds = error(converted, model, [sample]) <= target
        except RuntimeError:
            holds = False
        if holds:
            ways[f"all {str(dtype).removeprefix('torch.')}"] = converted
    return [(way, record(call, sample), error(call, model, fresh)) for way, call in ways.items()]


def show(name: str) -> None:
    for way, run, wrong in compared(name):
        print(
            f"{name:10} {way:13} {run.written / 1e6:9.3f} {run.moved / 1e6:9.3f} {run.peak / 1e6:8.3f} {run.parameters / 1e6:8.3f} "
            f"{run.seconds * 1e3:8.1f} {wrong:9.1e}", flush=True,
        )  # fmt: skip


def main() -> None:
    warnings.filterwarnings("ignore")
    print(f"{'model':10} {'way':13} {'written':>9} {'moved':>9} {'peak':>8} {'stored':>8} {'ms':>8} {'error':>9}   (MB)")
    for name in sys.argv[1:] or MODELS:
        show(name)


if __name__ == "__main__":
    main()
