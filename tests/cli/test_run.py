"""`hnfc run`, and the forms that `--emit` writes: what comes out, and one clear error for each wrong input."""

from __future__ import annotations

import io
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from hnfc.backend.iree import run_iree
from hnfc.cli.main import main
from hnfc.cli.run_options import EXAMPLE
from hnfc.frontend.models import read_model

ROOT = Path(__file__).parents[2]
ATTENTION = str(ROOT / "examples" / "naive_attention.mlir")
EXPORTED = str(ROOT / "tests" / "data" / "jax" / "attention.mlir")
EXP = """func.func @main(%a: tensor<2x3xELEMENT> loc("x")) -> tensor<2x3xELEMENT> {
  %0 = stablehlo.exponential %a : tensor<2x3xELEMENT>
  return %0 : tensor<2x3xELEMENT>
}
"""


@pytest.fixture
def files(tmp_path, monkeypatch):
    """A folder with models and inputs, which is the current one."""
    monkeypatch.chdir(tmp_path)
    generator = np.random.default_rng(0)
    np.savez("in.npz", **{f"arg{i}": generator.uniform(-40, 40, (1, 2, 8, 16)).astype(np.float32) for i in range(3)})
    np.savez("named.npz", **{name: generator.uniform(-4, 4, (1, 2, 8, 16)) for name in "qkv"})
    np.savez("listed.npz", *[np.zeros((1, 2, 8, 16), np.float32)] * 3)
    Path("exp.mlir").write_text(EXP.replace("ELEMENT", "f32"))
    np.savez("x.npz", x=np.array([[-1, 0, 1], [2, 100, np.nan]], np.float32))
    return tmp_path


def hnfc(capsys, *arguments):
    """The exit code, stdout and stderr."""
    try:
        code = main([str(argument) for argument in arguments])
    except SystemExit as error:
        code = error.code
    out, err = capsys.readouterr()
    return code, out, err


@pytest.mark.parametrize("backend", ["torch", "iree"])
def test_what_comes_out(backend, files, capsys):
    code, out, err = hnfc(capsys, "run", "exp.mlir", "--inputs", "x.npz", "--on", backend)
    assert code == 0 and err == ""
    row = out.splitlines()[2].split("   ")
    cells = [cell.strip() for cell in row if cell.strip()]
    assert cells == ["0", "float32[2, 3]", "0.367879", "7.38906", "2.8688", "1", "1"]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("backend", ["torch", "iree"])
@pytest.mark.parametrize("model", [ATTENTION, EXPORTED])
def test_a_model_that_overflows_and_its_rewritten_form(model, backend, files, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "140")
    code, out, err = hnfc(capsys, "run", model, "--inputs", "in.npz", "--compare", "--on", backend)
    assert code == 0 and "softmax_fusion" in err and "proved over the reals" in err
    original, rewritten = out.splitlines()[2:4]
    assert "original" in original and "256 of 256 not finite" in original
    assert "rewritten" in rewritten and re.search(r"  0 +0 +[\d.e-]+$", rewritten)
    assert "relative to the values over the reals" in out


def test_rewriting_first(files, capsys):
    assert hnfc(capsys, "run", EXPORTED, "--inputs", "in.npz", "-o", "before.npz")[0] == 0
    code, out, err = hnfc(capsys, "run", EXPORTED, "--inputs", "in.npz", "-O", "stability", "-q", "-o", "after.npz", "--json", "r.json")
    assert code == 0 and err == "" and "original" not in out and Path("r.json").exists()
    before, after = (np.load(name)["output0"] for name in ("before.npz", "after.npz"))
    assert np.isnan(before).all() and np.isfinite(after).all() and after.dtype == np.float32


def test_rules_of_ones_own(files, capsys):
    Path("my.hnf").write_text("rule mine exp(x) => exp(x / 2) * exp(x / 2)\n")
    code, _, err = hnfc(capsys, "run", "exp.mlir", "--inputs", "x.npz", "--rules", "my.hnf")
    assert code == 0 and "mine" in err
    Path("my.hnf").write_text("rule mine exp(x =>\n")
    code, _, err = hnfc(capsys, "run", "exp.mlir", "--inputs", "x.npz", "--rules", "my.hnf")
    assert code == 1 and "HNF01" in err


