"""`hnfc trace`, and the folder of a saved step as a sample of other commands."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import hnfc
import hnfc.tracing
from hnfc.cli.main import main
from hnfc.core.errors import ModelError
from hnfc.core.saved_steps import arrays_of_step

MODEL = """
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return torch.exp(x).sum()

def make_model():
    return Model()
"""
IR = """
func.func @main(%x: !torch.vtensor<[3,4],f32>) -> !torch.vtensor<[3,4],f32> {
  %0 = torch.aten.tanh %x : !torch.vtensor<[3,4],f32> -> !torch.vtensor<[3,4],f32>
  return %0 : !torch.vtensor<[3,4],f32>
}
"""


class Taking(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.exp(x * self.scale).sum()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(hnfc.tracing, "add_remedies", lambda *_: None)  # which take most of the time
    model = Taking()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with hnfc.watch(model, folder=str(tmp_path / "steps"), report=lambda _: None) as watching:
        model(torch.tensor([[1.0, 2.0, 3.0, 90.0]]).repeat(3, 1)).backward()
        optimizer.step()
    return watching.bad[0].folder


def test_a_model_and_a_sample(folder: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "model.py").write_text(MODEL)
    named = f"{tmp_path / 'model.py'}:make_model"
    assert main(["trace", named, "--calibrate", folder, "--json", str(tmp_path / "t.json")]) == 0
    out = capsys.readouterr().out
    assert "exp overflows" in out and json.loads((tmp_path / "t.json").read_text())["text"] in out
    np.savez(tmp_path / "fine.npz", arg0=np.ones((3, 4), np.float32))
    assert main(["trace", named, "--calibrate", str(tmp_path / "fine.npz")]) == 0
    assert "nothing went wrong" in capsys.readouterr().out
    np.savez(tmp_path / "two.npz", arg0=np.ones(3), arg1=np.ones(3))
    assert main(["trace", named, "--calibrate", str(tmp_path / "two.npz")]) == 2
    assert main(["trace", named, "--calibrate", str(tmp_path / "no.npz")]) == 1
    assert main(["trace", "model", "--calibrate", folder]) == 2


def test_the_folder_of_a_step_calibrates(folder: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "m.mlir").write_text(IR)
    assert main(["precision", str(tmp_path / "m.mlir"), "--calibrate", folder, "--target-accuracy", "1e-2"]) == 0
    assert "on the samples" in capsys.readouterr().err


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64, torch.int64, torch.bool])
def test_arrays_are_those_of_the_call(dtype: torch.dtype, tmp_path: Path) -> None:
    class Several(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = nn.Linear(1, 1)

        def forward(self, x: list[torch.Tensor], n: int, *, y: dict[str, torch.Tensor]) -> torch.Tensor:
            return (self.a(torch.ones(1)) * torch.nan).sum()

    model = Several()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    x, y, z = (torch.arange(6).reshape(shape).to(dtype) for shape in ((2, 3), (6,), (3, 2)))
    with hnfc.watch(model, folder=str(tmp_path / "steps"), report=lambda _: None) as watching:
        model([x, y], 3, y={"z": z}).backward()
        optimizer.step()
    found = arrays_of_step(watching.bad[0].folder)
    assert list(found) == ["arg0", "arg1", "arg2"]
    for given, array in zip((x, y, z), found.values(), strict=True):
        assert array.shape == given.shape and np.array_equal(array.astype(np.float64), given.double().numpy())
        assert array.dtype.name == str(dtype).removeprefix("torch.")


@pytest.mark.parametrize("damage", [b"", b"\xff" * 40, (8).to_bytes(8, "little") + b"{}      "])
def test_damaged_folders(folder: str, damage: bytes) -> None:
    (Path(folder) / "tensors.safetensors").write_bytes(damage)
    with pytest.raises(ModelError, match="no step of a watched run can be read"):
        arrays_of_step(folder)
