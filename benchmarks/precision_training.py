"""Accuracy on digits by bits: in float32, after rounding (PTQ), and after training in the formats (QAT).

`python benchmarks/precision_training.py`. A network of two hidden layers on scikit-learn's 8 × 8 images of digits, a third of which are
kept for the test. Weights are integers by channel, or fixed point with so many integer and fraction bits. Training in the formats goes on
from the float32 weights, which `apply(train=True)` rounds in the graph; medians of three seeds.
"""

from __future__ import annotations

import copy
import sys
import warnings
from pathlib import Path
from statistics import median

import numpy as np
import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).parent.parent))

from hnfc.precision import PrecisionOptimizer

INTEGERS = tuple(f"int{bits}/channel" for bits in range(2, 9))
FIXED = tuple(f"fixed({integer}, {fraction})" for integer in (0, 1) for fraction in range(1, 6))
EPOCHS, TUNED = 40, 15


def digits(seed: int) -> list[torch.Tensor]:
    from sklearn.datasets import load_digits

    data = load_digits()
    order = np.random.default_rng(seed).permutation(len(data.target))
    images, labels = torch.from_numpy(data.data[order]).float() / 16, torch.from_numpy(data.target[order])
    third = len(labels) // 3
    return [images[third:], labels[third:], images[:third], labels[:third]]


def train(model: nn.Module, images: torch.Tensor, labels: torch.Tensor, epochs: int, rate: float) -> None:
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    size = 64
    for _ in range(epochs):
        order = torch.randperm(len(labels))
        for start in range(0, len(labels) - size + 1, size):
            batch = order[start : start + size]
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(images[batch]), labels[batch]).backward()
            optimizer.step()


def accuracy(model: nn.Module, images: torch.Tensor, labels: torch.Tensor) -> float:
    with torch.no_grad():
        return float((model(images).argmax(-1) == labels).double().mean())


def compared(form: str, seed: int) -> tuple[float, float, float]:
    """Accuracy in float32, after PTQ and after QAT."""
    torch.manual_seed(seed)
    images, labels, unseen, answers = digits(seed)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    train(model, images, labels, EPOCHS, 1e-3)
    tuned = copy.deepcopy(model)
    pins = {f"{layer}.weight": form for layer in (0, 2, 4)}
    optimizer = PrecisionOptimizer(1e3, formats=("fp32",), pins=pins, rewrites=False)
    rounded = optimizer.analyze(model, images[:64]).apply()
    trained = optimizer.analyze(tuned, images[:64]).apply(train=True)
    train(trained, images, labels, TUNED, 3e-4)
    return accuracy(model, unseen, answers), accuracy(rounded, unseen, answers), accuracy(trained, unseen, answers)


def main() -> None:
    warnings.filterwarnings("ignore")
    print(f"{'weights':14} {'float32':>8} {'PTQ':>8} {'QAT':>8}")
    for form in (*INTEGERS, *FIXED):
        columns = zip(*(compared(form, seed) for seed in range(3)), strict=True)
        print(f"{form:14} " + " ".join(f"{median(column):8.3f}" for column in columns), flush=True)


if __name__ == "__main__":
    main()
