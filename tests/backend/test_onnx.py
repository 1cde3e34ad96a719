"""Models as ONNX, run by onnxruntime beside torch."""

from __future__ import annotations

import numpy as np
import pytest

from hnfc.backend.on_iree import written
from hnfc.backend.on_onnx import ONNX
from hnfc.cli.main import main
from hnfc.core.errors import ModelError
from hnfc.runners.measuring import accuracy, subject
from hnfc.runners.programs import measured

pytest.importorskip("onnxscript")
onnxruntime = pytest.importorskip("onnxruntime")

SOFTMAX = """
func.func @main(%x: !torch.vtensor<[?,5],f32>) -> !torch.vtensor<[?,5],f32> {
  %axis = torch.constant.int 1
  %none = torch.constant.none
  %true = torch.constant.bool true
  %e = torch.aten.exp %x : !torch.vtensor<[?,5],f32> -> !torch.vtensor<[?,5],f32>
  %axes = torch.prim.ListConstruct %axis : (!torch.int) -> !torch.list<int>
  %s = torch.aten.sum.dim_IntList %e, %axes, %true, %none
    : !torch.vtensor<[?,5],f32>, !torch.list<int>, !torch.bool, !torch.none -> !torch.vtensor<[?,1],f32>
  %y = torch.aten.div.Tensor %e, %s : !torch.vtensor<[?,5],f32>, !torch.vtensor<[?,1],f32> -> !torch.vtensor<[?,5],f32>
  return %y : !torch.vtensor<[?,5],f32>
}
"""
SMALL = """
func.func @main(%x: !torch.vtensor<[3],f64>) -> !torch.vtensor<[3],f64> {
  %c = torch.constant.float 3.3e-10
  %one = torch.constant.int 1
  %y = torch.aten.add.Scalar %x, %c, %one : !torch.vtensor<[3],f64>, !torch.float, !torch.int -> !torch.vtensor<[3],f64>
  return %y : !torch.vtensor<[3],f64>
}
"""


def session(data):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])


@pytest.fixture
def written_as(tmp_path):
    def write(text, *options):
        source, target = tmp_path / "model.mlir", tmp_path / "model.onnx"
        source.write_text(text)
        assert main([str(source), "-q", "-o", str(target), *options]) == 0
        return session(target.read_bytes())

    return write


def test_a_rewritten_model_of_open_sizes(written_as):
    model = written_as(SOFTMAX)
    for rows in (1, 4):
        x = np.linspace(-200, 200, rows * 5, dtype=np.float32).reshape(rows, 5)
        wide = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
        np.testing.assert_allclose(model.run(None, {"arg0": x})[0], wide / wide.sum(1, keepdims=True), rtol=2e-5, atol=1e-37)


def test_small_constants_and_digits_of_float64_stay(written_as):
    x = np.array([0.0, 1e-10, 1.0])
    np.testing.assert_array_equal(written_as(SMALL, "-O", "none").run(None, {"arg0": x})[0], x + 3.3e-10)


QUICK = {("expm1", "f32"), ("sigmoid", "f32"), ("erfc", "f64")}


@pytest.mark.parametrize(
    ("name", "element"),
    [
        pytest.param(name, element, marks=[] if (name, element) in QUICK else [pytest.mark.slow])
        for name in (*ONNX.by_name, "gelu", "gelu (tanh)") if name in measured() for element in ("f32", "f64")
    ],
)  # fmt: skip
def test_forms_are_accurate_on_onnxruntime(name, element):
    from hnfc.backend.onnx import emit_onnx

    module, arrays, want = subject(*measured()[name], element, 512)
    model = session(emit_onnx(written(module, ONNX)[0]))
    (got,) = model.run(None, {one.name: array for one, array in zip(model.get_inputs(), arrays, strict=True)})
    normal = np.abs(want) > np.finfo(np.float32 if element == "f32" else np.float64).tiny
    got, want = np.where(normal, got, 0), np.where(normal, want, 0)
    assert accuracy(got, want, arrays, element).ulps < (2000 if name in ("log_ndtr", "gelu", "gelu (tanh)") else 16)


