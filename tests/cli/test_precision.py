"""`hnfc precision` as a person meets it."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from hnfc.cli.main import main
from hnfc.frontend.reading import read

ATTENTION = str(Path(__file__).parents[2] / "examples" / "naive_attention.mlir")


@pytest.fixture
def samples(tmp_path: Path) -> str:
    generator = np.random.default_rng(0)
    np.savez(tmp_path / "s.npz", **{f"arg{i}": generator.normal(size=(1, 2, 8, 16)).astype(np.float32) for i in range(3)})
    return str(tmp_path / "s.npz")


def test_formats_and_the_model_with_its_casts(samples: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, data, picture = tmp_path / "m.mlir", tmp_path / "m.json", tmp_path / "m.svg"
    files = ["--emit", "torch", "-o", str(out), "--json", str(data), "--picture", str(picture)]
    assert main(["precision", ATTENTION, "--calibrate", samples, "--target-accuracy", "1e-3", *files, "--all"]) == 0
    printed = capsys.readouterr()
    assert "exp" in printed.out and "an estimate" in printed.err and "% of the original's" in printed.err
    assert "torch.aten.to.dtype" in out.read_text()
    read(out)
    found = json.loads(data.read_text())
    assert found["found"] and found["error"] <= 1e-3 and found["bytes"] < found["original_bytes"]
    assert picture.read_text().startswith("<svg")


def test_the_written_model_has_the_predicted_error(samples: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "m.mlir"
    assert main(["precision", ATTENTION, "--calibrate", samples, "--target-accuracy", "1e-3", "--emit", "torch", "-o", str(out)]) == 0
    results = []
    for model in (ATTENTION, str(out)):
        assert main(["run", model, "--inputs", samples, "-o", str(tmp_path / "r.npz")]) == 0
        results.append(np.load(tmp_path / "r.npz")["output0"].astype(np.float64))
    error = np.sqrt(np.mean((results[0] - results[1]) ** 2) / np.mean(results[0] ** 2))
    assert 1e-5 < error < 1.5e-3


def test_a_refusal(samples: str, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["--target-accuracy", "3e-4", "--pin", "exp=bf16", "--memory-budget", "1GB"]
    assert main(["precision", ATTENTION, "--calibrate", samples, *given]) == 1
    out = capsys.readouterr().out
    assert "exp (export_naive_attention.py:21) needs" in out and "bits short" in out and "release the pin `exp`" in out


def test_the_least_memory_in_formats_with_arguments(samples: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = tmp_path / "p.json"
    formats = "block_fp(10, 8, 32),Q8_0,fp32"
    given = ["--target-accuracy", "2e-2", "--formats", formats, "--least", "peak", "--memory-budget", "1MB", "--json", str(data)]
    assert main(["precision", ATTENTION, "--calibrate", samples, *given]) == 0
    assert "live at the worst moment" in capsys.readouterr().err
    found = json.loads(data.read_text())
    assert found["peak_bytes"] < found["bytes"] < found["original_bytes"]
    assert {site["format"] for site in found["sites"]} & {"block_fp(10, 8, 32)", "Q8_0"}


def test_formats_as_they_are(samples: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exponentials past 65504 fit float16 with a scale only."""
    larger = str(tmp_path / "l.npz")
    np.savez(larger, **{name: 1.9 * array for name, array in np.load(samples).items()})
    given = ["precision", ATTENTION, "--calibrate", larger, "--target-accuracy", "1e-2", "--formats", "fp16"]
    assert main(given) == 0
    assert "fp16*2^" in capsys.readouterr().out
    assert main([*given, "--plain"]) == 1
    assert "65504" in capsys.readouterr().out


@pytest.mark.parametrize(("given", "code", "message"), [
    (["--pin", "exp"], 2, "PATTERN=FORMAT"), (["--pin", "exp=bf17"], 2, "bf17"), (["--formats", ""], 2, "names of formats"),
    (["--policy", "q=f32"], 2, "q=f32"), (["--memory-budget", "much"], 2, "24GB"), (["--target-accuracy", "0"], 2, "above 0"),
    (["--no-cast", "a"], 2, "two patterns"), (["--pin", "nowhere=bf16"], 2, "nowhere"), (["-o", "x"], 2, "--emit"),
    (["--no-cast", ",*"], 2, "two patterns"), (["--no-cast", "nowhere,*"], 2, "`nowhere`, where no cast"),
    (["--memory-budget", "nan"], 2, "from 0"), (["--memory-budget=-5"], 2, "from 0"), (["--headroom", "nan"], 2, "from 1"),
    (["--target-accuracy", "nan"], 2, "above 0"), (["--certified", "--width=-1"], 2, "from 0"), (["--width", "1e-3"], 2, "--certified"),
])  # fmt: skip
def test_what_is_wrong_is_said(given: list[str], code: int, message: str, samples: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["precision", ATTENTION, "--calibrate", samples, *given]) == code
    assert message in capsys.readouterr().err


def test_a_proof_and_a_machine(samples: str, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["--formats", "bf16,fp32", "--target-accuracy", "2e-2", "--target", "h100", "--least", "time", "--certified", "--width", "1e-4"]
    assert main(["precision", ATTENTION, "--calibrate", samples, *given]) == 0
    told = " ".join(capsys.readouterr().err.split())
    assert "for all inputs within 0.0001 of the samples" in told and "proved" in told
    assert "s by the model of h100" in told


def test_what_is_written_is_json(samples: str, tmp_path: Path) -> None:
    """Which has no infinite numbers."""
    data = tmp_path / "t.json"
    larger = str(tmp_path / "l.npz")
    np.savez(larger, **{name: 1.9 * array for name, array in np.load(samples).items()})
    given = ["precision", ATTENTION, "--calibrate", larger, "--json", str(data), "--target", "h100", "--least", "time"]

    def strict(name: str) -> float:
        raise AssertionError(f"{name} is no JSON")

    assert main([*given, "--target-accuracy", "inf", "--formats", "fp8_e4m3fn,fp16,fp32"]) == 0
    found = json.loads(data.read_text(), parse_constant=strict)
    assert 0 < found["bound"] <= found["seconds"] * (1 + 1e-9) and found["least"] == "time"
    assert main([*given[:6], "--target-accuracy", "0=1e-3"]) == 0
    found = json.loads(data.read_text(), parse_constant=strict)
    assert found["seconds"] is None and 0 < found["bound"] <= found["moved_bytes"] and found["least"] == "moved"


def test_numbers_that_are_not_finite_are_null() -> None:
    from hnfc.precision.files import _finite

    assert _finite({"a": [math.inf, {"b": math.nan}], "c": 1.5, "d": "x"}) == {"a": [None, {"b": None}], "c": 1.5, "d": "x"}
