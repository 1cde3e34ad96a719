"""`hnfc.replay`: a saved step again, to the bit, and what a folder must hold."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

import hnfc
from hnfc.core.errors import ModelError
from tests.watching.loops import HandSoftmax, NegativeLog, Normed, batch, negative_log, watched


class Keyed(nn.Module):
    """Arguments of several kinds, dropout, running statistics, and a loss of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.inside = Normed()

    def forward(self, x: dict[str, torch.Tensor], *, power: float, masks: list[torch.Tensor]) -> dict[str, torch.Tensor]:
        z = self.inside(x["values"]) * masks[0]
        return {"loss": (z**power).mean(), "z": z}


def saved(tmp_path: Path) -> tuple[hnfc.watching.Watch, Keyed, dict[str, torch.Tensor]]:
    """A step that goes wrong after two good ones; the gradients that it had."""
    torch.manual_seed(0)
    model = Keyed().train()
    x, _ = batch()
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    with hnfc.watch(model, folder=str(tmp_path / "steps"), report=lambda _: None) as watching:
        for step in range(3):
            optimizer.zero_grad()
            power = 2.0 if step < 2 else 2000.0
            model({"values": x + step}, power=power, masks=[torch.full((12, 1), 9.0)])["loss"].backward()
            optimizer.step()
    gradients = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    return watching, model, gradients


def test_a_step_is_the_same_to_the_bit(tmp_path: Path) -> None:
    watching, _, gradients = saved(tmp_path)
    assert watching.bad[0].folder == str(tmp_path / "steps" / "step-2")
    again = hnfc.replay(watching.bad[0].folder, lambda: Keyed().train())
    torch.manual_seed(77)
    _, found = again.run()
    assert gradients.keys() == found.keys()
    for name, gradient in gradients.items():
        assert torch.equal(gradient.nan_to_num(7.0), found[name].nan_to_num(7.0)), name
    assert again.step == 2 and str(again).splitlines()[0] == str(watching.bad[0]).splitlines()[0]
    assert again.trace().first is not None
    wide, _ = again.run(torch.float64)
    assert wide["loss"].dtype == torch.float64 if isinstance(wide, dict) else wide.dtype == torch.float64


@pytest.mark.parametrize("criterion", [NegativeLog(), negative_log])
def test_a_loss_outside_of_the_model(tmp_path: Path, criterion: Any) -> None:
    torch.manual_seed(0)
    watching = watched(HandSoftmax().train(), criterion, folder=str(tmp_path))
    again = hnfc.replay(watching.bad[0].folder, HandSoftmax)
    first = again.trace().first
    assert first is not None and first.kind == "overflow"


def test_nothing_is_half_written(tmp_path: Path) -> None:
    watching, _, _ = saved(tmp_path)
    assert sorted(p.name for p in (tmp_path / "steps").iterdir()) == ["step-2"]
    again, _, _ = saved(tmp_path)
    assert again.bad[0].folder.endswith("step-2.2") and Path(watching.bad[0].folder).exists()


def damaged(folder: Path, how: str) -> None:
    if how == "no folder":
        folder.rename(folder.with_name("elsewhere"))
    elif how == "not JSON":
        (folder / "step.json").write_text("{")
    elif how == "no object":
        (folder / "step.json").write_text("[]")
    elif how == "another version":
        (folder / "step.json").write_text('{"version": 99}')
    elif how == "an argument is gone":
        data = json.loads((folder / "step.json").read_text())
        data["arguments"] = {"tensor": "argument.99", "requires_grad": False}
        (folder / "step.json").write_text(json.dumps(data))
    else:
        (folder / "tensors.safetensors").write_bytes(b"\xff" * 40)


@pytest.mark.parametrize("how", ["no folder", "not JSON", "no object", "another version", "an argument is gone", "no tensors"])
def test_a_damaged_folder(tmp_path: Path, how: str) -> None:
    watching, _, _ = saved(tmp_path)
    folder = Path(watching.bad[0].folder)
    damaged(folder, how)
    with pytest.raises(ModelError, match="step"):
        hnfc.replay(folder, Keyed)


