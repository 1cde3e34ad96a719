"""`hnfc PROGRAMS.fpcore -O accuracy`: programs on stdout, words on stderr, and what is wrong usage."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from hnfc.cli.main import main
from hnfc.frontend.fpcore import read_programs, with_body

FILE = """; roots
(FPCore root (x) ; of x
  :name "the root" :pre (> x 1) :cite (book)
  (- (sqrt (+ x 1)) ; near
     (sqrt x)))
(FPCore (x) :name "loop" (while (< x 3) ([x 1 (+ x 1)]) x))
(FPCore (x) :name "single" :precision binary32 (- (exp x) 1))
(FPCore (x) :name "plain" (+ x 1))
"""


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.fpcore").write_text(FILE)
    return tmp_path


def test_programs_in_programs_out(file, capsys):
    assert main(["p.fpcore", "-O", "accuracy", "--json", "out.json"]) == 0
    out, err = capsys.readouterr()
    (file / "q.fpcore").write_text(out)
    refused: list[str] = []
    first, single, plain = read_programs(file / "q.fpcore", refused)
    assert first.name == "the root" and first.properties[":cite"] == ["book"] and first.properties[":pre"] == [">", "x", "1"]
    assert "(FPCore root (x) ; of x" in out and "(/ 1 (+" in first.text and len(refused) == 1
    assert single.text in FILE and plain.text in FILE
    assert "the root: " in err and "  proved over the reals" in err
    err = " ".join(err.split())  # lines are as wide as the terminal
    assert "p.fpcore:6: while is not supported" in err and "it is left as it is" in err and "only programs in binary64" in err
    data = json.loads((file / "out.json").read_text())["programs"]
    assert [d["improved"] for d in data] == [True, False, False, False]
    assert data[0]["bits_after"] < 1 < data[0]["bits_before"] and data[0]["branches"][0]["rules"][0]["proved"]


def test_quiet_and_to_a_file(file, capsys):
    assert main(["p.fpcore", "-O", "accuracy", "-q", "-o", "out.fpcore"]) == 0
    assert capsys.readouterr() == ("", "")
    assert len(read_programs(file / "out.fpcore", [])) == 3


def test_rules_of_ones_own(file, capsys):
    (file / "p.fpcore").write_text("(FPCore (x) (- (erf (+ x 1)) (erf (+ 1 x))))")
    (file / "good.hnf").write_text('rule square_root_of_four "known" x + 3 * sqrt(y) => 3 * sqrt(y) + x\n')
    (file / "bad.hnf").write_text('rule wrong "false" exp(x + y) => exp(x)\n')
    assert main(["p.fpcore", "-O", "accuracy", "--rules", "good.hnf", "--rules", "bad.hnf"]) == 0
    assert "rule wrong is not proved, and is not used" in capsys.readouterr().err
    (file / "bad.hnf").write_text("rule wrong x =>\n")
    assert main(["p.fpcore", "-O", "accuracy", "--rules", "bad.hnf"]) == 1
    assert "bad.hnf:1" in capsys.readouterr().err


@pytest.mark.parametrize(("arguments", "said"), [
    (["p.fpcore"], "-O accuracy improves"), (["p.fpcore", "-O", "stability"], "-O stability is for models"),
    (["p.fpcore", "-O", "accuracy", "--range", "0:1"], "--range is for models"),
    (["p.fpcore", "-O", "accuracy", "--emit", "linalg"], "--emit linalg is for models"),
    (["p.fpcore", "-O", "accuracy", "--cost", "time"], "--cost is for models"),
    (["p.fpcore", "-O", "accuracy", "--calibrate", "x.npz"], "--calibrate is for models"),
])  # fmt: skip
def test_usage(file, capsys, arguments, said):
    assert main(arguments) == 2
    assert said in capsys.readouterr().err


def test_the_level_is_not_a_group_among_others(file, capsys):
    (file / "m.mlir").write_text("module {}")
    assert main(["m.mlir", "-O", "stability,accuracy"]) == 2
    assert "a level by itself" in capsys.readouterr().err


@pytest.mark.parametrize(("text", "said"), [("(FPCore (x) x", "p.fpcore:1"), ("x", "p.fpcore:1"), (None, "p.fpcore")])
def test_a_faulty_file_is_named(file, capsys, text, said):
    path = file / "p.fpcore"
    if text is None:
        path.unlink()
    else:
        path.write_text(text)
    assert main(["p.fpcore", "-O", "accuracy"]) == 1
    err = capsys.readouterr().err
    assert said in err and "Traceback" not in err


@pytest.mark.parametrize(("text", "becomes"), [
    ("(FPCore (x) x)", "(FPCore (x) B)"), ("(FPCore f (x) :pre (< x 1) (+ x 1) ; end\n)", "(FPCore f (x) :pre (< x 1) B ; end\n)"),
    ("(FPCore ([! :precision binary64 x]) :name \"(\" (if (< x 1) [+ x 1] x))", "(FPCore ([! :precision binary64 x]) :name \"(\" B)"),
    ("(FPCore (x) :cite (a) 1)", "(FPCore (x) :cite (a) B)"),
])  # fmt: skip
def test_only_the_expression_is_replaced(text, becomes):
    assert with_body(text, "B") == becomes


ROUNDED = """(FPCore (x) :round toPositive :pre (<= 1 x 2) (* x 0.1))
(FPCore (x) :pre (<= 1 x 2) (! :round toZero (* x 0.1)))
(FPCore (x) :pre (<= 1 x 2) (let ([y (! :round toNegative (+ x 1))]) (* y y)))
(FPCore ((! :round nearestAway x)) :pre (<= 1 x 2) (* x 0.1))
(FPCore (x) :overflow clamp :pre (<= 1 x 2) (* x 0.1))
(FPCore (x) :round nearestEven :overflow infinity :pre (<= 1 x 2) (! :round nearestEven (* x 0.1)))
"""


def test_roundings_other_than_to_nearest_are_refused(file, capsys):
    (file / "p.fpcore").write_text(ROUNDED)
    assert main(["analyze", "p.fpcore"]) == 1
    out, err = capsys.readouterr()
    assert out.count("e-17") == 2, "only the last one is analyzed"
    for line, setting in enumerate((":round toPositive", ":round toZero", ":round toNegative", ":round nearestAway", ":overflow clamp"), 1):
        assert f"error: p.fpcore:{line}: {setting} is not supported" in err
    assert main(["p.fpcore", "-O", "accuracy"]) == 0
    out, err = (" ".join(text.split()) for text in capsys.readouterr())
    assert err.count("is not supported; operations are taken with") == 5 and err.count("it is left as it is") == 5
    assert all(line in out for line in ROUNDED.splitlines())


def test_series_without_a_proof_need_an_option(file, capsys):
    (file / "p.fpcore").write_text("(FPCore (x y) (- (atan (+ x y)) (atan x)))")
    assert main(["p.fpcore", "-O", "accuracy"]) == 0
    assert "no bound" not in capsys.readouterr().err
    assert main(["p.fpcore", "-O", "accuracy", "--unproved"]) == 0
    (file / "m.mlir").write_text("module {}")
    assert main(["m.mlir", "--unproved"]) == 2
    assert "--unproved is for FPCore programs" in capsys.readouterr().err


def test_bounding_programs_warns_of_nothing(file):
    (file / "p.fpcore").write_text(
        "(FPCore (x) :pre (<= 1e-200 x 1e200) (/ (* x x) x))\n"
        "(FPCore (x y) :pre (and (<= -1 x 1) (<= -1 y 1)) (/ (sqrt (- 1 (+ x y))) (log x)))\n"
        "(FPCore (x) :pre (<= -1e308 x 1e308) (exp (* x (* x x))))\n(FPCore (x) :pre (<= 1 x 2) (acosh x))\n"
    )
    command = [sys.executable, "-W", "always", "-m", "hnfc.cli.main", "analyze", "p.fpcore", "--seconds", "0.2"]
    environment = {**os.environ, "PYTHONPATH": ":".join(p for p in sys.path if p)}
    run = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert "Warning" not in run.stderr, run.stderr
