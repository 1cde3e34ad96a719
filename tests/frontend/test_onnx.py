"""ONNX files: the same function as ONNX's own reference gives, weights where they lie, and one clear error for a broken file."""

from __future__ import annotations

import sys

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from hnfc.backend.entries import entry
from hnfc.backend.execution import runner
from hnfc.backend.stablehlo import emit_portable
from hnfc.core.errors import ModelError
from hnfc.frontend.models import read_model
from hnfc.frontend.onnx import read_onnx
from hnfc.pipeline.compile import compile_module
from hnfc.pipeline.request import Request
from hnfc.rewriter import load_rules

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


def model(nodes, inputs, outputs, weights=(), opset=17, domains=()):
    """Inputs and outputs as (name, shape); weights as (name, array)."""
    graph = helper.make_graph(
        [helper.make_node(kind, list(given), list(made), name=f"{kind.lower()}_{index}", **attributes)
         for index, (kind, given, made, attributes) in enumerate(nodes)],
        "a-graph.of mine",
        [helper.make_tensor_value_info(name, FLOAT, shape) for name, shape in inputs],
        [helper.make_tensor_value_info(name, FLOAT, shape) for name, shape in outputs],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in weights],
    )  # fmt: skip
    imports = [helper.make_opsetid("", opset), *(helper.make_opsetid(domain, 1) for domain in domains)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8)


def naive_softmax(shape=(4, 8)):
    nodes = [("Exp", ["x"], ["e"], {}), ("ReduceSum", ["e", "axis"], ["s"], {"keepdims": 1}), ("Div", ["e", "s"], ["y"], {})]
    return model(nodes, [("x", shape)], [("y", shape)], [("axis", np.array([-1]))])


def naive_attention():
    nodes = [
        ("Transpose", ["k"], ["t"], {"perm": [0, 1, 3, 2]}),
        ("MatMul", ["q", "t"], ["dots"], {}),
        ("Div", ["dots", "root"], ["scores"], {}),
        ("Exp", ["scores"], ["e"], {}),
        ("ReduceSum", ["e", "axis"], ["s"], {"keepdims": 1}),
        ("Div", ["e", "s"], ["p"], {}),
        ("MatMul", ["p", "v"], ["y"], {}),
    ]
    shape = (1, 2, 8, 16)
    return model(nodes, [(n, shape) for n in "qkv"], [("y", shape)], [("axis", np.array([3])), ("root", np.float32(4))])


def layer_norm_and_linear():
    generator = np.random.default_rng(0)
    weights = [(name, generator.normal(size=shape).astype(np.float32)) for name, shape in (("g", 8), ("b", 8), ("w", (5, 8)), ("c", 5))]
    nodes = [
        ("LayerNormalization", ["x", "g", "b"], ["n"], {"epsilon": 1e-5}),
        ("Gemm", ["n", "w", "c"], ["y"], {"transB": 1}),
    ]
    return model(nodes, [("x", (4, 8))], [("y", (4, 5))], weights)


def convolutions():
    generator = np.random.default_rng(0)
    weights = [("w", generator.normal(size=(4, 3, 3, 3)).astype(np.float32)), ("c", generator.normal(size=4).astype(np.float32))]
    weights += [(name, np.abs(generator.normal(size=4)).astype(np.float32)) for name in ("scale", "shift", "mean", "variance")]
    weights += [("d", generator.normal(size=(64, 5)).astype(np.float32))]
    nodes = [
        ("Conv", ["x", "w", "c"], ["a"], {"pads": [1, 1, 1, 1]}),
        ("BatchNormalization", ["a", "scale", "shift", "mean", "variance"], ["n"], {}),
        ("Relu", ["n"], ["r"], {}),
        ("MaxPool", ["r"], ["p"], {"kernel_shape": [2, 2], "strides": [2, 2]}),
        ("Flatten", ["p"], ["f"], {"axis": 1}),
        ("MatMul", ["f", "d"], ["m"], {}),
        ("Softmax", ["m"], ["y"], {"axis": -1}),
    ]
    return model(nodes, [("x", (1, 3, 8, 8))], [("y", (1, 5))], weights)


def along_time():
    """A convolution over one axis."""
    w = np.random.default_rng(0).normal(size=(4, 3, 3)).astype(np.float32)
    return model([("Conv", ["x", "w"], ["y"], {"pads": [1, 1], "strides": [2]})], [("x", (1, 3, 8))], [("y", (1, 4, 4))], [("w", w)])


