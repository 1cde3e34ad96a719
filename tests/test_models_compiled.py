"""Real models through the whole compiler: what comes out runs, is no less accurate, and has its attention fused.

`python tests/test_models_compiled.py [MODEL…]` prints a table and, with --reports, what hnfc says about each.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent.parent))

from hnfc.backend.torch_mlir import emit_bytecode, lower_to_torch_backend, verify
from hnfc.core.verdicts import verdicts
from hnfc.dsl import core
from hnfc.dsl.rulebook import shipped
from hnfc.dsl.soundness import Verdict
from hnfc.frontend.reading import read
from hnfc.pipeline.compile import compile_module
from hnfc.pipeline.compiled import Compiled
from hnfc.pipeline.levels import phases
from hnfc.pipeline.request import Request
from hnfc.report.text import text_report
from tests.exporting import export_torch
from tests.models import MODELS, REAL
from tests.running import run_torch_mlir

pytestmark = [pytest.mark.models, pytest.mark.filterwarnings("ignore")]

LEVELS = ("stability", "fusion", "all")
LAYERS = {"bert": 2, "gpt2": 2, "llama": 2, "t5": 2, "resnet": 0, "vit": 2, "whisper": 2, "minilm": 6}
ULPS = 16 * 2.0**-24


@dataclass
class Original:
    """An exported model, its inputs, its outputs as torch-mlir's lowering computes them and in float64."""

    bytecode: bytes
    inputs: list[Any]
    output: Any
    truth: Any

    def error(self, output: Any) -> float:
        return float(np.abs(output - self.truth).max() / np.abs(self.truth).max())


@cache
def original(name: str, attention: str, form: str) -> Original:
    pytest.importorskip("transformers")
    torch.manual_seed(0)
    model, inputs = {**MODELS, **REAL}[name]()
    for module in model.eval().modules():
        if hasattr(module, "config"):
            module.config._attn_implementation = attention
    exported = export_torch(model, *inputs)
    if form == "backend":
        exported = lower_to_torch_backend(exported)
    with torch.no_grad():
        truth = copy.deepcopy(model).double()(*(x.double() if x.is_floating_point() else x for x in inputs)).numpy()
    arrays = [x.numpy() for x in inputs]
    return Original(emit_bytecode(exported), arrays, run_torch_mlir(exported, arrays)[0], truth)


@cache
def plan(level: str) -> tuple[list[list[core.Rule]], dict[str, Verdict]]:
    book = shipped()
    rules = [book.only(names).rules for names in phases(level, set(book.groups()))]
    found = verdicts([rule for phase in rules for rule in phase])
    return [[rule for rule in phase if found[rule.name].proved] for phase in rules], found


def compiled(given: Original, level: str, samples: Path) -> Compiled:
    np.savez(samples, **{f"arg{i}": array for i, array in enumerate(given.inputs)})
    return compile_module(read(given.bytecode), Request(phases=plan(level)[0], calibrate=str(samples)))


def cases() -> Iterator[tuple[str, str, str]]:
    for name in [*MODELS, *REAL]:
        for attention in ("eager", "sdpa") if LAYERS[name] else ("eager",):
            yield name, attention, "raw"
        yield name, "eager", "backend"


@pytest.mark.parametrize(("name", "attention", "form"), cases())
def test_a_model_without_rewrites_is_the_same_bytes(name: str, attention: str, form: str, tmp_path: Path) -> None:
    given = original(name, attention, form)
    assert emit_bytecode(compiled(given, "none", tmp_path / "samples.npz").export()) == emit_bytecode(read(given.bytecode))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(("name", "attention", "form"), cases())
def test_a_model_stays_accurate(name: str, attention: str, form: str, level: str, tmp_path: Path) -> None:
    given = original(name, attention, form)
    result = compiled(given, level, tmp_path / "samples.npz")
    assert not result.rolled_back
    assert all(output.before is not None and not output.worse for output in result.outputs)
    module = result.export()
    verify(module)
    text = module.operation.get_asm(large_elements_limit=4)
    if level != "stability" and attention == "eager":
        assert (text.count("aten.scaled_dot_product_attention"), text.count("softmax")) == (LAYERS[name], 0)
    (output,) = run_torch_mlir(read(emit_bytecode(module)), given.inputs)
    assert given.error(output) <= max(4 * given.error(given.output), ULPS)
    _check_report(text_report(result, plan(level)[1], [], 100), result)


def _check_report(report: str, result: Compiled) -> None:
    """One section a rule, one line a place, no plumbing, no line out of bounds."""
    lines = report.splitlines()
    assert max(map(len, lines)) <= 110
    assert len(lines) < 60
    assert not any(word in report for word in ("torch.constant", "ListConstruct", "not measured", "site-packages"))
    for rule in {applied.rule.name for applied in result.applied}:
        assert sum(line.split("  ")[0] == rule for line in lines) == 1
    places = [line for line in lines if line.startswith("    at ")]
    assert len(places) <= len(result.applied)


def main(arguments: list[str]) -> None:
    import tempfile

    names = [a for a in arguments if not a.startswith("-")]
    print(f"{'model':8} {'attention':9} {'form':8} {'level':10} {'before':>8} {'after':>8} rewrites fused")
    for name, attention, form in cases():
        if names and name not in names:
            continue
        given = original(name, attention, form)
        for level in LEVELS:
            with tempfile.TemporaryDirectory() as folder:
                result = compiled(given, level, Path(folder) / "samples.npz")
            module = result.export()
            (output,) = run_torch_mlir(module, given.inputs)
            fused = str(module.operation.get_asm(large_elements_limit=4)).count("aten.scaled_dot_product_attention")
            row = f"{name:8} {attention:9} {form:8} {level:10} {given.error(given.output):8.1e} {given.error(output):8.1e}"
            print(f"{row} {len(result.applied):8} {fused} of {LAYERS[name]}", flush=True)
            if "--reports" in arguments:
                print(text_report(result, plan(level)[1], [], 100))


if __name__ == "__main__":
    main(sys.argv[1:])
