"""`hnfc replay`: a saved step from the command line."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
import torch

import hnfc
from hnfc.cli.main import main

MODEL = """
import torch

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Linear(4, 2)

    def forward(self, x):
        return torch.exp(self.net(x)).mean()

def make_model():
    return Model()

one = 1
"""


@pytest.fixture
def step(tmp_path: Path) -> tuple[str, str]:
    """The folder of a step, and the file of its model."""
    file = tmp_path / "model.py"
    file.write_text(MODEL)
    space: dict[str, object] = {}
    exec(MODEL, space)
    torch.manual_seed(0)
    model = space["make_model"]()  # type: ignore[operator]
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with hnfc.watch(model, folder=str(tmp_path / "steps"), report=lambda _: None) as watching:
        model(torch.full((3, 4), 300.0)).backward()
        optimizer.step()
    return watching.bad[0].folder, str(file)


def test_a_step_again(step: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    folder, file = step
    assert main(["replay", folder]) == 0
    assert "the loss is infinite" in capsys.readouterr().out
    assert main(["replay", folder, "--model", f"{file}:make_model"]) == 0
    assert "exp" in capsys.readouterr().out
    assert main(["replay", folder, "--model", f"{file}:make_model", "--in", "float64"]) == 0
    out = capsys.readouterr().out
    assert "in float64" in out and "the gradient of net.weight: finite" in out


def test_a_step_until_an_operation(step: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    folder, file = step
    assert main(["replay", folder, "--model", f"{file}:make_model", "--until", "exp"]) == 0
    out = capsys.readouterr().out
    assert "exp in" in out and "not finite" in out and "addmm" in out and "mean" not in out
    assert main(["replay", folder, "--model", f"{file}:make_model", "--until", "sinh"]) == 2
    assert "no operation of the forward pass has 'sinh' in its name; the last is sum" in capsys.readouterr().err


def test_remedies_are_tried(step: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    folder, file = step
    again = ["replay", folder, "--model", f"{file}:make_model"]
    assert main([*again, "--with", "float64", "--with", "eps=1e-3", "--with", "guard"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("mends         float64 ") and "from not finite to" in lines[0]
    assert lines[1].startswith("mends         guard ") and lines[2].startswith("not tried     eps=1e-3")
    assert main([*again, "--with", "magic"]) == 2
    assert "there is no remedy 'magic'" in capsys.readouterr().err
    assert main(["replay", folder, "--with", "guard"]) == 2


def test_the_page_of_a_run(step: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, _ = step
    page = tmp_path / "run.html"
    assert main(["replay", folder, "--report", str(page)]) == 0
    assert "Step 0 went wrong" in page.read_text() and "the loss is infinite" in capsys.readouterr().out
    (Path(folder) / "run.json").write_text("{}")
    assert main(["replay", folder, "--report", str(page)]) == 1
    assert "the run before the step cannot be read" in capsys.readouterr().err


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("model", "code", "words"),
    [
        ("make_model", 2, "a model is FILE.py:NAME"),
        ("nowhere.py:make_model", 1, "no such file"),
        ("FILE:one", 1, "defines no function one"),
        ("FILE:two", 1, "defines no function two"),
    ],
)
def test_wrong_models(step: tuple[str, str], capsys: pytest.CaptureFixture[str], model: str, code: int, words: str) -> None:
    folder, file = step
    assert main(["replay", folder, "--model", model.replace("FILE", file)]) == code
    assert words in capsys.readouterr().err


def test_no_step(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", str(tmp_path)]) == 1
    assert "no step of a watched run can be read" in capsys.readouterr().err
    assert main(["replay", str(tmp_path), "--in", "float64"]) == 2
    (tmp_path / "step-95").mkdir()
    assert main(["replay", str(tmp_path / "step-94")]) == 1
    assert "did you mean `step-95`?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "kind"),
    [([], "report"), (["--in", "float64"], "values"), (["--until", "exp"], "operations"), (["--with", "eps=1e-6"], "remedies")],
)
def test_json_has_its_schema(step: tuple[str, str], options: list[str], kind: str, tmp_path: Path) -> None:
    folder, file = step
    model = ["--model", f"{file}:make_model"] if options else []
    assert main(["replay", folder, *model, *options, "--json", str(tmp_path / "r.json")]) == 0
    found = json.loads((tmp_path / "r.json").read_text())
    schema = json.loads((Path(__file__).parents[2] / "docs" / "hnfc.schema.json").read_text())
    jsonschema.Draft202012Validator({**schema, "$ref": "#/$defs/replay"}).validate(found)
    assert found["kind"] == kind and bool(found["entries"]) == bool(options)
