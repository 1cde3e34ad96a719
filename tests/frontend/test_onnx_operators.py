"""Operators of ONNX on torch: values and types as ONNX's reference has them, also where torch-mlir converts otherwise, or not at all."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from hnfc.backend.entries import entry
from hnfc.backend.execution import runner
from hnfc.core.errors import ModelError
from hnfc.frontend.models import read_model
from hnfc.frontend.onnx_conversion import operators

KINDS = {np.dtype(kind): helper.np_dtype_to_tensor_dtype(np.dtype(kind)) for kind in ("f4", "f2", "i1", "i2", "i4", "i8", "u1", "u2")}


def model(operator, inputs, outputs, weights=(), opset=17, domain="", **attributes):
    """inputs: arrays by name. outputs: type and shape of each."""
    names = [*inputs, *(name for name, _ in weights)]
    made = [f"y{index}" for index in range(len(outputs))]
    node = helper.make_node(operator, [name.removeprefix("none") for name in names], made, domain=domain, name="node", **attributes)
    graph = helper.make_graph(
        [node], "g",
        [helper.make_tensor_value_info(name, KINDS[array.dtype], array.shape) for name, array in inputs.items() if "none" not in name],
        [helper.make_tensor_value_info(name, KINDS[np.dtype(kind)], shape) for name, (kind, shape) in zip(made, outputs, strict=True)],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in weights if "none" not in name],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", opset), *([helper.make_opsetid(domain, 1)] if domain else [])]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def on_torch(proto, inputs):
    module = read_model(proto.SerializeToString())
    return runner(module, entry(module).name, "torch")(list(inputs.values()))


def check(proto, inputs):
    wanted, found = ReferenceEvaluator(proto).run(None, inputs), on_torch(proto, inputs)
    for one, other in zip(wanted, found, strict=True):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        np.testing.assert_allclose(other, one, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", ["i1", "i2", "i4", "i8", "u1", "u2"])
def test_quotients_of_integers_are_integers(kind):
    signs = np.array([1, -1, 1, -1], "i4") if kind[0] == "i" else 1
    inputs = {"a": (np.array([16, 7, 7, 100]) * signs).astype(kind), "b": np.array([11, 2, 3, 9]).astype(kind)}
    check(model("Div", inputs, [(kind, (4,))]), inputs)


def test_large_quotients_are_exact():
    inputs = {"a": np.array([2**53 + 1, -(2**61) - 3]), "b": np.array([1, 7])}
    (found,) = on_torch(model("Div", inputs, [("i8", (2,))]), inputs)
    assert found.tolist() == [2**53 + 1, -((2**61 + 3) // 7)]


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_hardmax(axis):
    inputs = {"x": np.array([[1, 3, 2], [4, 4, 0]], "f4")}
    check(model("Hardmax", inputs, [("f4", (2, 3))], axis=axis), inputs)


@pytest.mark.parametrize("kind", ["i4", "f4", "f2", "i1"])
def test_eye_like_and_cumulative_sums_keep_the_type(kind):
    inputs = {"x": np.ones((2, 3), kind)}
    check(model("EyeLike", inputs, [(kind, (2, 3))], k=1), inputs)
    if kind != "i1":
        check(model("CumSum", inputs, [(kind, (2, 3))], [("axis", np.array(1))]), inputs)


@pytest.mark.parametrize("scale", [0.6, 0.75, 1.6, 2.0])
def test_resize_takes_coordinates_from_the_scale(scale):
    inputs = {"x": np.arange(1, 9, dtype="f4").reshape(1, 1, 2, 4), "none": np.zeros(0, "f4")}
    scales = ("s", np.array([1, 1, scale, scale], "f4"))
    shape = (1, 1, int(2 * scale), int(4 * scale))
    proto = model("Resize", inputs, [("f4", shape)], [scales], mode="linear")
    check(proto, {"x": inputs["x"]})


@pytest.mark.parametrize("sizes", [[2, 4], [1, 2, 3], [0, 6]])
@pytest.mark.parametrize("form", ["attribute", "weight", "input"])
def test_split(sizes, form):
    inputs = {"x": np.arange(12, dtype="f4").reshape(2, 6)}
    outputs = [("f4", (2, size)) for size in sizes]
    if form == "attribute":
        found = on_torch(model("Split", inputs, outputs, opset=11, axis=1, split=sizes), inputs)
    elif form == "weight":
        found = on_torch(model("Split", inputs, outputs, [("sizes", np.array(sizes))], axis=1), inputs)
    else:
        inputs["sizes"] = np.array(sizes)
        found = on_torch(model("Split", inputs, outputs, axis=1), inputs)
    for one, other in zip(found, np.split(inputs["x"], np.cumsum(sizes)[:-1], axis=1), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("largest", [0, 1])
def test_the_first_of_equal_elements_is_taken(largest):
    inputs = {"x": np.array([[3, 1, 3, 3, 1], [2, 2, 2, 2, 2]], "f4")}
    check(model("TopK", inputs, [("f4", (2, 3)), ("i8", (2, 3))], [("k", np.array([3]))], largest=largest), inputs)


def test_a_scale_that_torch_does_not_take_is_refused():
    inputs = {"x": np.arange(1, 9, dtype="f4").reshape(1, 1, 2, 4), "none": np.zeros(0, "f4")}
    proto = model("Resize", inputs, [("f4", (1, 1, 2, 5))], [("s", np.array([1, 1, 1.3, 1.3], "f4"))], mode="linear")
    with pytest.raises(ModelError, match=r"`node` \(Resize, opset 17\): .*--on iree"):
        on_torch(proto, {"x": inputs["x"]})


@pytest.mark.parametrize(("operator", "opset"), [("RMSNormalization", 23), ("Swish", 24), ("HardSwish", 14), ("Celu", 12)])
def test_functions_of_onnx_are_written_out_where_that_helps(operator, opset):
    inputs = {"x": np.random.default_rng(0).normal(size=(2, 4)).astype("f4")}
    weights = [("w", np.ones(4, "f4"))] if operator == "RMSNormalization" else []
    proto = model(operator, inputs, [("f4", (2, 4))], weights, opset)
    left = [name for _, name in operators(read_model(proto.SerializeToString()))]
    assert left == (["onnx.RMSNormalization"] if weights else []), "its function has axes that only a run knows"
    check(proto, inputs)


def test_what_nobody_converts_runs_in_the_reference():
    inputs = {"x": np.arange(16, dtype="f4").reshape(1, 1, 4, 4)}
    inputs["grid"] = np.random.default_rng(0).uniform(-1, 1, (1, 2, 2, 2)).astype("f4")
    check(model("GridSample", inputs, [("f4", (1, 1, 2, 2))], opset=20, padding_mode="reflection"), inputs)


def test_an_operator_of_another_domain_is_not_taken_for_one_of_onnx():
    inputs = {"x": np.array([-1, 1], "f4")}
    proto = model("Relu", inputs, [("f4", (2,))], domain="mine")
    module = read_model(proto.SerializeToString())
    assert [name for _, name in operators(module)] == ["onnx.mine.Relu"]
    with pytest.raises(ModelError, match=r"`node`.*mine\.Relu"):
        runner(module, entry(module).name, "torch")


@pytest.mark.parametrize("operator", ["ConstantOfShape", "Abs", "Tile"])
def test_an_input_without_a_number_of_axes_is_refused(operator):
    proto = model(operator, {"x": np.ones(2, "i8")}, [("i8", (2,))])
    proto.graph.input[0].type.tensor_type.ClearField("shape")
    with pytest.raises(ModelError, match="how many axes"):
        read_model(proto.SerializeToString())


def test_a_conversion_that_ends_the_process_is_not_made(monkeypatch):
    """The child's end alone counts: here it ends itself where one operator is to be converted."""
    import os

    from hnfc.frontend import onnx_conversion

    real = onnx_conversion._converted

    def converted(module):
        if os.getpid() != parent and any(name == "onnx.Tanh" for _, name in operators(module)):
            os.abort()
        return real(module)

    parent = os.getpid()
    monkeypatch.setattr(onnx_conversion, "_converted", converted)
    inputs = {"x": np.array([-1, 1], "f4")}
    proto = model("Tanh", inputs, [("f4", (2,))])
    proto.graph.node.insert(0, helper.make_node("Relu", ["x"], ["r"]))
    proto.graph.node[1].input[0] = "r"
    assert [name for _, name in operators(read_model(proto.SerializeToString()))] == ["onnx.Tanh"]
    check(proto, inputs)
