"""The searches side by side: greedy, beam, random restarts and equality saturation, on small models and on transformers.

    python benchmarks/search.py [--only NAME …] [--seconds 20]

Cost is that of the result beside what greedy's costs, by the mix that is named. Errors are those of the worst element beside float64 of
the exact formula, measured in torch on the inputs that the search saw.
"""

from __future__ import annotations

import argparse
import re
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

import hnfc
from hnfc.report.table import table

_GAIN = re.compile(r"the result is ([\d.e-]+) times")


@dataclass(frozen=True)
class Model:
    """level: the rules besides the equal forms. right: the same formula in a form that float64 computes well."""

    name: str
    level: str
    cost: str
    function: Callable[..., torch.Tensor]
    inputs: tuple[torch.Tensor, ...]
    right: Callable[..., torch.Tensor] | None = None


def gelu(x: torch.Tensor) -> torch.Tensor:
    return 0.5 * x * (1 + torch.tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))


def gelu_right(x: torch.Tensor) -> torch.Tensor:
    return x / (1 + torch.exp(-2 * 0.7978845608028654 * (x + 0.044715 * x * x * x)))


def updates(w: torch.Tensor, g: torch.Tensor) -> torch.Tensor:
    for _ in range(48):
        w = w - 0.001 * g
    return w


def softmax(x: torch.Tensor) -> torch.Tensor:
    return torch.exp(x) / torch.exp(x).sum(-1, keepdim=True)


def models() -> list[Model]:
    torch.manual_seed(0)
    wide = torch.tensor([[270.0, 300.0, 290.0, 299.0]])
    square = torch.randn(96, 96)
    return [
        Model("softmax, shift alone", "none", "error", softmax, (wide,), lambda x: torch.softmax(x, -1)),
        Model("tanh GELU's tail", "stability", "error", gelu, (torch.linspace(-9, 4, 16),), gelu_right),
        Model("RMS norm in float16", "stability", "error", lambda x: x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6),
              (torch.linspace(100, 500, 16).half().reshape(2, 8),)),
        Model("48 updates in bfloat16", "stability", "error", updates, (torch.tensor([1.0, 2.0, -1.0]).bfloat16(),) * 2),
        Model("product of four matrices", "stability", "flops", lambda a, b, c, v: ((a @ b) @ c) @ v,
              (torch.randn(96, 64), torch.randn(64, 96), square, torch.randn(96, 1))),
        Model("low-rank adapter", "stability", "flops", lambda x, w, a, b: x @ w + x @ (a @ b),
              (torch.randn(8, 96), square, torch.randn(96, 4), torch.randn(4, 96))),
        Model("scaled product on an H100", "stability", "time", lambda x, w: (x @ w) / 8.0 / 2.0,
              (torch.randn(512, 8), torch.randn(8, 512))),
        Model("sum of scaled terms", "stability", "flops", lambda x: (3.0 * torch.exp(x) / 7.0).sum(-1), (torch.randn(8, 256),)),
    ]  # fmt: skip


class _Module(torch.nn.Module):
    def __init__(self, function: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        return self.function(*inputs)


def transformers() -> list[tuple[str, torch.nn.Module, Any]]:
    """GPT-2 and BERT of 12 layers, with few features: what is searched is the graph."""
    try:
        from transformers import BertConfig, BertModel, GPT2Config, GPT2Model
    except ModuleNotFoundError:
        return []
    torch.manual_seed(0)
    small: dict[str, Any] = {"vocab_size": 500, "attn_implementation": "eager", "bos_token_id": 0, "eos_token_id": 0}
    gpt2 = GPT2Model(GPT2Config(n_layer=12, n_embd=64, n_head=4, n_positions=64, use_cache=False, **small)).eval()
    bert = BertModel(BertConfig(num_hidden_layers=12, hidden_size=64, num_attention_heads=4, intermediate_size=128, **small)).eval()
    words = {"input_ids": torch.randint(0, 500, (1, 16))}
    return [("GPT-2, 12 layers", gpt2, words), ("BERT, 12 layers", bert, words)]


def rows_of(name: str, module: torch.nn.Module, inputs: Any, truth: torch.Tensor | None, seconds: float, **options: Any) -> list[list[str]]:
    rows = []
    for kind in ("greedy", "beam", "restarts", "egraph"):
        given = {**options, "seconds": seconds} if kind != "greedy" else {k: v for k, v in options.items() if k in ("group", "target")}
        start = time.perf_counter()
        better = hnfc.optimize(module, inputs, ranges="sample", search=kind, **given)
        spent = time.perf_counter() - start
        gain = _GAIN.search(str(hnfc.diff(module, better)))
        part = float(gain[1]) if gain else 1.0
        head = [name, options.get("cost", "error+0.01*flops")] if kind == "greedy" else ["", ""]
        rows.append([*head, kind, f"{part:.3g}", _error(better, inputs, truth), f"{spent:.1f}"])
    return rows


def _error(module: torch.nn.Module, inputs: Any, truth: torch.Tensor | None) -> str:
    if truth is None:
        return ""
    with torch.no_grad():
        error = (module(*inputs).double() - truth).abs() / truth.abs().clamp(min=1e-30 * truth.abs().max().item())
    return f"{error.nan_to_num(nan=torch.inf).max().item():.1e}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--only", nargs="+", default=[])
    parser.add_argument("--seconds", type=float, default=20.0)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    rows = []
    for model in models():
        if options.only and model.name not in options.only:
            continue
        truth = (model.right or model.function)(*(x.double() for x in model.inputs))
        target = {"target": "h100"} if model.cost == "time" else {}
        given = {"group": model.level, "cost": model.cost, **target}
        rows += rows_of(model.name, _Module(model.function), model.inputs, truth, options.seconds, **given)
    for name, module, inputs in transformers():
        if not options.only or name in options.only:
            rows += rows_of(name, module, inputs, None, options.seconds)
    print(table(["model", "cost", "search", "beside greedy's", "error", "seconds"], rows, 3))


if __name__ == "__main__":
    main()