def test_another_model(tmp_path: Path) -> None:
    watching, _, _ = saved(tmp_path)
    with pytest.raises(ModelError, match="not the one that was watched: inside"):
        hnfc.replay(watching.bad[0].folder, Normed)


def test_arguments_that_a_file_cannot_hold(tmp_path: Path) -> None:
    class Odd(nn.Linear):
        def forward(self, x: Any) -> torch.Tensor:
            return super().forward(x.value)

    class Holder:
        value = torch.full((2, 4), torch.nan)

    model = Odd(4, 1).train()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with hnfc.watch(model, folder=str(tmp_path / "steps"), report=lambda _: None) as watching:
        model(Holder()).sum().backward()
        optimizer.step()
    assert "an argument is a Holder, which a file cannot hold" in str(watching.bad[0])
    assert not (tmp_path / "steps").exists() or not list((tmp_path / "steps").iterdir())


def test_a_folder_is_a_sample(tmp_path: Path) -> None:
    torch.manual_seed(0)
    watching = watched(HandSoftmax().train(), NegativeLog(), folder=str(tmp_path))
    folder = watching.bad[0].folder
    again = hnfc.replay(folder, HandSoftmax)
    found = hnfc.trace(again.model, folder)
    assert found.first is not None and "exp" in found.first.operation
    assert torch.equal(again.sample[0][0], batch()[0])
    with pytest.raises(ModelError, match="no step of a watched run"):
        hnfc.trace(again.model, str(tmp_path / "nowhere"))


def test_remedies_by_name(tmp_path: Path) -> None:
    torch.manual_seed(0)
    watching = watched(HandSoftmax().train(), NegativeLog(), folder=str(tmp_path))
    again = hnfc.replay(watching.bad[0].folder, HandSoftmax, loss=lambda p: negative_log(p, batch()[1]))
    stages: list[str] = []
    tried = {trial.name: trial for trial in again.attempt("rewrite", "float64", "guard", "eps=1e-5", progress=stages.append)}
    assert stages[0] == "trying remedies …"
    assert tried.keys() == {"rewrite", "float64", "guard"} and tried["rewrite"].mends_step
    # at this rate the probability becomes 0 some steps later, and its logarithm is left as it is
    assert tried["rewrite"].trained is not None and "the loss is not finite in step" in str(tried["rewrite"])
    assert "softmax" in tried["rewrite"].code and "loops.py" in tried["guard"].code
    assert all(p.isfinite().all() for p in again.model.parameters())


def test_parameters_of_a_checkpoint_are_not_saved_again(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 300), nn.Linear(300, 300), nn.Linear(300, 1))
    for p in model[1].parameters():
        p.requires_grad_(False)
    save_file(dict(model.state_dict()), tmp_path / "model.safetensors")
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], 1e-3)
    options: dict[str, Any] = {"folder": str(tmp_path / "bad"), "report": lambda _: None}
    with hnfc.watch(model, checkpoint=tmp_path / "model.safetensors", **options) as watching:
        for step in range(3):
            optimizer.zero_grad()
            model(torch.full((2, 4), 1.0 if step < 2 else float("nan"))).sum().backward()
            optimizer.step()
    bad = watching.bad[0]
    names = load_file(Path(bad.folder) / "tensors.safetensors").keys()
    assert "parameter.1.weight" not in names and "parameter.0.weight" in names and "optimizer.0.weight.exp_avg" in names
    assert bad.size == sum(file.stat().st_size for file in Path(bad.folder).iterdir()) < 4 * 300 * 300
    assert f"{bad.size / 1e3:.1f} kB" in str(bad)
    made = nn.Sequential(nn.Linear(4, 300), nn.Linear(300, 300), nn.Linear(300, 1))
    hnfc.replay(bad.folder, made)
    assert all(torch.equal(a, b) for a, b in zip(made.parameters(), model.parameters(), strict=True))
    data = json.loads((Path(bad.folder) / "step.json").read_text())
    assert data["optimizer"]["class"] == "Adam" and data["optimizer"]["groups"][0]["params"][0] == "0.weight"
