"""Rules look into the bodies of branches and loops, with the same gates as elsewhere."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import parser

from hnfc.backend.execution import comparing, runner
from hnfc.frontend.models import read_model
from hnfc.frontend.torch_mlir import import_module
from hnfc.pipeline.compile import compile_module
from hnfc.pipeline.request import Request
from hnfc.pipeline.rulesets import load_rules

SOFTMAX = "e = Exp ({0})\n axes = Constant <value = int64[1] {{1}}> ()\n s = ReduceSum (e, axes)\n {1} = Div (e, s)"
BRANCH = f"""g (bool c, float[4, 8] x) => (float[4, 8] y) {{
    h = Neg (x)
    y = If (c) <then_branch = a () => (float[4, 8] p) {{ {SOFTMAX.format("h", "p")} }},
                else_branch = b () => (float[4, 8] q) {{ q = Abs (h) }}>
}}"""
LOOP = f"""g (float[4, 8] x, float[4, 8] w) => (float[4, 8] y) {{
    n = Constant <value = int64 {{3}}> ()
    go = Constant <value = bool {{1}}> ()
    y = Loop (n, go, x) <body = b (int64 i, bool c, float[4, 8] v) => (bool d, float[4, 8] r) {{
        d = Identity (c)
        t = Mul (v, w)
        {SOFTMAX.format("t", "u")}
        r = Add (u, v)
    }}>
}}"""
NESTED = f"""g (bool c, float[4, 8] x) => (float[4, 8] y) {{
    y = If (c) <then_branch = a () => (float[4, 8] p) {{
        k = ReduceMax <keepdims = 0> (x)
        zero = Constant <value = float {{0.0}}> ()
        above = Greater (k, zero)
        p = If (above) <then_branch = a2 () => (float[4, 8] p2) {{ {SOFTMAX.format("x", "p2")} }},
                        else_branch = b2 () => (float[4, 8] q2) {{ q2 = Neg (x) }}>
    }}, else_branch = b () => (float[4, 8] q) {{ q = Abs (x) }}>
}}"""
KEPT = f"""g (bool c, float[4, 8] x) => (float[4, 8] y) {{
    y = If (c) <then_branch = a () => (float[4, 8] p) {{ {SOFTMAX.format("x", "p")} }},
        else_branch = b () => (float[4, 8] q) {{ q = LpNormalization <axis = 1> (x) }}>
}}"""
FAR = np.linspace(-200, 200, 32, dtype="f4").reshape(4, 8)


def module(text):
    return read_model(parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]>\n{text}').SerializeToString())


def rewritten(text, samples=()):
    source = module(text)
    rules = load_rules("stability")
    request = Request(phases=rules.allowed(), samples=samples, observed=bool(samples), runner=comparing(source, "torch"))
    return compile_module(source, request)


@pytest.mark.parametrize(
    ("text", "inputs"),
    [(BRANCH, [np.array(True), FAR]), (LOOP, [FAR, np.ones((4, 8), "f4")]), (NESTED, [np.array(True), FAR]), (KEPT, [np.array(True), FAR])],
)
@pytest.mark.parametrize("measured", [True, False])
def test_a_softmax_in_a_body_is_stable(text, inputs, measured):
    before = runner(module(text), "g", "torch")(inputs)
    compiled = rewritten(text, [inputs] if measured else ())
    assert [applied.rule.name for applied in compiled.applied] == ["softmax_fusion"] and compiled.rolled_back == []
    output = compiled.export()
    assert "torch.aten.softmax" in str(output) and "torch.aten.exp" not in str(output)
    after = runner(output, "g", "torch")(inputs)
    assert not np.isfinite(before[0]).all() and np.isfinite(after[0]).all()


@pytest.mark.parametrize("text", [BRANCH, KEPT])
def test_the_other_branch_is_what_it_was(text):
    inputs = [np.array(False), FAR]
    np.testing.assert_array_equal(runner(rewritten(text).export(), "g", "torch")(inputs)[0], runner(module(text), "g", "torch")(inputs)[0])


def test_what_makes_a_result_of_the_model_worse_is_taken_back(monkeypatch):
    """The whole model is compared on its samples: here a rule in the body that is proved is made a wrong one on the way out."""
    from hnfc.backend import on_torch

    real = on_torch.TorchRunner.rewritten

    def wrong(self, compiled, native):
        load = real(self, compiled, native)
        return lambda name: lambda arrays: [result + np.float32(bool(compiled.applied)) for result in load(name)(arrays)]

    monkeypatch.setattr(on_torch.TorchRunner, "rewritten", wrong)
    near = np.linspace(-1, 1, 32, dtype="f4").reshape(4, 8)
    compiled = rewritten(BRANCH, [[np.array(True), near]])
    assert compiled.rolled_back == ["softmax_fusion"] and compiled.applied == []


def test_a_value_that_is_replaced_outside_is_replaced_inside():
    text = BRANCH.replace("h = Neg (x)", "o = Neg (x)\n o2 = Neg (o)\n h = Neg (o2)")
    inputs = [np.array(True), np.linspace(-1, 1, 32, dtype="f4").reshape(4, 8)]
    source = module(text)
    compiled = compile_module(source, Request(phases=load_rules("all").allowed()))
    np.testing.assert_allclose(runner(compiled.export(), "g", "torch")(inputs)[0], runner(module(text), "g", "torch")(inputs)[0], rtol=1e-6)


def test_bodies_are_read_only_where_they_are_wanted():
    assert len(import_module(module(NESTED)).bodies) == 0
    assert list(import_module(module(NESTED), bodies=True).bodies.values()) == ["If"] * 4


def test_ranges_of_inputs_do_not_hold_for_what_a_body_takes():
    """log(x) of x in 1..2 is positive; in the body the argument is another value."""
    text = """g (bool c, float[3] arg) => (float[3] y) {
        h = Neg (arg)
        y = If (c) <then_branch = a () => (float[3] p) { s = Mul (h, h)\n p = Sqrt (s) },
                    else_branch = b () => (float[3] q) { q = Abs (h) }>
    }"""
    from hnfc.dialects.interval import Interval

    compiled = compile_module(module(text), Request(phases=load_rules("all").allowed(), ranges=[("", Interval(1.0, 2.0))]))
    inputs = [np.array(True), np.array([1, 1.5, 2], "f4")]
    np.testing.assert_allclose(runner(compiled.export(), "g", "torch")(inputs)[0], inputs[1], rtol=1e-6)


def test_the_body_of_a_loop_is_probed_beside_its_counter():
    compiled = rewritten(LOOP)
    assert [applied.rule.name for applied in compiled.applied] == ["softmax_fusion"]
    assert [len(trial.probes) > 10 for trial in compiled.trials if trial.is_body] == [True]
