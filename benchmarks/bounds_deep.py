"""Bounds of deep models at the three levels, beside the largest error that runs and a search for a bad input find.

    python benchmarks/bounds_deep.py [--models NAME …] [--widths W …] [--inputs N] [--probability P]

Measured is in float32 beside float64: the largest error of any element (max) and the largest root mean square (rms) over N random inputs
and a search that moves the worst ones. At width 0 inputs are drawn like the sample; at another width they lie in the box around it. The
certified bound is of the largest element, the probabilistic one of the root mean square; ratios are over what was measured.
"""

from __future__ import annotations

import argparse
import copy
import time
from collections.abc import Callable

import torch
from torch import nn

import hnfc


def tanh_layers(depth: int, width: int) -> nn.Module:
    return nn.Sequential(*[part for _ in range(depth) for part in (nn.Linear(width, width), nn.Tanh())])


def blocks(count: int, width: int = 64) -> nn.Module:
    layer = nn.TransformerEncoderLayer(width, 4, 2 * width, batch_first=True, activation="gelu")
    return nn.TransformerEncoder(layer, count, enable_nested_tensor=False)


MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "tanh 6x64": (lambda: tanh_layers(6, 64), (1, 64)),
    "block 64": (lambda: blocks(1), (1, 16, 64)),
    "4 blocks 64": (lambda: blocks(4), (1, 16, 64)),
    "tanh 12x256": (lambda: tanh_layers(12, 256), (1, 256)),
    "12 blocks 32": (lambda: blocks(12, 32), (1, 8, 32)),
}
CERTIFIED = ("tanh 6x64", "block 64", "4 blocks 64")
"""Models whose certified bounds are a goal."""
_ROUNDS, _KEPT = 20, 8


def errors(model: nn.Module, wide: nn.Module, x: torch.Tensor) -> tuple[float, float]:
    """Of the largest element, and the root mean square."""
    with torch.no_grad():
        away = model(x).double() - wide(x.double())
    return float(away.abs().max()), float(away.square().mean().sqrt())


def measured(model: nn.Module, sample: torch.Tensor, width: float, inputs: int) -> tuple[float, float, list[float]]:
    """The largest errors found, and the root mean squares at random inputs."""
    wide, generator = copy.deepcopy(model).double(), torch.Generator().manual_seed(7)

    def inside(x: torch.Tensor) -> torch.Tensor:
        return torch.minimum(torch.maximum(x, sample - width), sample + width) if width else x

    def draw() -> torch.Tensor:
        noise = torch.randn(sample.shape, generator=generator)
        return inside(sample + width * noise) if width else noise

    seen = [(errors(model, wide, x), x) for x in (draw() for _ in range(inputs))]
    at_random = [rms for (_, rms), _ in seen]
    step = width or 1.0
    for _ in range(_ROUNDS):
        seen = sorted(seen, key=lambda entry: -entry[0][0])[:_KEPT]
        moves = [inside(x + step * torch.randn(x.shape, generator=generator) / 4) for _, x in seen for _ in range(_KEPT)]
        seen += [(errors(model, wide, x), x) for x in moves]
    return max(e for (e, _), _ in seen), max(*at_random, *(rms for (_, rms), _ in seen)), at_random


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=list(MODELS), metavar="NAME")
    parser.add_argument("--widths", nargs="+", type=float, default=[0.0, 1e-3])
    parser.add_argument("--inputs", type=int, default=1000)
    parser.add_argument("--probability", type=float, default=0.99)
    options = parser.parse_args()
    print(f"{'model':14} {'width':>6} {'level':14} {'bound':>10} {'measured':>10} {'ratio':>8} {'seconds':>8}  exceeded")
    for name in options.models:
        make, shape = MODELS[name]
        torch.manual_seed(0)
        model = make().eval()
        sample = torch.randn(shape, generator=torch.Generator().manual_seed(1))
        for width in options.widths:
            largest, rms, at_random = measured(model, sample, width, options.inputs)
            levels = [("certified", {"width": width}, largest)] if name in CERTIFIED else []
            if not width:
                levels += [("probabilistic", {"probability": options.probability}, rms), ("estimate", {}, rms)]
            for level, given, found in levels:
                start = time.perf_counter()
                bound = hnfc.analyze(model, sample, bound=level, **given).error
                seconds = time.perf_counter() - start
                above = "" if level == "certified" else f"{sum(e > bound for e in at_random)} of {len(at_random)}"
                numbers = f"{bound:10.3g} {found:10.3g} {bound / found:8.3g} {seconds:8.1f}"
                print(f"{name:14} {width:6g} {level:14} {numbers}  {above}", flush=True)


if __name__ == "__main__":
    main()
