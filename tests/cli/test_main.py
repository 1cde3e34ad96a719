"""The terminal: what each command prints, its exit code, and that nothing is half written."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from hnfc.cli.own_options import SHELLS
from hnfc.cli.parsing import COMMANDS
from tests.terminal import hnfc

ROOT = Path(__file__).parents[2]
ATTENTION = ROOT / "tests" / "data" / "small_attention.mlir"


def test_the_demo():
    done = hnfc(ATTENTION, "-O", "stability", "--range", "-40:40")
    assert done.returncode == 0
    assert "torch.aten.softmax.int" in done.stdout and "torch.aten.exp " not in done.stdout
    for words in ("softmax_fusion", "proved over the reals", "export_naive_attention.py:", "not finite →", "1 rewrite"):
        assert words in done.stderr


def test_fusion_finds_the_attention():
    done = hnfc(ATTENTION, "-O", "fusion", "-q")
    assert "scaled_dot_product_attention" in done.stdout and done.stderr == ""


def test_nothing_changed_is_the_same_bytes(tmp_path):
    first = hnfc(ATTENTION, "-O", "none", "-q", "-o", tmp_path / "a.mlir")
    again = hnfc(tmp_path / "a.mlir", "-O", "none", "-q", "-o", tmp_path / "b.mlir")
    assert first.returncode == again.returncode == 0
    assert (tmp_path / "a.mlir").read_bytes() == (tmp_path / "b.mlir").read_bytes() == ATTENTION.read_bytes()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.mlir", "b.mlir"]


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("form", "words"), [("num", "num.softmax"), ("linalg", "linalg.generic"), ("torch", "torch.aten")])
def test_emit(form, words):
    assert words in hnfc(ATTENTION, "--emit", form, "-q").stdout


def test_bytecode_goes_round(tmp_path):
    assert hnfc(ATTENTION, "--emit", "mlirbc", "-q", "-o", tmp_path / "a.mlirbc").returncode == 0
    assert (tmp_path / "a.mlirbc").read_bytes()[:4] == b"ML\xefR"
    assert "torch.aten.softmax.int" in hnfc(tmp_path / "a.mlirbc", "-q").stdout


def test_stdin_and_json_and_calibration(tmp_path):
    np.savez(tmp_path / "x.npz", **{f"arg{i}": np.full((1, 2, 3, 4), 20, np.float32) for i in range(3)})
    done = hnfc("-", "--calibrate", tmp_path / "x.npz", "--json", tmp_path / "r.json", "-q", input=ATTENTION.read_text())
    assert done.returncode == 0 and "softmax" in done.stdout
    report = json.loads((tmp_path / "r.json").read_text())
    assert report["rewrites"][0]["rule"] == "softmax_fusion" and report["rewrites"][0]["verdict"] == "PROVED"
    assert report["outputs"][0]["error_before"]["not_finite"] > 0 == report["outputs"][0]["error_after"]["not_finite"]


RULE = 'library own\n\nrule inverse "one is the inverse of the other"\n    exp(log(x)) => x\n    where x > 0\n'


@pytest.mark.sampled(7)
@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["missing.mlir"], 1, "no such file"),
        (["."], 1, "the folder has no config.json"),
        (["broken.mlir"], 1, "broken.mlir:1"),
        ([ATTENTION, "-O", "stabilty"], 2, "there is no level or rule group"),
        ([ATTENTION, "--range", "arg0=1"], 1, "cannot read the range"),
        ([ATTENTION, "--range", "arg0=a:b"], 1, "the bounds are numbers"),
        ([ATTENTION, "--range", "arg0=2:1"], 1, "is empty"),
        ([ATTENTION, "--range", "q=0:1"], 1, "there is no input `q`"),
        ([ATTENTION, "--calibrate", "missing.npz"], 1, "there is no such file"),
        ([ATTENTION, "--rules", "missing.hnf"], 1, "missing.hnf"),
        ([ATTENTION, "--rules", "broken.hnf"], 1, "HNF01"),
        ([ATTENTION, "--assume", "nothing"], 2, "there is no rule `nothing`"),
        ([ATTENTION, "--emit", "tflite"], 2, "invalid choice"),
        ([ATTENTION, "-o", "missing/out.mlir", "-q"], 1, "missing/out.mlir"),
        (["check", "missing.hnf"], 1, "missing.hnf"),
        (["fmt", "broken.hnf"], 1, "HNF01"),
        (["rules", "softmax_fusoin"], 2, "did you mean `softmax_fusion`"),
        ([], 2, "MODEL"),
    ],
)
def test_one_clear_message_for_a_fault_of_the_input(arguments, code, words, tmp_path):
    (tmp_path / "broken.mlir").write_text("func.func @main(")
    (tmp_path / "broken.hnf").write_text("rule a exp(x =>")
    done = hnfc(*arguments, cwd=tmp_path)
    assert done.returncode == code, done.stderr
    assert words in done.stderr and "Traceback" not in done.stderr and done.stdout == ""


def test_a_full_disk_leaves_nothing_behind(tmp_path):
    out = tmp_path / "out.mlir"
    limit = "import resource, signal; resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100)); signal.signal(signal.SIGXFSZ, signal.SIG_IGN)"
    code = f"{limit}\nimport sys; from hnfc.cli.main import main; sys.exit(main([{str(ATTENTION)!r}, '-q', '-o', {str(out)!r}]))"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, timeout=120, check=False)
    assert done.returncode == 1 and "File too large" in done.stderr and "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_an_interrupt_is_one_line():
    # a background job starts with interrupts ignored, and Python leaves that so
    listen = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    code = f"{listen}\nimport sys; from hnfc.cli.main import main; print('ready', flush=True); sys.exit(main(['-']))"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen([sys.executable, "-c", code], text=True, env=environment, **pipes)
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    time.sleep(2.0)
    process.send_signal(signal.SIGINT)
    _, words = process.communicate(timeout=60)
    assert process.returncode == 130 and "interrupted" in words and "Traceback" not in words


def test_a_closed_pipe_is_no_traceback():
    command = f"{sys.executable} -m hnfc.cli.main rules | head -1"
    done = subprocess.run(
        command, shell=True, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}, timeout=120, check=False
    )
    assert "Traceback" not in done.stderr and done.stdout.count("\n") == 1


def test_help_is_quick_and_needs_nothing():
    code = (
        "import sys; sys.argv = ['hnfc', '--help']\nfrom hnfc.cli.main import main\ntry: main()\nexcept SystemExit: pass\n"
        "print([m for m in ('torch', 'z3', 'xdsl', 'torch_mlir', 'numpy', 'rich', 'lark') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}, timeout=60, check=False
    )
    assert "examples:" in done.stdout and done.stdout.strip().endswith("[]")


def test_check_options(tmp_path):
    path = tmp_path / "rules.hnf"
    path.write_text("rule twice 2 * x => x + x\nrule product exp(a) * exp(b) => exp(a + b)\n", encoding="utf-8")
    out, obligations = tmp_path / "out.json", tmp_path / "smt2"
    options = ["--why", "--json", out, "--smt2", obligations, "--formats", "f32,f8E5M2", "--limit", "15", "--jobs", "1", "--no-cache"]
    done = hnfc("check", *options, path)
    assert done.returncode == 0, done.stderr
    for words in ("twice", "PROVED", "exact", "may lose", "in floating point", "2 rules: 2 proved", "obligations of 2 proofs"):
        assert words in done.stderr
    found = json.loads(out.read_text(encoding="utf-8"))
    assert found["twice"]["status"] == "PROVED" and [v["format"] for v in found["twice"]["ieee"]] == ["f32", "f8E5M2"]
    assert any(name.suffix == ".smt2" for name in obligations.rglob("*"))
    assert "in floating point" not in hnfc("check", "--why", "--no-ieee", path).stderr
    safer = hnfc("check", "--why", "--formats", "f8E4M3FN", "--assume", "no-nans,no-infs", path)
    assert safer.returncode == 0
    for wrong, words in (("--formats=f33", "there is no format `f33`"), ("--assume=no-rain", "no-signed-zeros"), ("--limit=0", "--limit")):
        refused = hnfc("check", wrong, path)
        assert refused.returncode == 2 and words in refused.stderr and "Traceback" not in refused.stderr


def test_check_gates_by_exit_code(tmp_path):
    path = tmp_path / "open.hnf"
    path.write_text("rule open squeeze[-1](unsqueeze[-1](x)) => x\n", encoding="utf-8")
    undecided = hnfc("check", "--no-ieee", path)
    assert undecided.returncode == 3 and "stated" in undecided.stderr
    path.write_text("rule wrong x * x => x\n", encoding="utf-8")
    assert hnfc("check", "--no-ieee", path).returncode == 1


def test_explain(tmp_path):
    page = hnfc("explain", "softmax_fusion")
    assert page.returncode == 0
    for words in ("Over the reals: PROVED", "In floating point", "Errors to first order", "source:"):
        assert words in page.stdout
    path = tmp_path / "mine.hnf"
    path.write_text("rule mine 2 * x => x + x\n", encoding="utf-8")
    assert "PROVED" in hnfc("explain", "mine", "--rules", path).stdout
    missing = hnfc("explain", "softmax_fusoin")
    assert missing.returncode == 2 and "did you mean `softmax_fusion`" in missing.stderr


def test_check_test_fmt(tmp_path):
    path = tmp_path / "my.hnf"
    path.write_text("rule up   log(a*b)=>log(a)+log(b)\ntest up a = [2], b = [4] gives [2.0794415416798357]\n")
    checked = hnfc("check", path)
    assert checked.returncode == 1
    for words in ("error[HNF0501]", f"{path}:1:", "counterexample", "help:", "1 refuted"):
        assert words in checked.stderr
    path.write_text(path.read_text().replace("log(b)\n", "log(b) where a > 0 and b > 0\n"))
    assert hnfc("check", "--why", path).returncode == 0
    assert hnfc("fmt", "--check", path).returncode == 1
    assert hnfc("fmt", path).returncode == 0 and hnfc("fmt", "--check", path).returncode == 0
    tested = hnfc("test", path)
    assert tested.returncode == 0 and "1 of 1 tests passed" in tested.stderr
    path.write_text(path.read_text().replace("2.0794", "3.0794"))
    assert hnfc("test", path).returncode == 1


def test_a_rule_that_is_not_proved_does_not_run(tmp_path):
    path = tmp_path / "my.hnf"
    path.write_text("rule wrong softmax[k](x) => x\n")
    held = hnfc(ATTENTION, "--rules", path)
    assert held.returncode == 0 and "wrong did not run: it is not proved" in held.stderr
    allowed = hnfc(ATTENTION, "--rules", path, "--allow-unproved", "wrong")
    assert "NOT PROVED" in allowed.stderr and "torch.aten.softmax" not in allowed.stdout


def test_a_rule_that_speaks_of_no_input_never_runs(tmp_path):
    path, verdicts = tmp_path / "my.hnf", tmp_path / "verdicts.json"
    path.write_text("rule nothing softmax[k](x) / (y - y) => x\n")
    checked = hnfc("check", path, "--why", "--json", verdicts)
    assert checked.returncode == 1
    for words in ("error[HNF0503]", "rule `nothing` is vacuous", "VACUOUS", "1 vacuous", "nothing: proof"):
        assert words in checked.stderr
    assert json.loads(verdicts.read_text())["nothing"]["status"] == "VACUOUS"
    allowed = hnfc(ATTENTION, "--rules", path, "--allow-unproved", "nothing")
    assert allowed.returncode == 0 and "nothing did not run: no input meets its conditions" in allowed.stderr


def test_a_rule_that_makes_things_worse_is_taken_back(tmp_path):
    path = tmp_path / "my.hnf"
    path.write_text("rule worse softmax[k](x) => exp(x) / sum[k](exp(x))\n")
    model = tmp_path / "m.mlir"
    model.write_text(
        "func.func @main(%x: !torch.vtensor<[2,3],f32>) -> !torch.vtensor<[2,3],f32> {\n"
        "  %d = torch.constant.int 1\n  %n = torch.constant.none\n"
        "  %0 = torch.aten.softmax.int %x, %d, %n : !torch.vtensor<[2,3],f32>, !torch.int, !torch.none -> !torch.vtensor<[2,3],f32>\n"
        "  return %0 : !torch.vtensor<[2,3],f32>\n}\n"
    )
    done = hnfc(model, "-O", "none", "--rules", path, "--range", "arg0=-500:500")
    assert "worse at" in done.stderr and "on a probe" in done.stderr and "torch.aten.softmax.int" in done.stdout


def test_rules_lists_and_shows():
    listed = hnfc("rules")
    assert listed.returncode == 0 and "0 refuted" not in listed.stdout and "softmax_fusion" in listed.stdout and "PROVED" in listed.stdout
    page = hnfc("rules", "softmax_fusion")
    assert "exp(x) / sum[k](exp(x)) => softmax[k](x)" in page.stdout and "PROVED over the reals" in page.stdout
    assert "norm_scaled" in hnfc("rules", "stability").stdout


def test_opt_runs_any_part_of_the_road():
    done = hnfc(ATTENTION, "-p", "import-torch,canonicalize-movement,rewrite{group=stability}", module="hnfc.cli.opt")
    assert "num.softmax" in done.stdout
    again = hnfc("-p", "rewrite{group=fusion},erase-dead,export-torch", module="hnfc.cli.opt", input=done.stdout)
    assert "scaled_dot_product_attention" in again.stdout, again.stderr
    steps = "import-torch,canonicalize-movement,rewrite{group=stability},cse-rewritten,export-torch"
    assert hnfc(ATTENTION, "-p", steps, module="hnfc.cli.opt").stdout == hnfc(ATTENTION, "-O", "stability", "-q").stdout
    same = hnfc(ATTENTION, "-p", "import-torch,canonicalize-movement,export-torch", module="hnfc.cli.opt")
    assert same.stdout == hnfc(ATTENTION, "-O", "none", "-q").stdout
    for arguments, words in (
        (["-p", "nonsense"], "there is no pass"),
        (["-p", "rewrite{"], "cannot read the passes"),
        (["-p", "rewrite{group=q}"], "no level"),
    ):
        bad = hnfc(ATTENTION if "{group" not in arguments[1] else "-", *arguments, module="hnfc.cli.opt", input=done.stdout)
        assert bad.returncode == 1 and words in bad.stderr and "Traceback" not in bad.stderr


RULE = 'library own\n\nrule inverse "one is the inverse of the other"\n    exp(log(x)) => x\n    where x > 0\n'


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (["chekc", "my.hnf"], "there is no command and no file `chekc`; did you mean `check`?"),
        (["rules", "--jsn"], "did you mean `--json`?"),
        ([ATTENTION, "-O", "stabilty"], "no level or rule group `stabilty`; did you mean `stability`?"),
        (["check", "-", "other.hnf"], "- is stdin, and stands alone"),
        (["run", "model.mlir", "--input", "F.npz"], "did you mean `--inputs`?"),
    ],
)
def test_what_was_misspelt(command, words):
    done = hnfc(*command)
    assert done.returncode == 2 and words in done.stderr and len(done.stderr.splitlines()) <= 2


def test_a_file_that_was_misspelt(tmp_path):
    (tmp_path / "model.mlir").write_text("")
    done = hnfc(tmp_path / "modle.mlir")
    assert done.returncode == 1 and "there is no such file; did you mean `model.mlir`?" in done.stderr


@pytest.mark.parametrize("option", ["-o", "--json", "--report"])
def test_a_folder_that_is_not_there_is_named_before_the_work(tmp_path, option):
    done = hnfc("no.mlir", option, "nowhere/out.html", cwd=tmp_path)
    assert done.returncode == 1 and done.stderr == "error: nowhere/out.html: there is no folder nowhere\n"


@pytest.mark.parametrize("command", sorted(set(COMMANDS) - {"model"}))
def test_help(command):
    first, second = hnfc("help", command), hnfc(command, "--help")
    assert first.returncode == 0 and first.stdout == second.stdout
    assert "exit code:" in first.stdout and "example" in first.stdout and command in hnfc("help").stdout


def test_stdin_holds_rules_and_programs():
    assert "1 proved" in hnfc("check", "-", "--no-cache", input=RULE).stderr
    assert hnfc("fmt", "-", input=RULE.replace("exp(log(x))", "exp( log(x) )")).stdout == RULE
    assert "0 of 0 tests" in hnfc("test", "-", input=RULE).stderr
    assert hnfc("check", "-", input="rule (").returncode == 1
    program = hnfc("-", "-O", "accuracy", input="(FPCore (x) :pre (<= 0 x 1) (- (sqrt (+ x 1)) 1))")
    assert program.stdout.startswith("(FPCore (x)") and "bits of error" in program.stderr
    assert "error at most" in hnfc("analyze", "-", input="; one\n(FPCore (x) :pre (<= 1 x 2) (* x x))").stdout


def test_data_of_rules(tmp_path):
    (tmp_path / "own.hnf").write_text(RULE + '\nrule wrong "off by one"\n    x + 1 => x\n\ntest inverse\n    x = [1] gives [1]\n')
    hnfc("check", "own.hnf", "--sarif", "s.json", "--no-ieee", cwd=tmp_path)
    run = json.loads((tmp_path / "s.json").read_text())["runs"][0]
    place = run["results"][0]["locations"][0]["physicalLocation"]
    assert [result["level"] for result in run["results"]] == ["error"] and "wrong" in run["results"][0]["message"]["text"]
    assert place["artifactLocation"]["uri"] == "own.hnf" and place["region"]["startLine"] == 8
    for command in ("rules", "test", "explain"):
        given = ["inverse", "--rules", "own.hnf"] if command == "explain" else ["own.hnf"]
        assert hnfc(command, *given, "--json", "out.json", cwd=tmp_path).returncode == 0
        data = json.loads((tmp_path / "out.json").read_text())
        assert data == [{"rule": "inverse", "passed": True}] if command == "test" else data["inverse"]["status"] == "PROVED"


@pytest.mark.parametrize("shell", SHELLS)
def test_completion_knows_commands_and_options(shell):
    script = hnfc("completion", shell).stdout
    assert "precision" in script and "target-accuracy" in script and "calibrate" in script


def test_doctor():
    done = hnfc("doctor")
    assert done.returncode == 0 and "z3-solver" in done.stdout and "cache:" in done.stdout and "all that hnfc needs is there" in done.stdout


def test_a_reader_that_goes_away():
    command = [sys.executable, "-m", "hnfc.cli.main", "rules", "stability", "cancellation", "fusion", "canonical"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        assert process.wait() in (0, 141) and process.stderr.read() == b""


def test_why_a_rule_does_not_run():
    command = [ATTENTION, "--no-validate", "-o", "/dev/null", "--why-not"]
    done = hnfc(*command, "log_of_softmax")
    assert done.returncode == 0 and "log_of_softmax: was tried nowhere" in done.stderr
    wrong = hnfc(*command, "no_such_rule")
    assert wrong.returncode == 2 and "there is no rule `no_such_rule`" in wrong.stderr