def test_inputs_by_name_and_by_place(files, capsys):
    assert hnfc(capsys, "run", EXPORTED, "--inputs", "named.npz")[0] == 0, "float64 arrays for a float32 model"
    assert hnfc(capsys, "run", EXPORTED, "--inputs", "listed.npz")[0] == 0


FORMATS = {"bf16": ml_dtypes.bfloat16, "f16": np.float16, "f64": np.float64}


@pytest.mark.parametrize("backend", ["torch", "iree"])
@pytest.mark.parametrize("element", FORMATS)
def test_other_formats(element, backend, files, capsys):
    Path("m.mlir").write_text(EXP.replace("ELEMENT", element))
    x = np.linspace(-2, 2, 6).reshape(2, 3).astype(FORMATS[element])
    np.savez("x.npz", arg0=x)
    code, out, _ = hnfc(capsys, "run", "m.mlir", "--inputs", "x.npz", "--on", backend, "-o", "o.npz")
    assert code == 0 and f"{np.dtype(FORMATS[element]).name}[2, 3]" in out
    stored = np.load("o.npz")["output0"].view(FORMATS[element]).astype(np.float64)
    np.testing.assert_allclose(stored, np.exp(x.astype(np.float64)), rtol=4e-3 if element == "bf16" else 1e-3)
    # what was written can be read again
    np.savez("again.npz", arg0=np.load("o.npz")["output0"])
    assert hnfc(capsys, "run", "m.mlir", "--inputs", "again.npz")[0] == 0


@pytest.mark.parametrize("element", ["f8E4M3FN", "f8E5M2"])
def test_narrow_formats(element, files, capsys):
    Path("m.mlir").write_text(
        f"func.func @main(%a: tensor<3x{element}>) -> tensor<3x{element}> {{\n"
        f"  %0 = stablehlo.convert %a : (tensor<3x{element}>) -> tensor<3xf32>\n  %1 = stablehlo.add %0, %0 : tensor<3xf32>\n"
        f"  %2 = stablehlo.convert %1 : (tensor<3xf32>) -> tensor<3x{element}>\n  return %2 : tensor<3x{element}>\n}}\n"
    )
    np.savez("x.npz", arg0=np.array([0.5, -2, 3]))
    code, out, _ = hnfc(capsys, "run", "m.mlir", "--inputs", "x.npz", "-o", "o.npz")
    assert code == 0 and " -4 " in out and " 6 " in out
    np.savez("again.npz", arg0=np.load("o.npz")["output0"])
    code, out, _ = hnfc(capsys, "run", "m.mlir", "--inputs", "again.npz")
    assert code == 0 and " -8 " in out and " 12 " in out


def test_integers_and_logic_and_several_results(files, capsys):
    Path("m.mlir").write_text(
        "func.func @main(%a: tensor<3xi32>, %b: tensor<3xi1>, %c: tensor<3xui8>) -> (tensor<3xi32>, tensor<3xi1>, tensor<3xui8>) {\n"
        "  %0 = stablehlo.add %a, %a : tensor<3xi32>\n  %1 = stablehlo.not %b : tensor<3xi1>\n"
        "  return %0, %1, %c : tensor<3xi32>, tensor<3xi1>, tensor<3xui8>\n}\n"
    )
    np.savez("x.npz", arg0=[1, 2, 3], arg1=[True, False, True], arg2=[1, 2, 200])
    for backend in ("torch", "iree"):
        code, out, _ = hnfc(capsys, "run", "m.mlir", "--inputs", "x.npz", "--on", backend)
        assert code == 0 and all(words in out for words in ("int32[3]", "bool[3]", "uint8[3]", " 200 "))
    code, out, _ = hnfc(capsys, "run", "m.mlir", "--inputs", "x.npz", "--compare", "-q")
    assert code == 0 and "unknown" in out


def test_a_function_without_inputs(files, capsys):
    Path("m.mlir").write_text(
        "func.func @main() -> tensor<2xf32> {\n  %0 = stablehlo.constant dense<[1.0, 2.0]> : tensor<2xf32>\n"
        "  return %0 : tensor<2xf32>\n}\n"
    )
    code, out, _ = hnfc(capsys, "run", "m.mlir")
    assert code == 0 and "1.5" in out


