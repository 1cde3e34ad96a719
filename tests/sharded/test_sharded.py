"""Models in shards: captured without weights, analyzed, rewritten and written layer by layer, in any number of runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import fx

from hnfc import sharded
from hnfc.core.errors import ModelError, UsageError
from hnfc.sharded import journal, rewriting, solving
from hnfc.sharded.model import parameters_on_meta
from hnfc.sharded.segments import call_of, chain_of
from tests.sharded.tiny import write_llama

transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.filterwarnings("ignore")
WORDS = {"input_ids": torch.arange(24).reshape(2, 12) * 5 % 120}


class Block(torch.nn.Module):
    """A softmax that is written out, which a rule mends."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.up = torch.nn.Linear(width, width)
        self.register_buffer("shift", torch.linspace(0, 1, width), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        raised = torch.exp(self.up(x + self.shift))
        return x + raised / raised.sum(-1, keepdim=True)


class Deep(torch.nn.Module):
    """Equal blocks and a head."""

    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        self.blocks = torch.nn.ModuleList(Block(width) for _ in range(depth))
        self.head = torch.nn.Linear(width, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def in_folder(folder: Path, model: torch.nn.Module) -> None:
    folder.mkdir(parents=True)
    save_file({name: tensor.contiguous() for name, tensor in model.state_dict().items()}, folder / "all.safetensors")


def deep(folder: Path, width: int = 16, depth: int = 3) -> tuple[torch.nn.Module, sharded.ShardedModel]:
    torch.manual_seed(1)
    model = Deep(width, depth).eval()
    in_folder(folder, model)
    with parameters_on_meta():
        empty = Deep(width, depth).eval()
    return model, sharded.ShardedModel.of(empty, folder)


@pytest.mark.parametrize(("dtype", "tied"), [pytest.param(torch.float32, False, marks=pytest.mark.slow), (torch.bfloat16, True)])
def test_a_folder_runs_as_transformers_runs_it(tmp_path: Path, dtype: torch.dtype, tied: bool) -> None:
    write_llama(tmp_path, 2, dtype, tie_word_embeddings=tied)
    model = transformers.LlamaForCausalLM.from_pretrained(tmp_path, dtype=dtype).eval()
    model.config.use_cache = False
    opened = sharded.open_folder(tmp_path)
    with torch.no_grad():
        assert torch.equal(sharded.optimize(opened, WORDS, "none").run(WORDS)[0], model(**WORDS).logits)
    assert all(parameter.is_meta for parameter in opened.module.parameters())


@pytest.mark.slow
def test_equal_layers_are_one_kind(tmp_path: Path) -> None:
    write_llama(tmp_path, 4)
    model = sharded.open_folder(tmp_path)
    chain = chain_of(model, *call_of(model, WORDS))
    assert [segment.name for segment in chain.segments[1:-1]] == [f"model.layers.{place}" for place in range(4)]
    assert sorted(chain.repeats().values()) == [1, 1, 4]
    found = sharded.analyze(model, WORDS)
    assert any(row[0] == "model.layers.0 … model.layers.3 ×4" for row in found.rows())


def test_errors_are_those_beside_float64(tmp_path: Path) -> None:
    model, opened = deep(tmp_path / "m")
    x = torch.randn(5, 16, generator=torch.Generator().manual_seed(2))
    found = sharded.analyze(opened, x)
    with torch.no_grad():
        own, wide = model(x).double(), model.double()(x.double())
    assert found.error == pytest.approx(float((own - wide).square().mean().sqrt() / wide.square().mean().sqrt()), rel=1e-9)


def test_layers_that_overflow_are_found(tmp_path: Path) -> None:
    _, opened = deep(tmp_path / "m")
    found = sharded.analyze(opened, torch.full((2, 16), 300.0))
    assert found.layers[0].infinite and found.error == float("inf")


@pytest.mark.parametrize(("width", "depth"), [(16, 3), (8, 2)])
def test_a_kind_of_layer_is_rewritten_once(tmp_path: Path, width: int, depth: int) -> None:
    _, opened = deep(tmp_path / "m", width, depth)
    x = torch.randn(4, width)
    better = sharded.optimize(opened, x)
    kinds = [rewrites for rewrites in better.rewrites.values() if rewrites.applied]
    assert len(kinds) == 1 and f"blocks.0 … blocks.{depth - 1} ×{depth}: 1 rewrites" in better.report()
    large = torch.full((4, width), 300.0)
    with torch.no_grad():
        assert sharded.optimize(opened, x, "none").run(large)[0].isnan().all()
        assert better.run(large)[0].isfinite().all()


@pytest.mark.slow
def test_formats_are_those_that_transformers_reads(tmp_path: Path) -> None:
    pytest.importorskip("compressed_tensors")
    from transformers import AutoModelForCausalLM

    model = write_llama(tmp_path / "m", 2)
    (tmp_path / "m" / "vocabulary.txt").write_text("one")
    found = sharded.precision(sharded.open_folder(tmp_path / "m"), WORDS, tmp_path / "out", 0.05, ("int8", "int4/group32"))
    assert not found.refused and set(found.formats.values()) == {"int8/channel", "int4/group32"}
    read = AutoModelForCausalLM.from_pretrained(tmp_path / "out").eval()
    with torch.no_grad():
        off, true = read(**WORDS).logits.double(), model(**WORDS).logits.double()
    assert float((off - true).square().mean().sqrt() / true.square().mean().sqrt()) == pytest.approx(found.measured, rel=1e-3)
    assert (tmp_path / "out" / "vocabulary.txt").exists() and not (tmp_path / "out" / solving.WORK).exists()


def _ended(monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    """Ends a run while a layer is recorded."""
    add, count = journal.Journal.add, [0]

    def ending(self: Any, result: Any, values: Any) -> None:
        count[0] += 1
        if count[0] > after:
            raise KeyboardInterrupt
        add(self, result, values)

    monkeypatch.setattr(journal.Journal, "add", ending)


@pytest.mark.parametrize("after", [pytest.param(0, marks=pytest.mark.slow), 1, pytest.param(3, marks=pytest.mark.slow)])
def test_a_run_that_was_ended_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    _, model = deep(tmp_path / "m", 32, 3)
    x, formats = torch.randn(8, 32, generator=torch.Generator().manual_seed(3)), ("int8", "int4/group32")
    once = sharded.precision(model, x, tmp_path / "once", 0.05, formats)
    with monkeypatch.context() as ending, pytest.raises(KeyboardInterrupt):
        _ended(ending, after)
        sharded.precision(model, x, tmp_path / "twice", 0.05, formats)
    if after:
        for other in ({"sample": x + 1}, {"target": 0.01}, {"formats": ("int8",)}):
            settings = {"sample": x, "target": 0.05, "formats": formats, **other}
            with pytest.raises(ModelError, match="another model, sample or setting"):
                sharded.precision(model, folder=tmp_path / "twice", **settings)
    seen: list[str] = []
    again = sharded.precision(model, x, tmp_path / "twice", 0.05, formats, progress=seen.append)
    assert len([text for text in seen if text.startswith(LAYERS)]) == len(once.layers) - after
    assert again.layers == once.layers and again.measured == once.measured
    names = sorted(path.name for path in (tmp_path / "once").iterdir())
    assert names == sorted(path.name for path in (tmp_path / "twice").iterdir())
    assert all((tmp_path / "once" / name).read_bytes() == (tmp_path / "twice" / name).read_bytes() for name in names)


LAYERS = "layers:"
"""Start of what progress says of a layer."""
RUN = """
import sys, torch
from hnfc import sharded
from tests.sharded.test_sharded import WORDS
model, formats = sharded.open_folder(sys.argv[1]), ("int8", "int4/group32")
sharded.precision(model, WORDS, sys.argv[2], 0.05, formats, progress=lambda text: print("at", text, flush=True))
"""


@pytest.mark.slow
def test_a_process_that_was_killed_goes_on(tmp_path: Path) -> None:
    write_llama(tmp_path / "m", 3)
    command = [sys.executable, "-c", RUN, str(tmp_path / "m")]
    subprocess.run([*command, str(tmp_path / "once")], check=True, capture_output=True)
    with subprocess.Popen([*command, str(tmp_path / "twice")], stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        layers = (line for line in running.stdout if line.startswith(f"at {LAYERS}"))
        assert all(next(layers).startswith(f"at {LAYERS} {number} ") for number in (1, 2, 3))
        running.kill()
    again = subprocess.run([*command, str(tmp_path / "twice")], check=True, capture_output=True, text=True)
    first = next(line for line in again.stdout.splitlines() if line.startswith(f"at {LAYERS}"))
    assert first.startswith((f"at {LAYERS} 3 ", f"at {LAYERS} 4 "))
    for path in (tmp_path / "once").iterdir():
        assert path.read_bytes() == (tmp_path / "twice" / path.name).read_bytes()


def test_a_killed_analysis_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, model = deep(tmp_path / "m", 16, 3)
    x = torch.randn(4, 16, generator=torch.Generator().manual_seed(3))
    for run in (sharded.analyze, sharded.optimize):
        once = run(model, x)
        with monkeypatch.context() as ending, pytest.raises(KeyboardInterrupt):
            _ended(ending, 2)
            run(model, x, work=tmp_path / "work")
        seen: list[str] = []
        again = run(model, x, work=tmp_path / "work", progress=seen.append)
        assert len([text for text in seen if text.startswith(LAYERS)]) == len(once.layers) - 2
        assert not (tmp_path / "work").exists()
        assert [_of(layer) for layer in again.layers] == [_of(layer) for layer in once.layers]


def _of(layer: Any) -> dict[str, float]:
    """Numbers of a layer."""
    data = layer if isinstance(layer, dict) else asdict(layer)
    return {name: value for name, value in data.items() if isinstance(value, float)}


def test_weights_stay_where_no_format_does(tmp_path: Path) -> None:
    model, opened = deep(tmp_path / "m", 32, 2)
    found = sharded.precision(opened, torch.randn(8, 32), tmp_path / "out", 1e-9, ("int4/group32",))
    assert not found.refused and found.measured == 0 and set(found.formats.values()) == {"own"}
    index = json.loads((tmp_path / "out" / "model.safetensors.index.json").read_text())["weight_map"]
    for name, tensor in model.state_dict().items():
        assert torch.equal(load_file(tmp_path / "out" / index[name])[name], tensor)


def test_a_target_that_is_missed_writes_no_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, opened = deep(tmp_path / "m", 32, 2)
    monkeypatch.setattr(solving, "_shares", lambda chain, *_: [1e6] * len(chain.segments))
    found = sharded.precision(opened, torch.randn(8, 32), tmp_path / "out", 1e-4, ("int4/group32",))
    assert found.refused and found.measured > 1e-4
    assert not any((tmp_path / "out").iterdir())


def test_a_rewrite_that_overflows_on_larger_values_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def through_large_numbers(segment: Any, rules: Any) -> rewriting.Rewrites:
        graph = fx.Graph()
        made: Any = graph.graph_copy(segment.graph, {})
        up = graph.call_function(torch.ops.aten.mul.Tensor, (made[0], 2.0**100))
        down = graph.call_function(torch.ops.aten.mul.Tensor, (up, 2.0**-100))
        graph.output((down, *made[1:]))
        return rewriting.Rewrites(fx.GraphModule(torch.nn.Module(), graph), (("made_up", "nowhere"),))

    _, model = deep(tmp_path / "m", 16, 2)
    monkeypatch.setattr(rewriting, "_rewritten", through_large_numbers)
    x = torch.randn(4, 16, generator=torch.Generator().manual_seed(3))
    assert not any(layer["rewritten"] for layer in sharded.optimize(model, x).layers)
    monkeypatch.setattr(rewriting, "_OTHER_SIZES", ())
    assert all(layer["rewritten"] for layer in sharded.optimize(model, x).layers)


@pytest.mark.parametrize("fault", ["short", "missing", "shape", "index", "architecture", "no config"])
def test_faulty_folders_are_refused_in_one_line(tmp_path: Path, fault: str) -> None:
    write_llama(tmp_path, 2)
    first = sorted(tmp_path.glob("*.safetensors"))[0]
    config = json.loads((tmp_path / "config.json").read_text())
    words = {"short": "not all of one", "missing": "no file has the tensor", "shape": "in the model and",
             "index": "which is not in the folder", "architecture": "has no model",
             "no config": "the folder has no config.json"}[fault]  # fmt: skip
    if fault == "short":
        first.write_bytes(first.read_bytes()[:-10])
    elif fault in ("missing", "shape"):
        tensors = load_file(first)
        name = next(iter(tensors))
        save_file({n: t for n, t in tensors.items() if n != name} | ({name: tensors[name][:1]} if fault == "shape" else {}), first)
    elif fault == "index":
        first.unlink()
    elif fault == "architecture":
        (tmp_path / "config.json").write_text(json.dumps(config | {"architectures": ["Nothing"]}))
    else:
        (tmp_path / "config.json").unlink()
    with pytest.raises(ModelError, match=words) as raised:
        sharded.open_folder(tmp_path)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors.index.json", "model-00001-of-00005.safetensors"])
@pytest.mark.parametrize("fault", ["fifo", "folder", "nested", "device"])
def test_what_is_no_file_in_a_folder_is_refused_at_once(tmp_path: Path, name: str, fault: str) -> None:
    write_llama(tmp_path, 2)
    file = tmp_path / name
    assert file.exists()
    file.unlink()
    if fault == "fifo":
        os.mkfifo(file)
    elif fault == "folder":
        file.mkdir()
    elif fault == "device":
        file.symlink_to("/dev/zero")
    else:
        file.write_text("[" * 100_000)
    with pytest.raises(ModelError) as raised:
        sharded.open_folder(tmp_path)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("map_of_weights", [{"a": 3}, {"a": "x\0y"}, {"a": "x" * 5000}, {"a": "../x"}, {"a": "/etc/hosts"}, {"a": ["x"]}])
def test_names_in_an_index_that_are_none_are_refused(tmp_path: Path, map_of_weights: object) -> None:
    write_llama(tmp_path, 2)
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": map_of_weights}))
    with pytest.raises(ModelError):
        sharded.open_folder(tmp_path)


def test_more_layers_than_tensors_are_refused_before_they_are_made(tmp_path: Path) -> None:
    write_llama(tmp_path, 2)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"num_hidden_layers": 10**9}))
    with pytest.raises(ModelError, match="has 1000000000 layers, and the files have"):
        sharded.open_folder(tmp_path)


def test_settings_that_are_not_possible_are_refused(tmp_path: Path) -> None:
    _, opened = deep(tmp_path / "m")
    x = torch.randn(4, 16)
    for settings in ({"formats": ("bf16",)}, {"formats": ("int8/tensor",)}, {"target": 0}, {"margin": 0.5}):
        with pytest.raises(UsageError):
            sharded.precision(opened, x, tmp_path / "out", **settings)
    with pytest.raises(UsageError, match="not empty"):
        sharded.precision(opened, x, tmp_path / "m")
    with pytest.raises(UsageError, match="does not take this sample"):
        sharded.analyze(opened, {"y": x})
    better = sharded.optimize(opened, x)
    with pytest.raises(UsageError, match="captured for inputs"):
        better.run(torch.randn(5, 16))


def test_unread_tensors_and_buffers_go_along(tmp_path: Path) -> None:
    torch.manual_seed(1)
    folder = tmp_path / "m"
    in_folder(folder, Deep(16, 2))
    save_file({"unread": torch.ones(3)}, folder / "more.safetensors")
    with parameters_on_meta():
        opened = sharded.ShardedModel.of(Deep(16, 2).eval(), folder)
    found = sharded.precision(opened, torch.randn(8, 16), tmp_path / "out", 0.05)
    assert not found.refused
    index = json.loads((tmp_path / "out" / "model.safetensors.index.json").read_text())["weight_map"]
    assert "unread" in index and "blocks.0.up.weight_packed" in index and "blocks.0.up.bias" in index
    with safe_open(tmp_path / "out" / index["unread"], framework="pt") as stored:
        assert torch.equal(stored.get_tensor("unread"), torch.ones(3))


def test_files_of_others_stay(tmp_path: Path) -> None:
    work = journal.Journal(tmp_path / "work", 1)
    work.add("layer", {"x": torch.ones(2)})
    (tmp_path / "work" / "mine.txt").write_text("mine")
    work.remove()
    assert [path.name for path in (tmp_path / "work").iterdir()] == ["mine.txt"]
    with pytest.raises(ModelError, match="holds other files"):
        journal.Journal(tmp_path / "work", 1)
    begun = journal.Journal(tmp_path / "begun", 1)
    begun.add("layer", {"x": torch.ones(2)})
    (tmp_path / "begun" / "journal.json").unlink()
    assert journal.Journal(tmp_path / "begun", 1).done == []
