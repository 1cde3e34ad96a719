"""Real models through hnfc.optimize: the same function, no less accurate, trained and not, in three formats.

`python tests/pytorch/test_models.py [MODEL…]` prints a table.
"""

from __future__ import annotations

import copy
import sys
import time
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent.parent.parent))

import hnfc
from tests.models import FURTHER, MODELS, REAL

pytestmark = [pytest.mark.models, pytest.mark.filterwarnings("ignore")]

LEVELS = ("stability", "fusion")
LAYERS = {"bert": 2, "gpt2": 2, "llama": 2, "t5": 2, "resnet": 0, "vit": 2, "whisper": 2, "minilm": 6, "mamba": 0, "mixtral": 2}
DTYPES = (torch.float32, torch.bfloat16, torch.float16)


@cache
def original(name: str, attention: str) -> tuple[torch.nn.Module, tuple[Any, ...], torch.Tensor]:
    """The model, its inputs, and its true result."""
    pytest.importorskip("transformers")
    torch.manual_seed(0)
    model, inputs = {**MODELS, **FURTHER, **REAL}[name]()
    for module in model.eval().modules():
        if hasattr(module, "config"):
            module.config._attn_implementation = attention
    wide = copy.deepcopy(model)
    if name == "mixtral":  # its experts have a form of their own that torch has for float64 too
        for module in wide.modules():
            if hasattr(module, "config"):
                module.config._experts_implementation = "eager"
    with torch.no_grad():
        truth = wide.double()(*(cast(x, torch.float64) for x in inputs))
    return model, inputs, truth


def cast(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return x.to(dtype) if x.is_floating_point() else x


def error(found: torch.Tensor, truth: torch.Tensor) -> float:
    assert bool(torch.isfinite(found).all())
    return float((found.double() - truth).abs().max() / truth.abs().max())


def measured(name: str, attention: str, level: str, dtype: torch.dtype) -> tuple[float, float, Counter[str], Any]:
    model, inputs, truth = original(name, attention)
    model = copy.deepcopy(model).to(dtype)
    given = tuple(cast(x, dtype) for x in inputs)
    better = hnfc.optimize(model, given, level)
    with torch.no_grad():
        before, after = error(model(*given), truth), error(better(*given), truth)
    difference = hnfc.diff(model, better)
    return before, after, Counter(rewrite["rule"] for rewrite in difference.data[0]["rewrites"]), difference


def cases() -> Iterator[tuple[str, str]]:
    for name in [*MODELS, *FURTHER, *REAL]:
        for attention in ("eager", "sdpa") if LAYERS[name] else ("eager",):
            yield name, attention


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(("name", "attention"), cases())
def test_no_less_accurate(name: str, attention: str, level: str, dtype: torch.dtype) -> None:
    before, after, rules, difference = measured(name, attention, level, dtype)
    assert after <= max(1.5 * before, 8 * torch.finfo(dtype).eps)
    if level == "fusion" and attention == "eager" and dtype == torch.float32:
        assert sum(count for rule, count in rules.items() if rule.startswith("attention_fusion")) == LAYERS[name]
    assert max(map(len, str(difference).splitlines())) <= 140
    assert "site-packages" not in str(difference)


@pytest.mark.parametrize(("name", "attention"), cases())
def test_gradients_in_train_mode(name: str, attention: str) -> None:
    model, inputs, _ = original(name, attention)
    model = copy.deepcopy(model).train()
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
        for probability in ("attention_dropout", "dropout", "dropout_prob", "attn_dropout"):
            if isinstance(getattr(module, probability, None), float):
                setattr(module, probability, 0.0)
    reference = copy.deepcopy(model)
    better = hnfc.optimize(model, inputs, "fusion")
    better(*inputs).square().mean().backward()
    reference(*inputs).square().mean().backward()
    for (path, a), b in zip(better.named_parameters(), reference.parameters(), strict=True):
        if b.grad is not None:
            scale = float(b.grad.abs().max())
            torch.testing.assert_close(a.grad, b.grad, rtol=1e-3, atol=1e-3 * scale + 1e-7, msg=lambda text, path=path: f"{path}: {text}")


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama", "vit"])
def test_other_sizes(name: str) -> None:
    model, inputs, _ = original(name, "eager")
    better = hnfc.optimize(model, inputs, "fusion")
    with torch.no_grad():
        for copies in (2, 3):
            given = tuple(torch.cat([x] * copies) for x in inputs)
            torch.testing.assert_close(better(*given), model(*given), rtol=1e-4, atol=1e-4)


def main(names: list[str]) -> None:
    print(f"{'model':8} {'attention':9} {'level':10} {'dtype':9} {'before':>8} {'after':>8} {'s':>5} rewrites")
    for name, attention in cases():
        for level in LEVELS if not names or name in names else ():
            for dtype in DTYPES:
                start = time.perf_counter()
                before, after, rules, _ = measured(name, attention, level, dtype)
                row = f"{name:8} {attention:9} {level:10} {str(dtype).removeprefix('torch.'):9} {before:8.1e} {after:8.1e}"
                print(f"{row} {time.perf_counter() - start:5.1f} {dict(rules)}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
