"""Commands on models in folders."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from hnfc.cli.main import main
from tests.sharded.tiny import write_llama

pytest.importorskip("transformers")
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("folder")
    write_llama(made / "m", 2)
    np.savez(made / "s.npz", input_ids=np.arange(24).reshape(2, 12))
    return made


def test_analyze(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["analyze", str(folder / "m"), "--calibrate", str(folder / "s.npz"), "--json", str(folder / "a.json")]) == 0
    found = capsys.readouterr()
    assert "model.layers.0 … model.layers.1 ×2" in found.out and "measured, not a bound" in found.err
    assert len(json.loads((folder / "a.json").read_text())["layers"]) == 4


@pytest.mark.slow
def test_precision_and_rewriting(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = folder / "q"
    options = ["--calibrate", str(folder / "s.npz"), "--target-accuracy", "0.05", "--formats", "int8,int4/group32", "-o", str(out)]
    assert main(["precision", str(folder / "m"), *options]) == 0
    assert "allowed 0.05" in capsys.readouterr().err and (out / "config.json").exists()
    assert main([str(folder / "m"), "-O", "stability", "--calibrate", str(folder / "s.npz")]) == 0
    assert "weights stay as they are" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["precision", "--calibrate", "s.npz"], "-o names the folder"),
        (["precision", "--calibrate", "s.npz", "-o", "q", "--certified"], "--certified is for models in files"),
        (["precision", "--calibrate", "s.npz", "-o", "q", "--target-accuracy", "0=1"], "one target for all outputs"),
        (["analyze"], "needs a sample"),
        (["analyze", "--range", "0:1"], "--range is for models in files"),
        (["model", "--jobs", "2"], "--jobs is for models in files"),
    ],
)
def test_options_that_do_not_fit(folder: Path, options: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    command, *rest = options
    assert main([*([] if command == "model" else [command]), str(folder / "m"), *rest]) == 2
    assert words in capsys.readouterr().err


def test_work_is_for_folders(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["analyze", "examples/naive_attention.mlir", "--work", "x"]) == 2
    assert "--work is for a model in a folder" in capsys.readouterr().err
