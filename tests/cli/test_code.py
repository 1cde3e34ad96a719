"""FPCore programs as functions of C and Python: they compute what the program computes, and names never clash."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path
from types import CodeType
from typing import Any

import numpy as np
import pytest

from hnfc.accuracy.evaluation import TermEvaluator
from hnfc.accuracy.reading import program_term
from hnfc.accuracy.terms import Terms
from hnfc.cli.main import main
from hnfc.frontend.fpcore import read_programs

PROGRAMS = r"""
(FPCore (x) :name "2 roots */" (- (sqrt (+ x 1)) (sqrt x)))
(FPCore (exp double) :name "sin" (if (< exp double) (* (+ exp double) (+ exp double)) (- (exp (fmin exp double)) (log1p (fabs double)))))
(FPCore (t x) :name "2 roots */" (/ (- 1 (cos (* t x))) (* x x)))
(FPCore (x) :name "third" (if (and (> x 0) (or (<= x 2) (not (== x 3)))) (/ x 3) (- (atan2 x 1/3) (erf (nearbyint x)))))
(FPCore (a b c) :name "fused" (+ (fma a b c) (hypot a (pow b 2))))
"""
POINTS = np.random.default_rng(1).uniform(0.1, 4, (3, 50))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("p.fpcore").write_text(PROGRAMS, encoding="utf-8")
    return tmp_path


def expected(file: str) -> list[np.ndarray[Any, Any]]:
    """The values of the programs of a file at POINTS."""
    found = []
    for program in read_programs(file):
        term, _ = program_term(program, Terms())
        inputs = dict(zip(program.arguments, POINTS, strict=False))
        found.append(TermEvaluator(inputs).values(term))
    return found


def emitted(form: str, capsys: pytest.CaptureFixture[str]) -> tuple[str, str]:
    """The code, and the words beside it; what was improved stands in improved.fpcore."""
    assert main(["p.fpcore", "-O", "accuracy", "-o", "improved.fpcore", "-q"]) == 0
    assert main(["p.fpcore", "-O", "accuracy", "--emit", form]) == 0
    captured = capsys.readouterr()
    return captured.out, captured.err


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_c(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _ = emitted("c", capsys)
    Path("p.c").write_text(code, encoding="utf-8")
    options = ["-Wall", "-Werror", "-O1", "-ffp-contract=off", "-shared", "-fPIC"]
    subprocess.run(["cc", *options, "p.c", "-o", "p.so", "-lm"], check=True)
    library = ctypes.CDLL(str(folder / "p.so"))
    names = ["f_2_roots", "sin_2", "f_2_roots_2", "third", "fused"]
    for name, values, count in zip(names, expected("improved.fpcore"), (1, 2, 2, 1, 3), strict=True):
        function = getattr(library, name)
        function.restype, function.argtypes = ctypes.c_double, [ctypes.c_double] * count
        found = [function(*point) for point in POINTS[:count].T]
        np.testing.assert_allclose(found, values, rtol=1e-14)


def test_python(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, words = emitted("python", capsys)
    assert "fused is not written: NumPy has no fma" in words
    compiled: CodeType = compile(code, "p.py", "exec")
    made: dict[str, Any] = {}
    exec(compiled, made)
    names = ["f_2_roots", "sin", "f_2_roots_2", "third"]
    for name, values, count in zip(names, expected("improved.fpcore"), (1, 2, 2, 1), strict=False):
        np.testing.assert_allclose(made[name](*POINTS[:count]), values, rtol=1e-14)
        assert isinstance(made[name](*POINTS[:count, 0].tolist()), float)


@pytest.mark.parametrize(("arguments", "words"), [
    (["p.fpcore", "-O", "accuracy", "--emit", "num"], "--emit num is for models"),
    (["m.mlir", "--emit", "c"], "--emit c is for FPCore programs"),
])  # fmt: skip
def test_forms_of_the_other_kind(arguments: list[str], words: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert words in capsys.readouterr().err
