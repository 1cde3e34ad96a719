"""Forms for operations that IREE computes badly or lacks: each is accurate over its range on IREE itself."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch_mlir import ir

from hnfc.backend.execution import runner
from hnfc.backend.iree import compile_iree, run_iree
from hnfc.backend.on_iree import FORMS, written
from hnfc.cli.main import main
from hnfc.frontend.models import read_model
from hnfc.frontend.reading import new_context
from hnfc.runners.measuring import accuracy, on_runner, subject
from hnfc.runners.programs import example, measured, programs
from hnfc.runners.table import HEADINGS, document, instead

ROOT = Path(__file__).parents[2]
LIMITS = {
    ("log_ndtr", "f64"): 2e3,
    ("gelu", "f64"): 2e3,
    ("gelu (tanh)", "f32"): 200.0,
    ("gelu (tanh)", "f64"): 200.0,
    ("pow", "f64"): 500.0,
    ("logaddexp", "f64"): 20.0,
}
"""Units in the last place, where a form has more than 6: tails, and sums that cancel."""
POINTS = [0.0, 1e-30, -1e-30, 1e-8, -1e-8, 0.3, -0.7, 1.0, -1.0, 1.5, 2.0, 20.5, -20.5, 1e5, 1e20, -1e20, np.inf, -np.inf, np.nan]


def run_all(names: list[str], element: str, arrays: list[Any]) -> dict[str, Any]:
    """The results of unary operations in hnfc's forms, on IREE."""
    operations = {f"f{i}": example(*measured()[name], element, len(arrays[0])) for i, name in enumerate(names)}
    module, counted = written(programs(operations))
    assert sum(counted.values()) >= len(names)
    compiled = compile_iree(module)
    return {name: run_iree(compiled, f"f{i}", arrays)[0] for i, name in enumerate(names)}


REFERENCES = {
    "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh, "sinh": np.sinh, "cosh": np.cosh, "log10": np.log10, "atan": np.arctan,
    "sin": np.sin, "tan": np.tan,
}  # fmt: skip


def test_values_of_forms_at_zeros_infinities_and_nan() -> None:
    x = np.array(POINTS, np.float32)
    with np.errstate(all="ignore"):
        far = np.isfinite(x) & (np.abs(x) > 8e8)
        for name, got in run_all(list(REFERENCES), "f32", [x]).items():
            want = REFERENCES[name](x.astype(np.float64)).astype(np.float32)
            looked_at = ~far if name in ("sin", "tan") else far | ~far
            np.testing.assert_allclose(got[looked_at], want[looked_at], rtol=1e-6, atol=0.0, err_msg=name)


def test_float64_functions_that_iree_lacks() -> None:
    x = np.array([v for v in POINTS if abs(v) < 1e6 or not np.isfinite(v)])
    references = {
        "expm1": np.expm1,
        "log1p": np.log1p,
        "tanh": np.tanh,
        "asinh": np.arcsinh,
        "cos": np.cos,
        "atan": np.arctan,
        "log2": np.log2,
    }
    with np.errstate(all="ignore"):
        for name, got in run_all(list(references), "f64", [x]).items():
            np.testing.assert_allclose(got, references[name](x), rtol=1e-15, atol=0.0, err_msg=name)


@pytest.mark.parametrize("name", ["asinh", "acosh", "atanh"])
def test_a_form_over_the_range_of_float32(name: str) -> None:
    module, arrays, want = subject(*measured()[name], "f32", 512)
    assert on_runner(module, arrays, want, "f32", "iree").ulps > 1e3
    assert on_runner(written(module)[0], arrays, want, "f32", "iree").ulps < 4


@pytest.mark.slow
@pytest.mark.parametrize("element", ["f64", "f32", "f16", "bf16"])
@pytest.mark.parametrize("name", [name for name in measured() if name.split()[0] in (*FORMS, "gelu")])
def test_every_form(name: str, element: str) -> None:
    kind, attributes = measured()[name]
    module, arrays, want = subject(kind, attributes, element)
    module, counted = written(module)
    if not counted:
        pytest.skip("IREE's own is good")
    if (name, element) == ("gelu (tanh)", "f64"):
        want[arrays[0] < -10] = np.nan  # e^x overflows in its logistic function, as it does in torch
    if name in ("silu", "mish") and element == "bf16":
        want[arrays[0] < -87] = np.nan  # IREE's e^x is 0 there
    found = on_runner(module, arrays, want, element, "iree")
    assert not found.missing
    assert found.ulps <= LIMITS.get((name, element), 6.0), found


def test_what_iree_does_well_stays() -> None:
    names = ["exp", "log", "expm1", "log1p", "tanh", "sigmoid", "sqrt", "add", "neg"]
    module = programs({name: example(*measured()[name], "f32", 4) for name in names})
    assert written(module) == (module, {})


MODEL = """func.func @main(%x: !torch.vtensor<[4],f32>) -> !torch.vtensor<[4],f32> {
  %0 = torch.aten.asinh %x : !torch.vtensor<[4],f32> -> !torch.vtensor<[4],f32>
  %1 = torch.aten.exp %0 : !torch.vtensor<[4],f32> -> !torch.vtensor<[4],f32>
  %2 = torch.aten.asinh %x : !torch.vtensor<[4],f32> -> !torch.vtensor<[4],f32>
  return %2 : !torch.vtensor<[4],f32>
}
"""


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    Path("m.mlir").write_text(MODEL)
    np.savez("x.npz", np.array([1e-8, 1e20, -3.0, 0.0], np.float32))
    return "m.mlir"


