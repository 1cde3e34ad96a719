"""Time of training steps under `hnfc.watch` beside bare ones, in turns in one process: time of the processor, on one thread.

python benchmarks/watch_overhead.py [--layers 12] [--width 256] [--rounds 8]
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import torch
from torch import nn

import hnfc

STEPS = 40
"""Steps of a turn: enough for the share of looks to settle."""


def a_step(layers: int, width: int) -> tuple[nn.Module, Callable[[], None]]:
    """A transformer, and a step of its training."""
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(width, 8, 4 * width, dropout=0.1, batch_first=True, norm_first=True)
    model = nn.Sequential(nn.TransformerEncoder(layer, layers, enable_nested_tensor=False), nn.Linear(width, 16)).train()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4)
    x, y = torch.randn(4, 64, width), torch.randint(16, (4, 64))
    criterion = nn.CrossEntropyLoss()

    def step() -> None:
        optimizer.zero_grad()
        criterion(model(x).flatten(0, 1), y.flatten()).backward()
        optimizer.step()

    return model, step


def seconds(step: Callable[[], None], clock: Callable[[], float] = time.process_time) -> float:
    """Time of a step, the mean over a turn."""
    start = clock()
    for _ in range(STEPS):
        step()
    return (clock() - start) / STEPS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=8)
    options = parser.parse_args()
    torch.set_num_threads(1)
    model, step = a_step(options.layers, options.width)
    seconds(step)
    budgets = {"bare": None, "no looks": 0.0, "default": 0.05, "every value": 1.0}
    taken: dict[str, list[float]] = {name: [] for name in budgets}
    watches = {name: hnfc.watch(model, folder=None, budget=budget) for name, budget in budgets.items() if budget is not None}
    for _ in range(options.rounds):
        for name in budgets:
            watching = watches.get(name)
            if watching is None:
                taken[name].append(seconds(step))
                continue
            with watching:
                taken[name].append(seconds(step))
    bare = statistics.median(taken["bare"])
    for name, found in taken.items():
        ratios = [a / b for a, b in zip(found, taken["bare"], strict=True)]
        line = f"{name:12} {1e3 * statistics.median(found):7.1f} ms a step, {statistics.median(found) / bare:.3f} of bare"
        print(f"{line}; by turns {statistics.median(ratios):.3f} (from {min(ratios):.3f} to {max(ratios):.3f})")


if __name__ == "__main__":
    main()