def any_batch():
    """A reshape to sizes that the model reads from its input."""
    nodes = [
        ("Shape", ["x"], ["sizes"], {}),
        ("Gather", ["sizes", "zero"], ["batch"], {"axis": 0}),
        ("Unsqueeze", ["batch", "front"], ["one"], {}),
        ("Concat", ["one", "rest"], ["wanted"], {"axis": 0}),
        ("Reshape", ["x", "wanted"], ["r"], {}),
        ("Exp", ["r"], ["e"], {}),
        ("ReduceSum", ["e", "axis"], ["s"], {"keepdims": 1}),
        ("Div", ["e", "s"], ["y"], {}),
    ]
    weights = [("zero", np.array(0)), ("front", np.array([0])), ("rest", np.array([8])), ("axis", np.array([1]))]
    return model(nodes, [("x", ("n", 2, 4))], [("y", ("n", 8))], weights)


MODELS = {
    "naive_softmax": naive_softmax, "naive_attention": naive_attention, "layer_norm_and_linear": layer_norm_and_linear,
    "convolutions": convolutions, "along_time": along_time, "any_batch": any_batch,
}  # fmt: skip


def drawn(module, size=1.0):
    generator = np.random.default_rng(1)
    inputs = entry(module).inputs
    return {one.name: (generator.normal(size=[s if s >= 0 else 3 for s in one.shape]) * size).astype(one.dtype) for one in inputs}


def compiled(path, inputs):
    return compile_module(
        read_model(path), Request(phases=load_rules("stability").allowed(), samples=[list(inputs.values())], observed=True)
    )


@pytest.mark.parametrize("name", MODELS)
def test_the_same_function(name, tmp_path):
    proto, path = MODELS[name](), tmp_path / "model.onnx"
    onnx.save(proto, path)
    module = read_model(path)
    inputs = drawn(module)
    (wanted,) = ReferenceEvaluator(proto).run(None, inputs)
    (found,) = runner(module, entry(module).name, "torch")(list(inputs.values()))
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["naive_softmax", "naive_attention", "any_batch"])
def test_finite_where_it_was_not(name, tmp_path):
    path = tmp_path / "model.onnx"
    onnx.save(MODELS[name](), path)
    inputs = drawn(read_model(path), 300)
    result = compiled(path, inputs)
    assert [applied.rule.name for applied in result.applied] == ["softmax_fusion"]
    assert result.applied[0].place.startswith("div_"), "a node is found by its name"
    module = result.export()
    (found,) = runner(module, entry(module).name, "torch")(list(inputs.values()))
    assert np.isfinite(found).all()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("exporter", [True, False])