def test_operations_of_the_model_itself(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Any level but none writes them otherwise, and the report says so; errors are measured on IREE."""
    assert main(["run", model, "--inputs", "x.npz", "--on", "iree", "-O", "stability", "-o", "good.npz"]) == 0
    report = capsys.readouterr().err
    assert "measured as IREE runs it" in report and "asinh ×2" in re.sub(r"\s+", " ", report)
    assert re.search(r"output 0: error 1 of 4 not finite → [\d.]+e-0[78]", report)
    assert main(["run", model, "--inputs", "x.npz", "--on", "iree", "-o", "bad.npz"]) == 0
    good, bad = (np.load(name)["output0"] for name in ("good.npz", "bad.npz"))
    np.testing.assert_allclose(good, np.arcsinh(np.array([1e-8, 1e20, -3.0, 0.0])), rtol=3e-7)
    assert bad[0] == 0 and np.isinf(bad[1])


def test_torch_runs_its_own(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([model, "-O", "stability", "-o", "out.mlir", "--calibrate", "x.npz"]) == 0
    assert Path("out.mlir").read_text().count("torch.aten.asinh") == 2 and "written for IREE" not in capsys.readouterr().err
    assert main([model, "-O", "stability", "-o", "out.mlir", "--emit", "linalg", "-q"]) == 0
    assert "math.sqrt" in Path("out.mlir").read_text()


def test_rules_are_measured_on_iree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """log((1 + x)/(1 - x))/2 becomes atanh, which IREE computes as it was before."""
    monkeypatch.chdir(tmp_path)
    kind = "!torch.vtensor<[3],f32>"
    Path("m.mlir").write_text(
        f"func.func @main(%x: {kind}) -> {kind} {{\n  %one = torch.constant.int 1\n  %half = torch.constant.float 5.0e-01\n"
        f"  %a = torch.aten.add.Scalar %x, %one, %one : {kind}, !torch.int, !torch.int -> {kind}\n"
        f"  %b = torch.aten.rsub.Scalar %x, %one, %one : {kind}, !torch.int, !torch.int -> {kind}\n"
        f"  %c = torch.aten.div.Tensor %a, %b : {kind}, {kind} -> {kind}\n  %d = torch.aten.log %c : {kind} -> {kind}\n"
        f"  %e = torch.aten.mul.Scalar %d, %half : {kind}, !torch.float -> {kind}\n  return %e : {kind}\n}}\n"
    )
    x = np.array([1e-9, 1e-6, -0.5], np.float32)
    np.savez("x.npz", x)
    assert main(["run", "m.mlir", "--inputs", "x.npz", "--on", "iree", "-O", "stability", "-o", "y.npz"]) == 0
    assert "atanh_of_log" in capsys.readouterr().err
    np.testing.assert_allclose(np.load("y.npz")["output0"], np.arctanh(x.astype(np.float64)), rtol=3e-7)


def test_a_module_that_needs_no_form_is_the_same_one() -> None:
    module = ir.Module.parse(MODEL.replace("asinh", "exp"), new_context())
    assert written(module)[0] is module


def test_the_page_of_the_documentation_is_current() -> None:
    """Its operations and forms; `python -m hnfc.runners` measures the numbers."""
    page = (ROOT / "docs" / "runners.md").read_text(encoding="utf-8")
    rows = [re.split(r"(?<!\\) \| ", line.strip("| ")) for line in page.splitlines() if line.startswith("| `")]
    assert f"| {' | '.join(HEADINGS)} |" in page
    assert [row[0] for row in rows] == [f"`{name}`" for name in measured()]
    for name in measured():
        assert instead(name) in page


@pytest.mark.slow
def test_the_page_can_be_written_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hnfc.runners.table.measured", lambda: {name: measured()[name] for name in ("exp", "asinh", "erfc")})
    page = document(lambda name: None)
    assert "| `erfc` |" in page and accuracy(np.ones(2), np.ones(2), [np.ones(2)], "f64").ulps == 0


NAN_UNARY = ["special_erfc", "special_log_ndtr", "special_i0e", "special_i0", "special_erfcx"]
NAN_BINARY = ["maximum", "minimum", "pow.Tensor_Tensor", "hypot", "logaddexp", "special_xlogy", "atan2"]


@pytest.mark.parametrize("name", [*NAN_UNARY, *NAN_BINARY])
def test_nan_is_where_torch_has_it(name: str) -> None:
    """The forms of erfc, log_ndtr and i0e take a maximum, and IREE's own drops a NaN of its first operand."""
    nan, inf = np.nan, np.inf
    x = np.array([nan, 1.5, -2.5, inf, -inf, 0, nan, nan, 1], np.float32)
    y = np.array([1.5, nan, nan, nan, nan, nan, inf, 0, nan], np.float32)
    arrays = [x, y] if name in NAN_BINARY else [x]
    kind = "!torch.vtensor<[9],f32>"
    arguments = ", ".join(f"%{letter}: {kind}" for letter, _ in zip("xy", arrays, strict=False))
    values = ", ".join(f"%{letter}" for letter, _ in zip("xy", arrays, strict=False))
    call = f'torch.operator "torch.aten.{name}"({values}) : ({", ".join([kind] * len(arrays))}) -> {kind}'
    module = read_model(f"func.func @main({arguments}) -> {kind} {{\n  %r = {call}\n  return %r : {kind}\n}}".encode())
    wanted = runner(module, "main", "torch")(arrays)[0]
    found = runner(written(module)[0], "main", "iree")(arrays)[0]
    np.testing.assert_array_equal(np.isnan(found), np.isnan(wanted))
