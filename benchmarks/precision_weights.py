"""Weights of MiniLM in integers with scales that are found, beside torchao's own formats of weights: error and bytes, in one run.

`python benchmarks/precision_weights.py`. Formats are chosen on 24 sentences, and errors are of 24 others, relative to the outputs' root
mean square. Bytes are of parameters and buffers. torchao leaves embeddings, two fifths of MiniLM's parameters, as they are: the last
column is of the weights of linear layers alone.
"""

from __future__ import annotations

import copy
import logging
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).parent.parent))
sys.path.insert(0, str(Path(__file__).parent))

from precision_models import loaded

from hnfc.formats.packed import PackedTensor
from hnfc.precision import PrecisionOptimizer
from hnfc.precision.running import stored_size

FORMATS = (
    "int8/tensor", "int8/channel", "int8/channel/mse", "int8/channel/zero", "int8/group32", "int4/channel", "int4/channel/mse",
    "int4/group128", "int4/group32", "int4/group32/mse", "int4/group32/zero", "Q4_0", "fp8/channel", "fp4_e2m1fn/group32",
)  # fmt: skip
MIXED = ("int8/group32", "int8", "int4/group32/zero", "bf16", "fp32")


def peers() -> Iterator[tuple[str, Any]]:
    logging.disable(logging.WARNING)
    from torchao.quantization import Int8DynamicActivationInt8WeightConfig, Int8WeightOnlyConfig, IntxWeightOnlyConfig
    from torchao.quantization.granularity import PerAxis, PerGroup

    yield "torchao int8", Int8WeightOnlyConfig()
    yield "torchao int4, channel", IntxWeightOnlyConfig(weight_dtype=torch.int4, granularity=PerAxis(0))
    yield "torchao int4, groups of 128", IntxWeightOnlyConfig(weight_dtype=torch.int4, granularity=PerGroup(128))
    yield "torchao int4, groups of 32", IntxWeightOnlyConfig(weight_dtype=torch.int4, granularity=PerGroup(32))
    yield "torchao int8, int8 per token", Int8DynamicActivationInt8WeightConfig()


def relative_error(model: nn.Module, true: torch.Tensor, given: tuple[torch.Tensor, ...]) -> float:
    with torch.no_grad():
        return float((model(*given) - true).square().mean().sqrt() / true.square().mean().sqrt())


def of_linears(model: nn.Module) -> int:
    """Bytes of the weights of linear layers."""
    found = 0
    for module in model.modules():
        weight = module.weight if isinstance(module, nn.Linear) else None
        if isinstance(weight, PackedTensor):
            found += sum(part.numel() * part.element_size() for part in weight.parts())
        elif weight is not None:
            found += parts_of(weight)
    return found


def parts_of(tensor: torch.Tensor) -> int:
    """Bytes of a tensor, or of the parts of one of torchao's; codes of 4 bits count as half bytes, though torchao keeps a byte for each."""
    if type(tensor) in (torch.Tensor, nn.Parameter):
        return tensor.numel() * tensor.element_size()
    names, _ = tensor.__tensor_flatten__()  # type: ignore[attr-defined]
    bits = {torch.int4: 0.5}.get(getattr(tensor, "target_dtype", None), 1)
    parts = [getattr(tensor, name) for name in names]
    return int(sum(p.numel() * p.element_size() * (bits if p.dtype == torch.int8 and p.numel() == tensor.numel() else 1) for p in parts))


def main() -> None:
    warnings.filterwarnings("ignore")
    model, sample, unseen = loaded("MiniLM", False)
    with torch.no_grad():
        true = model(*unseen)
    print(f"{'weights':34} {'error':>8} {'all, MB':>8} {'linear, MB':>10} {'s':>6}")

    def show(name: str, made: nn.Module, whole: int, seconds: float) -> None:
        error = relative_error(made, true, unseen)
        print(f"{name:34} {error:8.1e} {whole / 1e6:8.2f} {of_linears(made) / 1e6:10.2f} {seconds:6.1f}", flush=True)

    show("float32", model, stored_size(model), 0.0)
    for name, config in peers():
        from torchao.quantization import quantize_

        made, start = copy.deepcopy(model), time.perf_counter()
        quantize_(made, config)
        tensors = {id(t): t for t in (*made.parameters(), *made.buffers())}
        show(name, made, sum(map(parts_of, tensors.values())), time.perf_counter() - start)
    for formats, target in (*(((form,), 1.0) for form in FORMATS), *((MIXED, target) for target in (1e-2, 3e-2, 1e-1))):
        start = time.perf_counter()
        made = PrecisionOptimizer(target, formats=formats).analyze(model, sample).apply()
        show(", ".join(formats) + (f" within {target:g}" if len(formats) > 1 else ""), made, stored_size(made), time.perf_counter() - start)


if __name__ == "__main__":
    main()
