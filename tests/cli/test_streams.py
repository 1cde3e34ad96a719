"""`-` for every input and output, and names that were meant."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from hnfc.cli.main import main
from hnfc.cli.parsing import COMMANDS, command_parser
from hnfc.cli.streams import INPUTS, OUTPUTS
from tests.terminal import hnfc

ROOT = Path(__file__).parents[2]
ATTENTION = ROOT / "tests" / "data" / "small_attention.mlir"
RULE = "rule inverse\n    exp(log(x)) => x\n\ntest inverse\n    x = [1, 2] gives [1, 2]\n"
RANGE = ["--range", "-40:40"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("streams")
    draw = np.random.default_rng(1)
    np.savez(made / "x.npz", **{f"arg{i}": draw.normal(size=(1, 2, 3, 4)).astype(np.float32) for i in range(3)})
    (made / "my.hnf").write_text(RULE)
    (made / "model.mlir").write_text(ATTENTION.read_text())
    return made


def piped(folder, given, *arguments):
    """A process of its own, whose stdin is the file; bytes, since some are archives."""
    with (folder / given).open("rb") as stream:
        command = [sys.executable, "-m", "hnfc", *map(str, arguments)]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        return subprocess.run(command, stdin=stream, capture_output=True, cwd=folder, env=environment, timeout=120, check=False)


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("given", "arguments", "words"),
    [
        ("x.npz", ["model.mlir", "--calibrate", "-", "-o", "o.mlir"], "on 1 sample"),
        ("x.npz", ["run", "model.mlir", "--inputs", "-"], "float32[1, 2, 3, 4]"),
        ("x.npz", ["analyze", "model.mlir", "--calibrate", "-"], "certified"),
        ("x.npz", ["precision", "model.mlir", "--calibrate", "-", "--target-accuracy", "1e-2"], "bytes in all"),
        ("my.hnf", ["model.mlir", *RANGE, "--rules", "-", "-o", "o.mlir"], "softmax_fusion"),
        ("my.hnf", ["rules", "-"], "inverse"),
        ("my.hnf", ["explain", "inverse", "--rules", "-"], "inverse"),
        ("my.hnf", ["test", "-"], "1 of 1 tests passed"),
    ],
)
def test_stdin_is_an_input(folder, given, arguments, words):
    done = piped(folder, given, *arguments)
    assert done.returncode == 0 and words in (done.stdout + done.stderr).decode(), done.stderr.decode()


@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    "arguments",
    [
        ["model.mlir", *RANGE],
        ["run", "model.mlir", "--inputs", "x.npz"],
        ["run", "model.mlir", "--inputs", "x.npz", "--compare"],
        ["analyze", "model.mlir", *RANGE],
        ["precision", "model.mlir", "--calibrate", "x.npz", "--target-accuracy", "1e-2"],
        ["check", "my.hnf", "--no-ieee"],
        ["explain", "softmax_fusion"],
        ["rules", "my.hnf"],
        ["test", "my.hnf"],
        ["fmt", "--check", "my.hnf"],
        ["doctor"],
        ["completion", "bash"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_stdout_has_nothing_but_the_json_where_that_is_asked_for(folder, arguments):
    if arguments[0] == "run" and "--compare" not in arguments:
        arguments = [*arguments, "-O", "stability"]
    done = hnfc(*arguments, "--json", "-", cwd=folder)
    assert done.returncode == 0, done.stderr
    json.loads(done.stdout)
    quiet = hnfc(*arguments, "--json", "-", "-q", cwd=folder)
    assert quiet.stdout.strip() and quiet.stderr == ""


def test_a_page_and_a_picture_have_stdout_to_themselves(folder):
    page = hnfc("explain", "softmax_fusion", "--report", "-", cwd=folder)
    assert page.stdout.startswith("<!doctype html>") and page.stdout.endswith("</html>") and page.stderr == ""
    assert "softmax_fusion" in hnfc("explain", "softmax_fusion", "--report", "-", "-v", cwd=folder).stderr
    picture = hnfc("analyze", "model.mlir", *RANGE, "--picture", "-", cwd=folder)
    assert picture.stdout.startswith("<svg") and picture.stdout.rstrip().endswith("</svg>")


def test_a_model_that_is_not_written_is_named(folder):
    done = hnfc("model.mlir", *RANGE, "--json", "-", cwd=folder)
    assert "the result itself is not written" in done.stderr and "torch.aten" not in done.stdout
    assert "is not written" not in hnfc("model.mlir", *RANGE, "--json", "-", "-o", "o.mlir", cwd=folder).stderr


def test_results_of_a_run_have_stdout_to_themselves(folder):
    done = piped(folder, "x.npz", "run", "model.mlir", "--inputs", "-", "-o", "-")
    (folder / "out.npz").write_bytes(done.stdout)
    with np.load(folder / "out.npz") as stored:
        assert stored["output0"].shape == (1, 2, 3, 4)


def test_a_fault_in_rules_on_stdin_shows_its_line():
    done = hnfc("check", "-", input="rule a\n    epx(x) => x\n")
    assert "2 |     epx(x) => x" in done.stderr and "<stdin>:2:5" in done.stderr
    assert "2 |     exp(x => x" in hnfc("fmt", "-", input="rule a\n    exp(x => x\n").stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["model.mlir", "-o", "-", "--json", "-"], "`-` stands for -o and --json, but stdout takes one of them"),
        (["-", "--calibrate", "-"], "`-` stands for the model and --calibrate, but stdin is read once"),
        (["explain", "a", "--rules", "-", "--rules", "-"], "stdin is read once"),
    ],
)
def test_a_stream_is_taken_once(folder, arguments, words):
    done = hnfc(*arguments, cwd=folder)
    assert done.returncode == 2 and words in done.stderr


def test_every_option_that_names_a_file_is_known_to_the_streams():
    for command in COMMANDS:
        for action in command_parser(command)._actions:
            if str(action.metavar).startswith(("OUT", "F.")):
                assert action.dest in (*INPUTS, *OUTPUTS), f"{command} {action.option_strings}"


def test_no_arguments_show_the_help():
    done = hnfc()
    assert done.returncode == 2 and done.stdout == "" and "hnfc COMMAND [options]" in done.stderr and "commands (" in done.stderr


def test_a_long_help_has_headings():
    for command, headings in (("model", ("inputs:", "rules:", "search:", "output:", "running:")), ("precision", ("formats:", "output:"))):
        text = command_parser(command).format_help()
        assert [heading for heading in headings if f"\n{heading}\n" not in text] == []
    for command in COMMANDS:
        parser = command_parser(command)
        shown = [action for group in parser._action_groups for action in group._group_actions]
        assert sorted(map(id, shown)) == sorted(map(id, parser._actions)), command
        assert not (parser._optionals._group_actions and "\nrunning:\n" in parser.format_help()), command


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["check", "my.hfn"], "my.hfn: there is no such file; did you mean `my.hnf`?"),
        (["explain", "a", "--rules", "mi.hnf"], "did you mean `my.hnf`?"),
        (["run", "model.mlir", "--inputs", "y.npz"], "did you mean `x.npz`?"),
        (["model.mlir", "--calibrate", "y.npz"], "did you mean `x.npz`?"),
        (["model.mlir", "--target", "h10"], "there is no target `h10`; did you mean `h100`?"),
        (["model.mlir", "--search", "egrap"], "there is no search `egrap`; did you mean `egraph`?"),
        (["model.mlir", "--search", "egraph", "--cost", "eror"], "did you mean `error`?"),
        (["model.mlir", "--emit", "stablhlo"], "did you mean `stablehlo`?"),
        (["model.mlir", "--assume", "softmax_fusio"], "did you mean `softmax_fusion`?"),
        (["model.mlir", "--why-not", "softmax_fusio"], "did you mean `softmax_fusion`?"),
        (["model.mlir", "--range", "ar0=1:2"], "there is no input `ar0`; did you mean `arg0`?"),
        (["check", "my.hnf", "--formats", "bf6"], "there is no format `bf6`; did you mean `bf16`?"),
        (["check", "my.hnf", "--assume", "no-nan"], "did you mean `no-nans`?"),
        (["analyze", "model.mlir", "--bound", "certifed"], "did you mean `certified`?"),
        (["precision", "model.mlir", "--calibrate", "x.npz", "--formats", "bf17"], "hnfc: there is no format `bf17`; did you mean `bf16`?"),
        (["completion", "bsh"], "did you mean `bash`?"),
        (["modle"], "there is no command and no file `modle`\n"),
        (["my.hnf"], "my.hnf holds rules, not a model: `hnfc check my.hnf` judges them"),
    ],
)
def test_what_was_meant(folder, arguments, words):
    done = hnfc(*arguments, cwd=folder)
    assert done.returncode in (1, 2) and words in done.stderr and "Traceback" not in done.stderr, done.stderr
    assert len(done.stderr.splitlines()) <= 2


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_help_fits_80_columns(command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    text = command_parser(command).format_help()
    assert [line for line in text.splitlines() if len(line) > 80] == []
    assert "\n  0 done; 1 the input is wrong" in text


def test_the_doctor_fits_80_columns(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["doctor"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if len(line) > 80] == [] and any("tensorboard" in line for line in lines)
