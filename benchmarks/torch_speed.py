"""PyTorch modules in, rewritten modules out: time and memory beside torch's own export, compiler and rewriters.

    python benchmarks/torch_speed.py [import] [attention] [rewriters]

import      nn.Module → num against torch.export with its decompositions, the whole of hnfc.optimize, and peak memory, each model in a
            process of its own
attention   naive attention against what hnfc.optimize makes of it, in eager mode and under torch.compile
rewriters   naive softmax written in six ways in a model of many layers: time, and how many each rewriter finds; peers are
            torch.fx.subgraph_rewriter, the pattern matcher of Inductor and onnxscript's rewriter, each with one pattern, the way
            that is most often written
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))
warnings.filterwarnings("ignore")

import hnfc  # noqa: E402


def seconds(function: Callable[[], Any]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


# models in and out


def resnet50() -> tuple[nn.Module, Any]:
    from transformers import ResNetConfig, ResNetForImageClassification

    return ResNetForImageClassification(ResNetConfig()), torch.randn(1, 3, 224, 224)


def bert_base() -> tuple[nn.Module, Any]:
    from transformers import BertConfig, BertModel

    return BertModel(BertConfig(attn_implementation="eager")), torch.randint(0, 1000, (1, 32))


def gpt2() -> tuple[nn.Module, Any]:
    from transformers import GPT2Config, GPT2LMHeadModel

    return GPT2LMHeadModel(GPT2Config(attn_implementation="eager", use_cache=False)), torch.randint(0, 1000, (1, 32))


MODELS = {"ResNet-50": resnet50, "BERT-base": bert_base, "GPT-2": gpt2}


def one_model(name: str) -> None:
    """Prints one row; run in a process of its own, since memory counts from its start."""
    from hnfc.frontend.pytorch import capture
    from hnfc.frontend.torch_mlir import import_module

    model, sample = MODELS[name]()
    model.eval()
    weights = sum(p.numel() * p.element_size() for p in model.parameters()) / 2**20
    hnfc.load_rules("fusion")
    hnfc.optimize(nn.Sequential(nn.Linear(4, 4), nn.Softmax(-1)), torch.randn(2, 4), "fusion")  # imports and caches of torch
    torch.export.export(model, (sample,), strict=False)  # the first call of a model warms its code
    before = megabytes()
    export = min(seconds(lambda: torch.export.export(model, (sample,), strict=False).run_decompositions()) for _ in range(2))
    ours = min(seconds(lambda: import_module(capture(model, (sample,)).module)) for _ in range(2))
    captured = megabytes()
    whole = seconds(lambda: hnfc.optimize(model, sample, "fusion", validate=False))
    unvalidated = megabytes()
    validated = seconds(lambda: hnfc.optimize(model, sample, "fusion"))
    print(
        f"{name:10} {weights:6.0f} {export:8.2f} {ours:8.2f} {ours / export:6.2f} {whole:8.2f} {validated:9.2f}"
        f" {(captured - before) / weights:8.2f} {(unvalidated - before) / weights:8.2f} {(megabytes() - before) / weights:9.2f}"
    )


def imports() -> None:
    print("                    seconds                                        memory above the model, in weights")
    print(f"{'model':10} {'MiB':>6} {'export':>8} {'→ num':>8} {'ratio':>6} {'optimize':>8} {'validated':>9}", end="")
    print(f" {'→ num':>8} {'optimize':>8} {'validated':>9}")
    for name in MODELS:
        subprocess.run([sys.executable, __file__, "--model", name], check=True, env={**os.environ, "PYTHONWARNINGS": "ignore"})


# attention


def naive_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    e = torch.exp(q @ k.transpose(-1, -2) * (q.shape[-1] ** -0.5))
    return (e / e.sum(-1, keepdim=True)) @ v


class Attention(nn.Module):
    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return naive_attention(q, k, v)


def median(function: Callable[[], Any], times: int = 7) -> float:
    function()
    return sorted(seconds(function) for _ in range(times))[times // 2]


def attention() -> None:
    print(f"{'heads×length×d':16} {'mode':9} {'naive ms':>9} {'ours ms':>9} {'ratio':>6}  largest intermediate, MiB: naive, ours")
    for heads, length, width in ((12, 512, 64), (12, 1024, 64), (12, 2048, 64)):
        inputs = tuple(torch.randn(1, heads, length, width) for _ in range(3))
        model = Attention()
        better = hnfc.optimize(model, inputs, "fusion", validate=False)
        sizes = [_largest_intermediate(m, inputs) for m in (model, better)]
        for mode in ("eager", "compiled"):
            torch._dynamo.reset()
            runs = [m if mode == "eager" else torch.compile(m) for m in (model, better)]
            with torch.no_grad():
                old, new = (median(partial(run, *inputs)) for run in runs)
            size = f"{heads}×{length}×{width}"
            print(f"{size:16} {mode:9} {old * 1e3:9.1f} {new * 1e3:9.1f} {old / new:6.1f}  {sizes[0]:.0f}, {sizes[1]:.0f}")


def _largest_intermediate(model: nn.Module, inputs: tuple[torch.Tensor, ...]) -> float:
    from torch.utils._python_dispatch import TorchDispatchMode

    class Watching(TorchDispatchMode):
        largest = 0

        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = function(*args, **(kwargs or {}))
            for part in result if isinstance(result, tuple) else (result,):
                if isinstance(part, torch.Tensor):
                    self.largest = max(self.largest, part.numel() * part.element_size())
            return result

    with torch.no_grad(), Watching() as watching:
        model(*inputs)
    return watching.largest / 2**20


# rewriters


def ways(way: int, x: torch.Tensor) -> torch.Tensor:
    """softmax(x), as people write it."""
    e = torch.exp(x)
    if way == 0:
        return e / e.sum(-1, keepdim=True)
    if way == 1:
        return e * (1 / e.sum(-1, keepdim=True))
    if way == 2:
        return e / e.sum(-1).unsqueeze(-1)
    if way == 3:
        return torch.exp(x) / torch.exp(x).sum(-1, keepdim=True)
    if way == 4:
        return (e.transpose(-1, -2) / e.sum(-1).unsqueeze(-2)).transpose(-1, -2)
    return torch.pow(e.sum(-1, keepdim=True), -1) * e


class Layers(nn.Module):
    def __init__(self, count: int) -> None:
        super().__init__()
        self.linear = nn.ModuleList(nn.Linear(16, 16) for _ in range(count))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for index, linear in enumerate(self.linear):
            x = x + ways(index % 6, linear(x))
        return x


def rewriters() -> None:
    count = 120
    model, x = Layers(count).eval(), torch.randn(4, 8, 16)
    print(f"{count} layers, {count} softmaxes in 6 ways")
    print(f"{'':34} {'seconds':>8} {'found':>6}")
    for name, peer in {
        "hnfc, all its stability rules": _hnfc, "torch.fx.subgraph_rewriter": _fx, "Inductor's pattern matcher": _inductor,
        "onnxscript.rewriter": _onnxscript,
    }.items():  # fmt: skip
        try:
            taken, number = peer(model, x)
        except ImportError as error:
            print(f"{name:34} {error}")
            continue
        print(f"{name:34} {taken:8.3f} {number:6}")


def naive(x: torch.Tensor) -> torch.Tensor:
    return ways(0, x)


def good(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x, -1)


def _hnfc(model: nn.Module, x: torch.Tensor) -> tuple[float, int]:
    from hnfc.frontend.pytorch import capture
    from hnfc.pipeline.compile import compile_module
    from hnfc.pipeline.request import Request

    rules, module = hnfc.load_rules("stability"), capture(model, (x,)).module
    start = time.perf_counter()
    compiled = compile_module(module, Request(phases=rules.allowed()))
    return time.perf_counter() - start, sum(applied.rule.name == "softmax_fusion" for applied in compiled.applied)


def _fx(model: nn.Module, x: torch.Tensor) -> tuple[float, int]:
    graph = torch.fx.symbolic_trace(model)
    start = time.perf_counter()
    number = len(torch.fx.subgraph_rewriter.replace_pattern(graph, naive, good))
    return time.perf_counter() - start, number


def _inductor(model: nn.Module, x: torch.Tensor) -> tuple[float, int]:
    from torch._inductor.pattern_matcher import PatternMatcherPass, fwd_only, register_replacement

    graph = torch.export.export(model, (x,), strict=False).run_decompositions().module()
    patterns = PatternMatcherPass()
    register_replacement(naive, good, [torch.randn_like(x)], fwd_only, patterns)
    start = time.perf_counter()
    number = patterns.apply(graph.graph)
    graph.recompile()
    return time.perf_counter() - start, number


def _onnxscript(model: nn.Module, x: torch.Tensor) -> tuple[float, int]:
    from onnxscript.rewriter import pattern

    def target(op: Any, y: Any, axes: Any) -> Any:
        e = op.Exp(y)
        return op.Div(e, op.ReduceSum(e, axes, _allow_other_attributes=True))

    program = torch.onnx.export(model, (x,), dynamo=True, verbose=False, optimize=False)
    rule = pattern.RewriteRule(target, lambda op, y, axes: op.Softmax(y, axis=-1))
    start = time.perf_counter()
    number = rule.apply_to_model(program.model)
    return time.perf_counter() - start, number


def main(arguments: list[str]) -> None:
    if arguments[:1] == ["--model"]:
        one_model(arguments[1])
        return
    parts: dict[str, Callable[[], None]] = {"import": imports, "attention": attention, "rewriters": rewriters}
    for name in arguments or parts:
        parts[name]()
        print()


if __name__ == "__main__":
    main(sys.argv[1:])
