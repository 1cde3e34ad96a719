"""A model in a file, beside itself in float64: what float32 gets wrong is seen, and gets the format that it needs."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from hnfc.backend.torch_mlir import emit_torch
from hnfc.cli.main import main
from hnfc.precision import solving
from hnfc.precision.assignment import Assignment, Infeasible, Requirements
from hnfc.precision.cast_insertion import as_module
from hnfc.precision.files import analyze_file
from hnfc.precision.solving import ReferenceGraph
from hnfc.pytorch.program import CapturedProgram
from hnfc.pytorch.settings import Settings
from hnfc.rewriter import load_rules


class Cancelling(torch.nn.Module):
    """The variance as a mean of squares less the square of a mean: in float32 nothing is left of it. Then a layer that loses little."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.weight = torch.randn(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        variance = (x * x).mean(-1) - x.mean(-1) * x.mean(-1)
        return torch.tanh(variance @ self.weight)


def written(model: torch.nn.Module, tmp_path: Path, *given: torch.Tensor) -> tuple[str, str]:
    program = CapturedProgram.of(model.eval(), given, {}, Settings(load_rules("none")))
    file, samples = tmp_path / "m.mlir", tmp_path / "s.npz"
    arguments = [t.detach() for t in program.signature.gather(model, list(given))]
    file.write_text(emit_torch(as_module(program.graph, arguments)))
    np.savez(samples, **{f"arg{i}": t.numpy() for i, t in enumerate(arguments)})
    return str(file), str(samples)


X = 1000 + torch.rand(4, 4, 64, generator=torch.Generator().manual_seed(0))


@pytest.fixture
def cancelling(tmp_path: Path) -> tuple[str, str]:
    return written(Cancelling(), tmp_path, X)


def true_error(result: np.ndarray) -> float:
    true = torch.tanh((X.double().square().mean(-1) - X.double().mean(-1).square()) @ Cancelling().weight.double()).numpy()
    return float(np.sqrt(np.mean((result.astype(np.float64) - true) ** 2) / np.mean(true**2)))


def test_what_float32_gets_wrong_is_in_float64(cancelling: tuple[str, str], tmp_path: Path) -> None:
    refused = analyze_file(*cancelling, Requirements(1e-4, formats=("bf16", "fp32")))
    assert isinstance(refused.outcome, Infeasible) and refused.outcome.cycle
    wide = analyze_file(*cancelling, Requirements(1e-4, formats=("bf16", "fp32", "fp64")))
    assert isinstance(wide.outcome, Assignment) and wide.measured < 1.1e-4
    formats = wide.outcome.formats
    assert {name for name, form in formats.items() if form == "fp64"} >= {"mul", "mean", "mul#2", "mean#2"}
    assert {form for name, form in formats.items() if name.startswith(("tanh", "matmul", "input 1"))} <= {"bf16", "fp32"}
    assert wide.original_size == refused.original_size
    out = tmp_path / "mixed.mlir"
    out.write_bytes(wide.emit())
    errors = []
    for file in (cancelling[0], str(out)):
        assert main(["run", file, "--inputs", cancelling[1], "-o", str(tmp_path / "r.npz")]) == 0
        result = np.load(tmp_path / "r.npz")["output0"]
        # arguments and results have the types of the file
        assert result.dtype == np.float32
        errors.append(true_error(result))
    assert errors[0] > 0.1 and errors[1] < 1.1e-4


def test_the_command(cancelling: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = tmp_path / "o.json"
    given = ["precision", cancelling[0], "--calibrate", cancelling[1], "--target-accuracy", "1e-4", "--json", str(data)]
    assert main([*given, "--formats", "fp32,fp64"]) == 0
    assert "fp64" in capsys.readouterr().out
    told = json.loads(data.read_text())
    assert told["measured"] < 1.1e-4 and told["original_bytes"] == 4 * sum(site["elements"] for site in told["sites"])
    assert main([*given, "--formats", "fp32", "--pin", "tanh=fp64"]) == 1
    assert "bits of significand" in capsys.readouterr().out


class Making(torch.nn.Module):
    """Numbers that the model makes itself: of torch's own type, and of one that it names."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x + torch.full((4,), 0.1)) + torch.full((4,), 0.2, dtype=torch.float32) + torch.softmax(x, -1, dtype=torch.float32)


def test_what_a_model_makes_itself_is_wide_too(tmp_path: Path) -> None:
    x = torch.tensor([1.0, 2.0, 3.0, 4.0])
    file, samples = written(Making(), tmp_path, x)
    found = analyze_file(file, samples, Requirements(1e-12, formats=("fp32", "fp64")))
    assert isinstance(found.outcome, Assignment) and found.measured < 1.1e-12
    reference = ReferenceGraph.of(found.module, found.function, torch.float64, weights=True)
    (result,) = reference.graph(x.double())
    assert torch.equal(result, (x.double() + 0.1) + 0.2 + torch.softmax(x.double(), -1))
    out = tmp_path / "mixed.mlir"
    out.write_bytes(found.emit())
    assert main(["run", str(out), "--inputs", samples, "-o", str(tmp_path / "r.npz")]) == 0
    assert np.array_equal(np.load(tmp_path / "r.npz")["output0"], result.float().numpy())


def test_weights_are_copied_once(cancelling: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    raised = solving.raise_function
    monkeypatch.setattr(solving, "raise_function", lambda *given: calls.append(given) or raised(*given))
    monkeypatch.setattr("hnfc.analysis.calibrated.raise_graph", lambda *given: pytest.fail("the graph is there already"))
    analyze_file(*cancelling, Requirements(1e-4, formats=("fp32", "fp64")))
    assert len(calls) == 1


def test_a_scale_is_undone_where_an_operation_names_its_type(tmp_path: Path) -> None:
    class Named(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.sum(1e3 * x, -1, dtype=torch.float32) / 1e6

    x = 100 + torch.rand(8, 64, generator=torch.Generator().manual_seed(0))
    found = analyze_file(*written(Named(), tmp_path, x), Requirements(1e-3, formats=("fp16",)))
    assert isinstance(found.outcome, Assignment) and "*2^" in found.outcome.formats["mul"] and found.measured < 1e-3
