"""Output of --json beside docs/hnfc.schema.json."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import numpy as np
import pytest

from hnfc.cli.parsing import COMMANDS as COMMANDS_OF_HNFC
from hnfc.cli.parsing import command_parser
from tests.sharded.tiny import write_llama
from tests.terminal import hnfc

ROOT = Path(__file__).parents[2]
SCHEMA = json.loads((ROOT / "docs" / "hnfc.schema.json").read_text())
ATTENTION = ROOT / "tests" / "data" / "small_attention.mlir"
RULES = """rule a
    exp(log(x)) => x

test a
    x = [1, 2] gives [1, 3]

rule b
    sqrt(x * x) => x

rule c
    opaque(x) => x + opaque(x)
"""
MODEL = """import torch


class Exp(torch.nn.Module):
    def forward(self, x):
        return x.exp()


model = Exp
"""
PROGRAM = '(FPCore (x) :name "t" :pre (< 0 x 1) (- (sqrt (+ x 1)) (sqrt x)))'
COMMANDS = [
    ("model", [ATTENTION, "-O", "stability", "--range", "-40:40", "-q", "-o", "o.mlir"]),
    ("run", ["run", ATTENTION, "--inputs", "x.npz", "--compare"]),
    ("analyze", ["analyze", ATTENTION, "--range", "-40:40", "--weights"]),
    ("analyze", ["analyze", ATTENTION, "--calibrate", "x.npz", "--estimate"]),
    ("programs", ["analyze", "p.fpcore", "--seconds", "0.2"]),
    ("accuracy", ["p.fpcore", "-O", "accuracy", "-o", "o.fpcore"]),
    ("precision", ["precision", ATTENTION, "--calibrate", "x.npz", "--target-accuracy", "1e-2"]),
    ("precision", ["precision", ATTENTION, "--calibrate", "x.npz", "--target-accuracy", "1e-9", "--formats", "fp16,bf16"]),
    ("check", ["check", "r.hnf", "--formats", "f16"]),
    ("explain", ["explain", "softmax_fusion"]),
    ("rules", ["rules", "r.hnf"]),
    ("test", ["test", "r.hnf"]),
    ("doctor", ["doctor"]),
    ("fmt", ["fmt", "--check", "r.hnf"]),
    ("completion", ["completion", "bash"]),
    ("discover", ["discover", "sqrt, square", "--size", "2", "-o", "f.hnf"]),
    ("trace", ["trace", "m.py:model", "--calibrate", "one.npz"]),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("json")
    draw = np.random.default_rng(1)
    np.savez(made / "x.npz", **{f"arg{i}": draw.normal(size=(1, 2, 3, 4)).astype(np.float32) for i in range(3)})
    np.savez(made / "one.npz", arg0=np.full((2, 3), 200, np.float32))
    (made / "m.py").write_text(MODEL)
    (made / "r.hnf").write_text(RULES)
    (made / "p.fpcore").write_text(PROGRAM)
    return made


@pytest.mark.parametrize(("name", "arguments"), COMMANDS, ids=[f"{name}-{place}" for place, (name, _) in enumerate(COMMANDS)])
def test_the_output_has_its_schema(name, arguments, folder):
    done = hnfc(*arguments, "--json", "out.json", cwd=folder)
    assert "Traceback" not in done.stderr
    found = json.loads((folder / "out.json").read_text(), parse_constant=pytest.fail)
    (folder / "out.json").unlink()
    jsonschema.Draft202012Validator({**SCHEMA, "$ref": f"#/$defs/{name}"}).validate(found)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("folder_analysis", ["analyze", "m"]),
        pytest.param("folder_model", ["m", "-O", "stability"], marks=pytest.mark.slow),
        pytest.param("folder_precision", ["precision", "m", "-o", "q", "--target-accuracy", "0.05"], marks=pytest.mark.slow),
    ],
)
def test_models_in_folders_have_theirs(name, arguments, tmp_path):
    pytest.importorskip("transformers")
    write_llama(tmp_path / "m", 2)
    np.savez(tmp_path / "s.npz", input_ids=np.arange(24).reshape(2, 12))
    done = hnfc(*arguments, "--calibrate", "s.npz", "--json", "out.json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "out.json").read_text(), parse_constant=pytest.fail)
    jsonschema.Draft202012Validator({**SCHEMA, "$ref": f"#/$defs/{name}"}).validate(found)


def test_every_command_writes_json_that_has_a_schema():
    """The language server alone has no such option: all that it says is JSON, as its protocol defines it."""
    commands = [name for name in COMMANDS_OF_HNFC if "--json" in command_parser(name)._option_string_actions]
    assert set(COMMANDS_OF_HNFC) - set(commands) == {"lsp"}
    assert [name for name in commands if name not in SCHEMA["$defs"]] == []


def test_the_schema_forbids_what_it_does_not_name():
    check = jsonschema.Draft202012Validator({**SCHEMA, "$ref": "#/$defs/test"})
    assert check.is_valid([{"rule": "a", "passed": True}])
    assert not check.is_valid([{"rule": "a", "passed": "yes"}]) and not check.is_valid([{"rule": "a", "passed": True, "more": 1}])
