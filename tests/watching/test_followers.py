"""Numbers of a run for people to look at: lines of JSON, TensorBoard, the live table, the page."""

from __future__ import annotations

import io
import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console
from torch import nn

import hnfc
from hnfc.watching import History, JSONLines, LiveTable, ObservedStep, TensorBoard
from hnfc.watching.page import Fault, run_page
from hnfc.watching.samples import sample_of, shares_of
from tests.watching.loops import HandSoftmax, NegativeLog, batch, watched


def steps_of(model: nn.Module, steps: int = 4, **options: Any) -> tuple[hnfc.watching.Watch, list[ObservedStep]]:
    """A healthy run, and what was seen of it."""
    seen: list[ObservedStep] = []
    x, _ = batch()
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    with hnfc.watch(model, folder=None, budget=1.0, to=[seen.append, *options.pop("to", [])], **options) as watching:
        for _ in range(steps):
            optimizer.zero_grad()
            model(x.to(next(model.parameters()).dtype)).pow(2).mean().backward()
            optimizer.step()
    return watching, seen


def test_shares_are_those_of_the_elements() -> None:
    tiny = torch.finfo(torch.float16).smallest_normal
    given = torch.tensor([0, tiny / 4, 65504, math.inf, math.nan, 1.0, -3.0, -65504]).half()
    one, two = shares_of([sample_of(given), torch.tensor([0.0, 2.0]).half()])
    assert (one.zeros, one.subnormal, one.saturated, one.not_finite) == (1 / 8, 1 / 8, 2 / 8, 2 / 8)
    assert one.exponents == {-16: 1, 0: 1, 1: 1, 15: 2}
    assert (two.zeros, two.exponents) == (0.5, {1: 1})


@pytest.mark.parametrize("shape", [(512, 768), (3, 5000), (7, 1024, 6), (100_003,)])
def test_a_sample_has_all_columns(shape: tuple[int, ...]) -> None:
    columns = torch.arange(shape[-1]).expand(shape).double()
    sample = sample_of(columns)
    assert len(sample) <= 1024 and len(sample.unique()) >= min(shape[-1], 1024) * 0.6
    assert sample.data_ptr() != columns.data_ptr()


def test_all_kinds_of_values_are_seen() -> None:
    _, seen = steps_of(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1)))
    assert [step.step for step in seen] == [0, 1, 2, 3] and all(step.loss is not None for step in seen)
    kinds = {each.kind for each in seen[1].values}
    assert kinds == {"value", "gradient", "parameter", "update", "moment"}
    named = {each.name: each for each in seen[-1].values}
    assert 0 < named["update of 0.weight"].largest <= 2e-3 and named["exp_avg_sq of 2.bias"].module == "2"
    assert any(name.startswith("relu in 1 ") and 0 < each.shares.zeros < 1 for name, each in named.items())


def test_moments_that_vanish_show(recwarn: Any) -> None:
    _, seen = steps_of(nn.Linear(4, 1).half(), steps=1)
    moments = [each for each in seen[0].values if each.name.startswith("exp_avg_sq")]
    assert moments and all(each.format == "float16" for each in moments)


def test_lines_of_json(tmp_path: Path) -> None:
    file = tmp_path / "runs" / "watch.jsonl"
    watched(HandSoftmax(), NegativeLog(), budget=1.0, to=[JSONLines(file)])
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [line["step"] for line in lines] == list(range(len(lines))) and lines[-1]["loss"] == "nan"
    value = next(each for name, each in lines[0]["values"].items() if name.startswith("exp in (tests/watching/loops.py"))
    assert value["kind"] == "value" and value["format"] == "float32" and sum(value["exponents"].values()) == 36
    assert value["exponent"] == pytest.approx(math.log2(value["largest"]), abs=0.01)


def test_tensorboard(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    steps_of(nn.Linear(4, 1), to=[TensorBoard(tmp_path)])
    found = EventAccumulator(str(tmp_path)).Reload()
    assert [event.step for event in found.Scalars("loss")] == [0, 1, 2, 3]
    assert any(tag.startswith("gradients/") for tag in found.Tags()["histograms"])
    assert "parameters/weight/largest exponent" in found.Tags()["scalars"]


def test_the_live_table() -> None:
    out = io.StringIO()
    _, seen = steps_of(nn.Linear(4, 1), to=[LiveTable(5, Console(file=out, force_terminal=True, width=160))])
    shown = out.getvalue()
    assert "bits left" in shown and "step 3" in shown and "float32" in shown
    quiet = io.StringIO()
    LiveTable(5, Console(file=quiet))(seen[0])
    assert quiet.getvalue() == ""


def test_the_page_marks_the_chain(tmp_path: Path) -> None:
    watching = watched(HandSoftmax(), NegativeLog(), budget=1.0)
    watching.page(tmp_path / "run.html")
    text = (tmp_path / "run.html").read_text()
    assert "went wrong" in text and "▶ (the model)" in text and "float32 ends" in text
    again = run_page(History.of_data(json.loads(json.dumps(watching.history.as_data()))), [Fault.of(watching.bad[0])])
    assert [section.id for section in again.sections] == ["wrong", "limits", *(f"heat-{kind}" for kind in KINDS), "loss"]
    assert again.tone == "bad"


KINDS = ("value", "gradient", "moment", "parameter", "update")


def test_the_page_of_a_healthy_run() -> None:
    watching, _ = steps_of(nn.Linear(4, 1))
    page = run_page(watching.history, [])
    assert page.tone == "good" and page.headline == "Nothing went wrong in 4 steps."


def test_a_step_is_skipped() -> None:
    model = nn.Linear(4, 1)
    x, _ = batch()
    optimizer = torch.optim.Adam(model.parameters(), 0.1)
    with hnfc.watch(model, folder=None, stop="skip", report=lambda _: None) as watching:
        for step in range(6):
            optimizer.zero_grad()
            (model(x).mean() * (math.nan if step in (2, 4) else 1.0)).backward()
            optimizer.step()
    assert [bad.step for bad in watching.bad] == [2, 4] and watching.step == 6
    assert model.weight.isfinite().all() and int(optimizer.state[model.weight]["step"]) == 4