def test_one_of_several_functions(files, capsys):
    two = EXP.replace("ELEMENT", "f32") + EXP.replace("ELEMENT", "f32").replace("@main", "@other")
    Path("two.mlir").write_text(two)
    code, _, err = hnfc(capsys, "run", "two.mlir", "--inputs", "x.npz")
    assert code == 1 and "2 functions: main, other; --function NAME" in err
    assert hnfc(capsys, "run", "two.mlir", "--inputs", "x.npz", "--function", "other")[0] == 0
    code, _, err = hnfc(capsys, "run", "two.mlir", "--inputs", "x.npz", "--function", "third")
    assert code == 1 and "there is no function `third`" in err and "main, other" in err


def test_stdin(files, capsys, monkeypatch):
    class Stdin:
        buffer = io.BytesIO(Path("exp.mlir").read_bytes())

    monkeypatch.setattr(sys, "stdin", Stdin)
    code, out, _ = hnfc(capsys, "run", "-", "--inputs", "x.npz", "--compare", "-q")
    assert code == 0 and "rewritten" in out


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["missing.mlir", "--inputs", "in.npz"], 1, "missing.mlir: there is no such file"),
        ([EXPORTED], 1, "there is no array for arg0 (q): float32[1, 2, 8, 16]; --inputs F.npz gives it"),
        ([EXPORTED, "--inputs", "missing.npz"], 1, "missing.npz: there is no such file"),
        ([EXPORTED, "--inputs", "text.npz"], 1, "text.npz: cannot read inputs: it is no .npz file"),
        ([EXPORTED, "--inputs", "single.npy"], 1, "single.npy: cannot read inputs: it is no .npz file"),
        ([EXPORTED, "--inputs", "objects.npz"], 1, "objects.npz: cannot read inputs"),
        ([EXPORTED, "--inputs", "two.npz"], 1, "two.npz: there is no array for arg2 (v): float32[1, 2, 8, 16]; it holds arg0, arg1"),
        (["exp.mlir", "--inputs", "in.npz"], 1, "`arg0` has shape [1, 2, 8, 16], but the model takes [2, 3]"),
        (["exp.mlir", "--inputs", "extra.npz"], 1, "no input is called `y`. The model takes arg0 (x): float32[2, 3]"),
        (["exp.mlir", "--inputs", "complex.npz"], 1, "`x` is complex128, but the model takes float32"),
        (["exp.mlir", "--inputs", "words.npz"], 1, "but the model takes float32"),
        (["exp.mlir", "--inputs", "huge.npz"], 1, "`x` holds numbers that float32 cannot"),
        (["empty.mlir", "--inputs", "x.npz"], 1, "this model has no function"),
        (["exp.mlir", "--inputs", "x.npz", "-O", "stabilty"], 2, "there is no level or rule group"),
        (["exp.mlir", "--inputs", "x.npz", "--on", "gpu"], 2, "invalid choice"),
        (["exp.mlir", "--inputs", "x.npz", "-o", "missing/o.npz"], 1, "missing/o.npz"),
        (["cbrt.mlir", "--inputs", "x.npz"], 1, "cbrt.mlir:2:8: torch has no operation like `stablehlo.cbrt`"),
        ([], 2, "MODEL"),
    ],
)
def test_one_clear_message_for_a_fault_of_the_input(arguments, code, words, files, capsys):
    Path("text.npz").write_text("no arrays")
    np.save("single.npy", np.zeros(3))
    np.savez("objects.npz", arg0=np.array([{}, None], object))
    np.savez("two.npz", arg0=np.zeros((1, 2, 8, 16)), arg1=np.zeros((1, 2, 8, 16)))
    np.savez("extra.npz", x=np.zeros((2, 3)), y=np.zeros(3))
    np.savez("complex.npz", x=np.zeros((2, 3), complex))
    np.savez("words.npz", x=np.full((2, 3), "word"))
    np.savez("huge.npz", x=np.full((2, 3), 1e300))
    Path("empty.mlir").write_text("module {}\n")
    Path("cbrt.mlir").write_text(Path("exp.mlir").read_text().replace("exponential", "cbrt"))
    found, out, err = hnfc(capsys, "run", *arguments)
    assert found == code, err
    assert words in err and "Traceback" not in err and out == ""


