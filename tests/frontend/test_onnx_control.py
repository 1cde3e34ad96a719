"""Branches and loops of ONNX on torch, nodes that torch cannot run as converted, and refusals that name a node."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, parser
from onnx.reference import ReferenceEvaluator

from hnfc.backend.entries import entry
from hnfc.backend.execution import runner
from hnfc.backend.references import run_with_references
from hnfc.core.errors import ModelError
from hnfc.frontend.models import read_model


def check(text, *inputs, tmp_path=None, wanted=None):
    proto = parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]>\n{text}')
    named = dict(zip((value.name for value in proto.graph.input), inputs, strict=True))
    wanted = ReferenceEvaluator(proto).run(None, named) if wanted is None else wanted
    if tmp_path is not None:
        onnx.save(proto, tmp_path / "m.onnx")
        module = read_model(tmp_path / "m.onnx")
        _, found = run_with_references(tmp_path / "m.onnx", module, entry(module).name, inputs)
    else:
        module = read_model(proto.SerializeToString())
        found = runner(module, entry(module).name, "torch")(list(inputs))
    for one, expected in zip(found, wanted, strict=True):
        assert one.dtype == expected.dtype and one.shape == expected.shape
        np.testing.assert_allclose(one, expected, rtol=1e-6)


@pytest.mark.parametrize("taken", [True, False])
@pytest.mark.parametrize("other", ["Neg (x)", "Celu (x)"])
def test_the_branch_that_is_taken(taken, other):
    """Celu is not converted: its branch then lies in an operation of ONNX, whose graphs come in the order of their names."""
    text = f"""g (bool c, float[3] x) => (float[3] y) {{
        h = Exp (x)
        y = If (c) <then_branch = a () => (float[3] p) {{ p = Add (h, x) }}, else_branch = b () => (float[3] q) {{ q = {other} }}>
    }}"""
    check(text, np.array(taken), np.array([-1, 0, 2], "f4"))


@pytest.mark.parametrize("turns", [0, 1, 4])
def test_a_loop_gives_what_it_carries_and_a_row_for_each_turn(turns):
    text = """g (int64 n, float[2] x) => (float[2] last, float[t, 2] rows) {
        go = Constant <value = bool {1}> ()
        last, rows = Loop (n, go, x) <body = b (int64 i, bool c, float[2] v) => (bool d, float[2] w, float[2] r) {
            d = Identity (c)
            w = Add (v, x)
            r = Mul (w, x)
        }>
    }"""
    x = np.array([1, 3], "f4")
    check(text, np.array(turns), x, wanted=None if turns else [x, np.zeros((0, 2), "f4")])  # ONNX's reference raises without a turn


def test_a_loop_ends_with_its_condition():
    text = """g (float[1] x) => (float[1] y) {
        n = Constant <value = int64 {100}> ()
        go = Constant <value = bool {1}> ()
        limit = Constant <value = float[1] {50.0}> ()
        y = Loop (n, go, x) <body = b (int64 i, bool c, float[1] v) => (bool d, float[1] w) {
            w = Add (v, v)
            less = Less (w, limit)
            d = Squeeze (less)
        }>
    }"""
    check(text, np.array([3], "f4"))


@pytest.mark.parametrize("reverse", [0, 1])
def test_a_scan(reverse):
    text = f"""g (float[2] s, float[2, 3] x) => (float[2] last, float[2, 3] rows) {{
        last, rows = Scan (s, x) <num_scan_inputs = 1, scan_input_axes = [1], scan_output_axes = [1], scan_input_directions = [{reverse}],
            body = b (float[2] v, float[2] part) => (float[2] w, float[2] r) {{
                w = Add (v, part)
                r = Mul (w, v)
            }}>
    }}"""
    state, x, rows = np.array([1, 2], "f4"), np.arange(6, dtype="f4").reshape(2, 3), []
    last = state
    for part in x.T[:: -1 if reverse else 1]:
        rows.append((last + part) * last)
        last = last + part
    check(text, state, x, wanted=[last, np.stack(rows, 1)])  # ONNX's reference scans along axis 0 alone


def test_a_node_that_torch_cannot_run_as_converted_runs_in_the_reference(tmp_path):
    text = "g (float[2, 3, 4] x, float[4] s) => (float[2, 3, 4] y) { h = Exp (x)\n n = Neg (h)\n y = PRelu (n, s) }"
    inputs = np.linspace(-1, 1, 24, dtype="f4").reshape(2, 3, 4), np.array([1, 2, 3, 4], "f4")
    with pytest.raises(ModelError, match=r"^`y` \(PRelu, opset 17\): torch cannot run"):
        check(text, *inputs)
    check(text, *inputs, tmp_path=tmp_path)


def test_the_peepholes_of_an_lstm_count(tmp_path):
    text = """g (float[2, 1, 2] x, float[1, 8, 2] w, float[1, 8, 2] r, float[1, 16] b, float[1, 1, 2] h, float[1, 1, 2] c, float[1, 6] p)
        => (float[2, 1, 1, 2] y) { y = LSTM <hidden_size = 2> (x, w, r, b, , h, c, p) }"""
    draw = np.random.default_rng(0)
    shapes = (2, 1, 2), (1, 8, 2), (1, 8, 2), (1, 16), (1, 1, 2), (1, 1, 2), (1, 6)
    check(text, *(draw.uniform(-1, 1, shape).astype("f4") for shape in shapes), tmp_path=tmp_path)


@pytest.mark.parametrize("operator", ["Add", "Mul", "Div", "Less", 'BitShift <direction = "RIGHT">'])
def test_large_types_without_a_sign(operator):
    kind = "bool" if operator == "Less" else "uint64"
    text = f"g (uint64[2] x, uint64[2] y) => ({kind}[2] z) {{ z = {operator} (x, y) }}"
    check(text, np.array([7, 2**62], "u8"), np.array([3, 5], "u8"))


def test_numbers_beyond_those_with_a_sign_are_refused():
    with pytest.raises(ModelError, match=r"`z` \(Less, opset 17\)"):
        check("g (uint64[1] x, uint64[1] y) => (bool[1] z) { z = Less (x, y) }", np.array([2**63], "u8"), np.array([1], "u8"))


def test_operators_of_another_domain_run_in_the_reference():
    node = helper.make_node("Binarizer", ["x"], ["y"], domain="ai.onnx.ml", threshold=1.0)
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [3]) for name in "xy"]
    graph = helper.make_graph([node], "g", ends[:1], ends[1:])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("ai.onnx.ml", 1)], ir_version=8)
    module = read_model(proto.SerializeToString())
    np.testing.assert_array_equal(runner(module, "g", "torch")([np.array([0, 1, 2], "f4")])[0], np.array([0, 0, 1], "f4"))
    node.domain = ""
    proto.graph.node[0].domain = ""
    with pytest.raises(ModelError, match="which version of ONNX the Binarizer `y`"):
        read_model(proto.SerializeToString())


def test_a_type_that_cannot_be_read_is_refused_at_its_node():
    node = helper.make_node("Cast", ["x"], ["y"], to=TensorProto.FLOAT4E2M1)
    ends = [helper.make_tensor_value_info(*end, [3]) for end in (("x", TensorProto.FLOAT), ("y", TensorProto.FLOAT4E2M1))]
    proto = helper.make_model(helper.make_graph([node], "g", ends[:1], ends[1:]), opset_imports=[helper.make_opsetid("", 23)])
    with pytest.raises(ModelError, match=r"`y` \(Cast, opset 23\): torch-mlir cannot import it: .*`onnx.reference` or onnxruntime"):
        read_model(proto.SerializeToString())


@pytest.mark.parametrize(
    ("nodes", "reason"),
    [
        ("y = Relu (x)\n y = Neg (x)", r"`y` \(Neg\): its output `y` is made before"),
        ("y = Add (x, gone)", r"`y` \(Add\): nothing before it makes its input `gone`"),
        ("z = Neg (y)\n y = Neg (z)", r"`z` \(Neg\): nothing before it makes its input `y`"),
        ("x = Neg (x)\n y = Neg (x)", r"`x` \(Neg\): its output `x` is made before"),
        ("z = Neg (x)", "nothing makes the output `y`"),
        ("y = If (c) <then_branch = a () => (float[3] p) { p = Neg (q) }, else_branch = b () => (float[3] x) { }>", "input `q`"),
    ],
)
def test_names_that_do_not_fit_together(nodes, reason):
    proto = parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]>\ng (bool c, float[3] x) => (float[3] y) {{ {nodes} }}')
    with pytest.raises(ModelError, match=reason):
        read_model(proto.SerializeToString())
