"""`hnfc analyze` as a person meets it: tables, JSON, the annotated program, the picture, and what is wrong said in a line."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from xdsl.parser import Parser

from hnfc.cli.main import main
from hnfc.pipeline.context import PipelineContext

ATTENTION = str(Path(__file__).parents[2] / "examples" / "naive_attention.mlir")
PROGRAMS = """
(FPCore (x) :name "near one" :pre (<= 1 x 2) (- (sqrt (+ x 1)) (sqrt x)))
(FPCore (x y) :name "open" :pre (<= 1 x 2) (+ x y))
(FPCore (n) :name "loop" :pre (<= 1 n 2) (while (< n 1) ([n 0 n]) n))
"""


@pytest.fixture
def samples(tmp_path: Path) -> str:
    generator = np.random.default_rng(0)
    np.savez(tmp_path / "s.npz", **{f"arg{i}": generator.uniform(-1, 1, (1, 2, 8, 16)).astype(np.float32) for i in range(3)})
    return str(tmp_path / "s.npz")


def test_programs_of_fpcore(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, out = tmp_path / "p.fpcore", tmp_path / "p.json"
    file.write_text(PROGRAMS)
    assert main(["analyze", str(file), "--seconds", "1", "--json", str(out)]) == 1
    printed = capsys.readouterr()
    assert "near one" in printed.out and "sqrt" in printed.out
    assert "p.fpcore:3: open: the precondition gives the argument y no range" in printed.err and "p.fpcore:4: while" in printed.err
    found = json.loads(out.read_text())[0]
    assert 1e-16 < found["attained"] <= found["bound"] < 1e-15 and 1 <= found["at"]["x"] <= 2


def test_a_model_on_ranges(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program, picture, out = tmp_path / "n.mlir", tmp_path / "p.svg", tmp_path / "o.json"
    given = ["analyze", ATTENTION, "--range", "-1:1", "--emit", "num", "-o", str(program), "--picture", str(picture), "--json", str(out)]
    assert main(given) == 0
    printed = capsys.readouterr()
    assert "exp" in printed.out and "output 0: in [" in printed.err and "certified" in printed.err
    module = Parser(PipelineContext(), program.read_text()).parse_module()
    annotated = [op for op in module.walk() if "hnfc.error" in op.attributes]
    assert len(annotated) > 5
    assert ElementTree.parse(picture).getroot().tag.endswith("svg")
    data = json.loads(out.read_text())
    assert data["certified"] is True and {v["operation"] for v in data["values"]} >= {"exp", "div", "matmul"}


def test_bounds_for_samples_are_smaller(samples: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    errors = []
    for given in (["--range", "-1:1"], ["--calibrate", samples]):
        assert main(["analyze", ATTENTION, *given, "--json", str(tmp_path / "o.json")]) == 0
        values = json.loads((tmp_path / "o.json").read_text())["values"]
        errors.append(next(v["error"] for v in values if v["operation"] == "exp"))
    assert errors[1] < errors[0]


def test_bounds_of_each_place_along_an_axis(tmp_path: Path) -> None:
    out = tmp_path / "o.json"
    assert main(["analyze", ATTENTION, "--range", "-1:1", "--per", "-1", "--json", str(out)]) == 0
    for value in json.loads(out.read_text())["values"]:
        if value["operation"] == "exp":
            assert len(value["errors"]) == 8 and max(value["errors"]) == value["error"]


def test_an_estimate(samples: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "140")
    assert main(["analyze", ATTENTION, "--calibrate", samples, "--estimate", "--top", "3"]) == 0
    printed = capsys.readouterr()
    assert "%" in printed.out and "an estimate" in printed.err and "curvature" in printed.err and len(printed.out.splitlines()) == 5


def test_a_probabilistic_bound(samples: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "o.json"
    options = ["--bound", "probabilistic", "--probability", "0.999", "--json", str(out), "--report", str(tmp_path / "o.html")]
    assert main(["analyze", ATTENTION, "--calibrate", samples, *options]) == 0
    assert "probabilistic: if roundings are independent" in capsys.readouterr().err
    data = json.loads(out.read_text())
    assert data["level"] == "probabilistic" and data["probability"] == 0.999 and 0 < data["error"] < 1e-5
    assert "probability 0.999" in (tmp_path / "o.html").read_text()


@pytest.mark.parametrize(("given", "code", "message"), [
    ([ATTENTION], 1, "bounds need ranges"),
    ([ATTENTION, "--bound", "probabilistic"], 2, "--bound probabilistic needs samples"),
    ([ATTENTION, "--estimate", "--bound", "certified"], 2, "does not go with"),
    ([ATTENTION, "--range", "-1:1", "--probability", "0.9"], 2, "with --bound probabilistic"),
    ([ATTENTION, "--estimate"], 2, "--bound estimate needs samples"),
    ([ATTENTION, "--range", "2:1"], 1, "empty"),
    (["nowhere.mlir", "--range", "-1:1"], 1, "nowhere.mlir"),
    (["nowhere.fpcore"], 1, "nowhere.fpcore"),
    (["x.fpcore", "--range", "-1:1"], 2, ":pre"),
    ([ATTENTION, "--top", "0"], 2, "--top"),
    ([ATTENTION, "--range", "-1:1", "--per", "row", "--json", "x"], 2, "an axis, not `row`"),
    ([ATTENTION, "--range", "-1:1", "--per", "element"], 2, "with --json"),
    ([ATTENTION, "-o", "x"], 2, "--emit"),
])  # fmt: skip
def test_what_is_wrong_is_said_in_a_line(given: list[str], code: int, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["analyze", *given]) == code
    assert message in capsys.readouterr().err