def test_whole_numbers_that_do_not_fit(files, capsys):
    Path("m.mlir").write_text("func.func @main(%a: tensor<2xi32>) -> tensor<2xi32> {\n  return %a : tensor<2xi32>\n}\n// stablehlo\n")
    np.savez("x.npz", arg0=np.array([1, 2**40]))
    code, _, err = hnfc(capsys, "run", "m.mlir", "--inputs", "x.npz")
    assert code == 1 and "`arg0` holds numbers that int32 cannot" in err
    np.savez("x.npz", arg0=np.array([0.5, 1.0]))
    code, _, err = hnfc(capsys, "run", "m.mlir", "--inputs", "x.npz")
    assert code == 1 and "`arg0` is float64, but the model takes int32" in err


@pytest.mark.parametrize(("name", "backend"), [("iree.compiler", "iree"), ("torch", "torch")])
def test_what_is_missing_is_named(name, backend, files):
    """In a process of its own: this one has loaded everything."""
    arguments = ["run", "exp.mlir", "--inputs", "x.npz", "--on", backend]
    code = f"import sys; sys.modules[{name!r}] = None\nfrom hnfc.cli.main import main\nsys.exit(main({arguments!r}))"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, timeout=120, check=False)
    assert done.returncode == 1 and "pip install" in done.stderr and "Traceback" not in done.stderr


def test_the_examples_of_the_help_work(tmp_path, capsys, monkeypatch):
    prepare, *lines = [line.strip() for line in EXAMPLE.splitlines()[1:]]
    subprocess.run([sys.executable, *shlex.split(prepare)[1:]], cwd=tmp_path, check=True)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    for line in lines:
        command, *arguments = shlex.split(re.split(r"\s{3,}", line)[0])
        code, out, _ = hnfc(capsys, *arguments)
        assert command == "hnfc" and code == 0 and "float32[1, 2, 8, 16]" in out
    assert Path("R.npz").exists()


# --emit


TEXTS = [("stablehlo", "stablehlo.dot_general"), ("linalg", "linalg.generic"), ("torch", "torch.aten.softmax")]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("form", "words"), TEXTS)
@pytest.mark.parametrize("model", [ATTENTION, EXPORTED])
def test_forms_of_text(form, words, model, files, capsys):
    assert hnfc(capsys, model, "--emit", form, "-q", "-o", "out")[0] == 0
    assert words in Path("out").read_text(encoding="utf-8")


def test_compiled_by_iree(files, capsys):
    assert hnfc(capsys, EXPORTED, "--emit", "iree", "-q", "-o", "m.vmfb")[0] == 0
    arrays = [np.load("in.npz")[f"arg{i}"] for i in range(3)]
    assert np.isfinite(run_iree(Path("m.vmfb").read_bytes(), "main", arrays)[0]).all()
    assert sorted(Path().glob("*.part")) == []


def test_portable_stablehlo(files, capsys):
    assert hnfc(capsys, EXPORTED, "--emit", "vhlo", "-q", "-o", "m.mlirbc")[0] == 0
    assert Path("m.mlirbc").read_bytes()[:4] == b"ML\xefR"
    assert "torch.aten" in str(read_model("m.mlirbc"))
    assert hnfc(capsys, "run", "m.mlirbc", "--inputs", "in.npz")[0] == 0


@pytest.mark.parametrize("form", ["iree", "vhlo", "mlirbc"])
def test_no_binary_to_a_terminal(form, files, capsys, monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    code, out, err = hnfc(capsys, EXPORTED, "--emit", form)
    assert code == 2 and out == "" and "-o OUT" in err


def test_a_search_is_a_way_to_rewrite(files, capsys):
    """`--search` without a level means that of the rewriting command; a cost without a search is refused."""
    assert main(["run", ATTENTION, "--inputs", "in.npz", "--search", "egraph", "--seconds", "3"]) == 0
    assert "equality saturation" in capsys.readouterr().err
    assert main(["run", ATTENTION, "--inputs", "in.npz", "--cost", "flops"]) == 2
    assert "--search egraph" in capsys.readouterr().err