def test_what_onnx_has_no_form_for_is_named(tmp_path, capsys):
    source = tmp_path / "model.mlir"
    source.write_text(SMALL.replace("torch.aten.add.Scalar %x, %c, %one : !torch.vtensor<[3],f64>, !torch.float, !torch.int",
                                    "torch.aten.lgamma %x : !torch.vtensor<[3],f64>"))  # fmt: skip
    assert main([str(source), "-q", "-o", str(tmp_path / "model.onnx")]) == 1
    assert "lgamma" in capsys.readouterr().err and not (tmp_path / "model.onnx").exists()


@pytest.mark.parametrize(("form", "suffix"), [("linalg", ".onnx"), ("onnx", ".mlir"), ("torch", ".onnx")])
def test_a_suffix_of_another_form_is_refused(tmp_path, capsys, form, suffix):
    source = tmp_path / "model.mlir"
    source.write_text(SMALL)
    assert main([str(source), "--emit", form, "-o", str(tmp_path / f"out{suffix}")]) == 2
    assert f"--emit {form} does not write {suffix} files" in capsys.readouterr().err


def test_without_the_packages_the_way_out_is_named(monkeypatch):
    import sys

    from hnfc.backend.onnx import emit_onnx

    monkeypatch.setitem(sys.modules, "onnxscript", None)
    module, _, _ = subject(*measured()["exp"], "f32", 16)
    with pytest.raises(ModelError, match=r"hnfc\[onnx\]"):
        emit_onnx(module)


def test_a_run_on_onnxruntime(tmp_path, capsys):
    source, inputs, outputs = (tmp_path / name for name in ("model.mlir", "in.npz", "out.npz"))
    source.write_text(SMALL)
    np.savez(inputs, arg0=np.array([0.0, 1.0, 2.0]))
    assert main(["run", str(source), "--inputs", str(inputs), "--on", "onnx", "-o", str(outputs)]) == 0
    np.testing.assert_array_equal(np.load(outputs)["output0"], np.array([0.0, 1.0, 2.0]) + 3.3e-10)


def model_of(nodes, shape, result):
    from onnx import TensorProto, helper

    given, returned = (helper.make_tensor_value_info(name, TensorProto.FLOAT, sizes) for name, sizes in (("x", shape), ("scores", result)))
    graph = helper.make_graph([helper.make_node(*node[:3], **node[3]) for node in nodes], "g", [given], [returned])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9).SerializeToString()


def test_outputs_keep_their_names(tmp_path):
    source, target = tmp_path / "in.onnx", tmp_path / "out.onnx"
    source.write_bytes(model_of([("Exp", ["x"], ["scores"], {})], [2], [2]))
    assert main([str(source), "-q", "-o", str(target)]) == 0
    model = session(target.read_bytes())
    assert [[one.name for one in ends] for ends in (model.get_inputs(), model.get_outputs())] == [["x"], ["scores"]]


def test_an_axis_that_cannot_stay_open_is_refused(tmp_path, capsys):
    nodes = [("Shape", ["x"], ["s"], {}), ("ReduceProd", ["s"], ["n"], {"keepdims": 1}), ("Reshape", ["x", "n"], ["scores"], {})]
    source, target = tmp_path / "in.onnx", tmp_path / "out.onnx"
    source.write_bytes(model_of(nodes, ["a", "b"], ["c"]))
    code = main([str(source), "-q", "-o", str(target)])
    if code == 0:
        x = np.arange(6, dtype=np.float32).reshape(2, 3)
        np.testing.assert_array_equal(session(target.read_bytes()).run(None, {"x": x})[0], x.ravel())
    else:
        assert code == 1 and "error: " in capsys.readouterr().err and not target.exists()


def test_results_have_the_declared_types():
    """Hardmax becomes a one-hot in integers, which only the declared type makes a float."""
    import onnx

    from hnfc.backend.onnx import emit_onnx, onnx_function
    from hnfc.frontend.models import read_model

    text = '<ir_version: 8, opset_import: ["" : 17]>\ng (float[2, 3] x) => (float[2, 3] y) { y = Hardmax <axis = 1> (x) }'
    written_model = emit_onnx(read_model(onnx.parser.parse_model(text).SerializeToString()))
    (found,) = onnx_function(written_model)([np.array([[1, 3, 2], [0, 0, -1]], "f4")])
    assert found.dtype == np.float32 and found.tolist() == [[0, 1, 0], [1, 0, 0]]
