"""Values of a function before and after in one order, their modules, and the parts that rewrites changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from hnfc.core.samples import parse_range
from hnfc.frontend.models import read_model
from hnfc.pages import graphs
from hnfc.pages.changes import columns, drawn_function
from hnfc.pages.document import TextBlock
from hnfc.pages.graphs import merged
from hnfc.pages.places import line_of, module_of, source_lines
from hnfc.pipeline.compile import compile_module
from hnfc.pipeline.compiled import Compiled
from hnfc.pipeline.request import Request
from hnfc.pipeline.rulesets import load_rules
from tests.pages.models import TEXTS, written

ATTENTION = Path(__file__).parents[2] / "examples" / "naive_attention.mlir"


def compiled(file: Path, bounds: str = "-40:40", drawn: bool = True) -> Compiled:
    request = Request(phases=load_rules("stability").allowed(), ranges=[parse_range(bounds)], drawn=drawn)
    return compile_module(read_model(str(file)), request)


@pytest.mark.parametrize("text", [*TEXTS, "attention"])
def test_both_graphs_are_there_in_their_order(text: str, tmp_path: Path) -> None:
    drawing = compiled(ATTENTION if text == "attention" else written(TEXTS[text], tmp_path)).drawings[0]
    entries, of_before, of_after = merged(drawing.before, drawing.after)
    assert drawing.after is not None
    assert sorted(of_before) == list(range(len(drawing.before.nodes))) and sorted(of_after) == list(range(len(drawing.after.nodes)))
    for positions, side in ((of_before, "before"), (of_after, "after")):
        order = [positions[i] for i in sorted(positions)]
        assert order == sorted(order)
        for position in order:
            operands = getattr(entries[position], side)
            assert operands is not None and all(operand < position and getattr(entries[operand], side) is not None for operand in operands)
    assert all(e.status == "removed" for i, e in enumerate(entries) if i not in of_after.values())
    assert all(e.status == "new" for i, e in enumerate(entries) if i not in of_before.values())


def test_a_report_changes_nothing_of_the_result() -> None:
    plain, drawn = compiled(ATTENTION, drawn=False), compiled(ATTENTION)
    assert str(plain.export()) == str(drawn.export()) and not plain.drawings
    assert [(a.place, str(a.before), str(a.after)) for a in plain.applied] == [
        (a.place, str(a.before), str(a.after)) for a in drawn.applied
    ]
    assert [str(o.after) for o in plain.outputs] == [str(o.after) for o in drawn.outputs]


def test_facts_are_those_of_the_report() -> None:
    made = compiled(ATTENTION)
    function = drawn_function(made.drawings[0], made)
    (region,) = function.regions
    assert [function.entries[i].node.operation for i in region.before] == ["exp", "sum", "div"]
    assert [function.entries[i].node.operation for i in region.after] == ["softmax"] and region.rules == ["softmax_fusion"]
    (applied,) = made.applied
    assert function.entries[region.before[-1]].facts["error"][2] == str(applied.before)
    assert function.entries[region.after[0]].facts["error_after"][2] == str(applied.after)
    outputs = made.drawings[0].before.outputs
    last = next(e for e in reversed(function.entries) if e.status == "same")
    assert len(outputs) == 1 and last.facts["error"][2] == str(made.outputs[0].before)


def test_what_is_not_known_has_no_fact() -> None:
    made = compile_module(read_model(str(ATTENTION)), Request(phases=load_rules("stability").allowed(), drawn=True))
    function = drawn_function(made.drawings[0], made)
    assert all(entry.facts.keys() == {"format"} for entry in function.entries)


@pytest.mark.parametrize(
    ("place", "module", "line"),
    [
        ("layers.0.attn (model.py:12)", ("layers.0", "attn"), "model.py:12"),
        ("model.py:12", (), "model.py:12"),
        ("/encoder/layer.0/attention/MatMul", ("encoder", "layer.0", "attention"), "/encoder/layer.0/attention/MatMul"),
        ("jit(f)/jit(main)/dot_general (a b.py:3)", ("jit(f)", "jit(main)"), "a b.py:3"),
        ("aten.exp %14", (), "aten.exp %14"),
        ("head (C:\\model.py:4)", ("head",), "C:\\model.py:4"),
    ],
)
def test_a_place_has_a_module_and_a_line(place: str, module: tuple[str, ...], line: str) -> None:
    assert module_of(place) == module and line_of(place) == line


def test_source_lines_come_from_python_files_of_the_project_alone(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "model.py").write_text("".join(f"line {n}\n" for n in range(1, 20)))
    (tmp_path / "own" / "secret.txt").write_text("key\n")
    (tmp_path / "other.py").write_text("key\n")
    (tmp_path / "own" / "link.py").symlink_to(tmp_path / "other.py")
    places = [
        "m (model.py:7)",
        "secret.txt:1",
        "../other.py:1",
        f"{tmp_path}/other.py:1",
        "link.py:1",
        "missing.py:3",
        "model.py:99",
        "exp",
    ]
    assert source_lines(places, [tmp_path / "own"]) == {"model.py": {n: f"line {n}" for n in range(5, 10)}}


def test_a_graph_that_no_browser_could_hold_is_words(monkeypatch: pytest.MonkeyPatch) -> None:
    made = compiled(ATTENTION)
    function = drawn_function(made.drawings[0], made)
    monkeypatch.setattr(graphs, "MOST_VALUES", 5)
    block = graphs.graph_block(0, function.name, function.entries, columns(function.entries), "error")
    assert isinstance(block, TextBlock) and "12 values, more than the 5" in block.text
