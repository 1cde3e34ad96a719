"""Pause of the first call with another batch size, beside the original model's own time.

python benchmarks/new_size_pause.py [--layers 12] [--width 64]
"""

from __future__ import annotations

import argparse
import time

import torch

import hnfc


def seconds(module: torch.nn.Module, x: torch.Tensor) -> float:
    start = time.perf_counter()
    with torch.no_grad():
        module(x)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--width", type=int, default=64)
    options = parser.parse_args()
    layer = torch.nn.TransformerEncoderLayer(options.width, 4, 2 * options.width, batch_first=True)
    model = torch.nn.TransformerEncoder(layer, options.layers, enable_nested_tensor=False).eval()
    start = time.perf_counter()
    better = hnfc.optimize(model, torch.randn(4, 10, options.width))
    print(f"optimize {time.perf_counter() - start:.1f} s")
    for batch, tokens in ((4, 10), (5, 10), (5, 12), (7, 31), (2, 10), (1, 10)):
        x = torch.randn(batch, tokens, options.width)
        first, then = seconds(better, x), seconds(better, x)
        print(f"batch {batch} tokens {tokens}: first {first:.3f} s, then {then:.3f} s, original {seconds(model, x):.3f} s")


if __name__ == "__main__":
    main()
