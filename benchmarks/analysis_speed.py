"""Analyses beside a forward and a backward pass, and how they grow with the model.

python benchmarks/analysis_speed.py [--layers 12] [--width 256] [--tokens 64] [--operations 1000 10000 100000]
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np
import torch
from torch.utils import _pytree as pytree
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Block

from hnfc.analysis.calibrated import calibrate
from hnfc.analysis.certified import certified
from hnfc.analysis.findings import estimated_findings
from hnfc.analysis.reading import read_function
from hnfc.core.tensors import to_numpy
from hnfc.dialects.interval_arrays import IntervalArray
from hnfc.dialects.num import OPERATIONS
from hnfc.dialects.types import tensor
from hnfc.frontend.pytorch import capture


def seconds(run: Callable[[], object], times: int = 3) -> float:
    """The median."""
    found = []
    for _ in range(times):
        began = time.perf_counter()
        run()
        found.append(time.perf_counter() - began)
    return statistics.median(found)


def transformer(layers: int, width: int, tokens: int) -> None:
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(width, 4, 4 * width, batch_first=True, activation="gelu")
    model = torch.nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
    model.eval()
    x = torch.randn(1, tokens, width, requires_grad=True)
    captured = capture(model, (x,))
    imported, function = read_function(captured.module)
    block = function.body.block
    given = [t.detach() for t in captured.signature.gather(model, pytree.tree_leaves((x,)))]
    boxes = {value: IntervalArray.of(to_numpy(t).astype(np.float64)[None]) for value, t in zip(block.args, given, strict=True)}
    # gradients of every parameter, as the calibration takes them
    passes = seconds(lambda: model.train(False)(x).sum().backward(), 5)
    estimate = seconds(lambda: calibrate(imported, [given]))
    told = seconds(lambda: estimated_findings(imported, block, calibrate(imported, [given])))
    bounds = seconds(lambda: certified(block, boxes, imported.weight), 1)
    print(f"{layers} layers of width {width}, {tokens} tokens, {len(list(block.ops))} operations")
    print(f"  one forward and backward pass {passes * 1000:8.0f} ms")
    print(f"  calibrated                    {estimate * 1000:8.0f} ms, {estimate / passes:.1f} times as long")
    print(f"  with what analyze tells of it {told * 1000:8.0f} ms, {told / passes:.1f} times as long")
    print(f"  certified                     {bounds * 1000:8.0f} ms")


def generated(operations: int) -> Block:
    """A chain of elementwise operations and sums over rows that neither grows nor shrinks."""
    block = Block(arg_types=[tensor("f32", (4, 8))])
    value = block.args[0]
    for index in range(operations):
        name = ("tanh", "add", "mul", "softplus", "sub")[index % 5]
        operands = (value, block.args[0]) if name in ("add", "mul", "sub") else (value,)
        operation = OPERATIONS[name].make(*operands)
        block.add_op(operation)
        value = operation.results[0]
    block.add_op(ReturnOp(value))
    return block


def growth(sizes: list[int]) -> None:
    print(f"{'operations':>10} {'certified':>10} {'ms each':>9}")
    for size in sizes:
        block = generated(size)
        box = {block.args[0]: IntervalArray(np.full((1, 4, 8), 0.4), np.full((1, 4, 8), 0.5))}
        taken = seconds(lambda block=block, box=box: certified(block, box), 1)  # type: ignore[misc]
        print(f"{size:10} {taken:8.2f} s {taken / size * 1000:9.3f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--operations", type=int, nargs="*", default=[1_000, 10_000, 100_000])
    options = parser.parse_args()
    transformer(options.layers, options.width, options.tokens)
    growth(options.operations)


if __name__ == "__main__":
    main()