def test_what_torch_exports(exporter, tmp_path):
    if exporter:
        pytest.importorskip("onnxscript")

    class Head(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.linear = torch.nn.LayerNorm(8), torch.nn.Linear(8, 8)

        def forward(self, x):
            e = torch.exp(self.linear(self.norm(x)))
            return e / e.sum(-1, keepdim=True)

    head, x = Head().eval(), torch.randn(4, 8)
    with torch.no_grad():
        head.linear.weight *= 100
        torch.onnx.export(head, (x,), tmp_path / "head.onnx", dynamo=exporter, verbose=False)
    inputs = {"x": x.numpy()}
    result = compiled(tmp_path / "head.onnx", inputs)
    assert [applied.rule.name for applied in result.applied] == ["softmax_fusion"]
    module = result.export()
    (found,) = runner(module, entry(module).name, "torch")(list(inputs.values()))
    logits = head.linear(head.norm(x)).detach().double()
    np.testing.assert_allclose(found, torch.softmax(logits, -1), rtol=1e-2, atol=1e-5)


# weights


def weighty():
    w = np.random.default_rng(0).normal(size=(64, 128)).astype(np.float32)
    return model([("MatMul", ["x", "w"], ["y"], {})], [("x", ("n", 64))], [("y", ("n", 128))], [("w", w)]), w


@pytest.mark.parametrize("external", [False, True])
def test_weights_are_resources_and_bit_for_bit_what_they_were(external, tmp_path):
    proto, w = weighty()
    onnx.save(proto, tmp_path / "m.onnx", save_as_external_data=external, location="w.bin", size_threshold=0)
    module = read_model(tmp_path / "m.onnx")
    assert "dense_resource<w>" in str(module.operation.get_asm(large_elements_limit=4))
    (found,) = runner(module, entry(module).name, "torch")([np.eye(64, dtype=np.float32)])
    np.testing.assert_array_equal(found, w)
    (again,) = runner(read_model(emit_portable(module)), entry(module).name, "torch")([np.eye(64, dtype=np.float32)])
    np.testing.assert_array_equal(again, w)


def test_external_data_that_is_not_there(tmp_path):
    proto, _ = weighty()
    onnx.save(proto, tmp_path / "m.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
    data = (tmp_path / "w.bin").read_bytes()
    (tmp_path / "w.bin").write_bytes(data[:100])
    with pytest.raises(ModelError, match=r"m\.onnx: the file w\.bin ends before the weight `w` does"):
        read_model(tmp_path / "m.onnx")
    (tmp_path / "w.bin").unlink()
    with pytest.raises(ModelError, match=r"m\.onnx: the file of the weight `w` is missing: w\.bin"):
        read_model(tmp_path / "m.onnx")
    with pytest.raises(ModelError, match="without a folder"):
        read_model((tmp_path / "m.onnx").read_bytes())
    proto = onnx.load(tmp_path / "m.onnx", load_external_data=False)
    next(entry for entry in proto.graph.initializer[0].external_data if entry.key == "location").value = "../../etc/passwd"
    onnx.save(proto, tmp_path / "m.onnx")
    with pytest.raises(ModelError, match="outside the folder of the model"):
        read_model(tmp_path / "m.onnx")


# what does not fit


def test_an_operation_that_torch_mlir_cannot_convert_stays(tmp_path):
    nodes = [("Exp", ["x"], ["e"], {}), ("Mine", ["e"], ["d"], {"domain": "my.own"}), ("Exp", ["e"], ["z"], {})]
    onnx.save(model(nodes, [("x", (3,))], [("d", (3,)), ("z", (3,))], domains=["my.own"]), tmp_path / "m.onnx")
    module = read_model(tmp_path / "m.onnx")
    assert 'torch.operator "onnx.my.own.Mine"' in str(module) and str(module).count("torch.aten.exp") == 2
    with pytest.raises(ModelError, match=r"torch has no operation `onnx\.my\.own\.Mine`"):
        runner(module, entry(module).name, "torch")


def test_broken_files(tmp_path):
    whole = naive_softmax().SerializeToString()
    for name, content in (("cut", whole[:60]), ("empty", b""), ("text", b"hello"), ("zeros", bytes(100))):
        (tmp_path / f"{name}.onnx").write_bytes(content)
        with pytest.raises(ModelError, match=rf"{name}\.onnx: this is no ONNX model"):
            read_model(tmp_path / f"{name}.onnx")
    with pytest.raises(ModelError, match="no such file"):
        read_model(tmp_path / "missing.onnx")


def test_content_tells_what_a_file_is(tmp_path):
    (tmp_path / "model").write_bytes(naive_softmax().SerializeToString())
    assert str(read_model(tmp_path / "model")) == str(read_model((tmp_path / "model").read_bytes()))


def test_onnx_in_text_of_torch_mlir(tmp_path):
    """What `torch-mlir-import-onnx` writes."""
    text = (
        "func.func @main(%x: !torch.vtensor<[2],f32>) -> !torch.vtensor<[2],f32> attributes {torch.onnx_meta.opset_version = 17 : si64} {\n"
        '  %0 = torch.operator "onnx.Exp"(%x) : (!torch.vtensor<[2],f32>) -> !torch.vtensor<[2],f32>\n'
        "  return %0 : !torch.vtensor<[2],f32>\n}\n"
    )
    assert "torch.aten.exp" in str(read_model(text.encode()))
    (tmp_path / "m.mlir").write_text(text)
    assert "torch.aten.exp" in str(read_model(tmp_path / "m.mlir"))


def test_without_the_package(monkeypatch, tmp_path):
    onnx.save(naive_softmax(), tmp_path / "m.onnx")
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ModelError, match="`pip install onnx`"):
        read_onnx(tmp_path / "m.onnx")


@pytest.mark.parametrize("kind", [onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16])
def test_halves_that_are_stored_as_integers(kind, tmp_path):
    constant = onnx.helper.make_tensor("c", kind, [3], [1.0, -0.5, 3.0])
    assert not constant.HasField("raw_data")
    values = [onnx.helper.make_tensor_value_info(name, kind, [3]) for name in ("x", "y")]
    graph = onnx.helper.make_graph([onnx.helper.make_node("Mul", ["x", "c"], ["y"])], "g", values[:1], values[1:], [constant])
    path = tmp_path / "m.onnx"
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=9), path)
    module = read_model(path)
    target = entry(module)
    (found,) = runner(module, target.name, "torch")([np.array([2, 2, 2], target.inputs[0].dtype)])
    assert found.astype(float).tolist() == [2.0, -1.0, 6.0]
