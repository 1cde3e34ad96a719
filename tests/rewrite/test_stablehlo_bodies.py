"""Rules look into the bodies of StableHLO's branches and loops, as JAX exports them; XLA runs the result. Skipped without JAX."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from hnfc.backend.stablehlo import emit_portable, emit_stablehlo
from hnfc.backend.torch_mlir import emit_torch
from hnfc.cli.main import main
from hnfc.dialects.num import OPERATIONS
from hnfc.frontend.models import read_model
from hnfc.pipeline.compile import compile_module
from hnfc.pipeline.request import Request
from hnfc.pipeline.rulesets import load_rules

jax = pytest.importorskip("jax")
jnp = jax.numpy

from tests.suites import xla  # noqa: E402

X = np.linspace(-200, 200, 32, dtype="f4").reshape(4, 8)


def softmax(x):
    e = jnp.exp(x)
    return e / jnp.sum(e, -1, keepdims=True)


def turns(x, n):
    return jax.lax.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, c[1] + softmax(c[1] * 3)), (0, x))[1]


def scanned(x, w):
    return jax.lax.scan(lambda carry, t: (softmax(carry * w + t), jnp.sin(t)), x, jnp.stack([x, x * 2, x * 3]))


def switched(k, x):
    return jax.lax.switch(k, [softmax, jnp.sin, lambda x: -x], x)


def branched(x, k):
    return jax.lax.cond(jnp.max(x) > k, lambda x: softmax(x + k), lambda x: x, x)


def nested(x, n):
    def turn(i, v):
        return jax.lax.cond(i % 2 == 0, lambda v: v + softmax(v), lambda v: v - 1, v)

    return jax.lax.fori_loop(0, n, turn, x)


FUNCTIONS = [(turns, (X, 3)), (scanned, (X, X / 100)), (switched, (0, X)), (branched, (X, 1.0)), (nested, (X, 3))]


def exported(function, inputs):
    return jax.export.export(jax.jit(function), platforms=["cpu"])(*inputs)


def rewritten(module, name="stability"):
    return compile_module(module, Request(phases=load_rules(name).allowed()))


def called(source, module, inputs):
    made = dataclasses.replace(source, mlir_module_serialized=emit_portable(module))
    return [np.asarray(leaf) for leaf in jax.tree.leaves(made.call(*inputs))]


@pytest.mark.parametrize(("function", "inputs"), FUNCTIONS)
def test_a_softmax_in_a_body_is_stable(function, inputs):
    source = exported(function, inputs)
    compiled = rewritten(read_model(source.mlir_module_serialized))
    assert "softmax_fusion" in {applied.rule.name for applied in compiled.applied} and compiled.rolled_back == []
    before, after = jax.tree.leaves(source.call(*inputs)), called(source, compiled.export(), inputs)
    assert not np.isfinite(before[0]).all() and np.isfinite(after[0]).all()
    with jax.enable_x64():
        wide = jax.tree.leaves(function(*(x.astype("f8") if isinstance(x, np.ndarray) else x for x in inputs)))
    for found, wanted in zip(after, wide, strict=True):
        right = np.isfinite(wanted)
        np.testing.assert_allclose(found[right], np.asarray(wanted)[right], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("function", "inputs"), FUNCTIONS)
@pytest.mark.parametrize("level", ["none", "all"])
def test_ordinary_numbers_stay_what_they_are(function, inputs, level):
    inputs = [x / 100 if isinstance(x, np.ndarray) else x for x in inputs]
    source = exported(function, inputs)
    module = read_model(source.mlir_module_serialized)
    if level == "all":
        module = rewritten(module, "all").export()
    for found, wanted in zip(called(source, module, inputs), jax.tree.leaves(source.call(*inputs)), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("function", "inputs"), FUNCTIONS)
def test_rewrites_in_bodies_are_probed(function, inputs):
    compiled = rewritten(read_model(exported(function, inputs).mlir_module_serialized))
    assert all(trial.probes for trial in compiled.trials if trial.is_body)
    assert any(trial.is_body for trial in compiled.trials)


@pytest.mark.parametrize(("function", "inputs"), FUNCTIONS)
def test_what_a_probe_refutes_is_not_done_in_a_body(function, inputs, monkeypatch):
    kind = OPERATIONS["softmax"]
    real = kind.compute
    monkeypatch.setattr(kind, "compute", lambda self, *operands: real(self, *operands) + 1)
    compiled = rewritten(read_model(exported(function, inputs).mlir_module_serialized))
    assert compiled.applied == []


def test_slices_of_a_loop_stay_in_place():
    """Torch would copy the whole of an array in every turn."""
    text = emit_stablehlo(rewritten(read_model(exported(scanned, (X, X)).mlir_module_serialized)).export())
    body = text[text.index("} do {") :]
    assert "stablehlo.dynamic_slice" in body and "stablehlo.dynamic_update_slice" in body and "stablehlo.gather" not in body


@pytest.mark.parametrize(("function", "inputs"), FUNCTIONS)
def test_the_torch_dialect_is_read_again(function, inputs):
    source = exported(function, inputs)
    text = emit_torch(rewritten(read_model(source.mlir_module_serialized)).export())
    again = read_model(text.encode())
    assert emit_torch(again) == text
    assert rewritten(again).rolled_back == []
    assert np.isfinite(called(source, again, inputs)[0]).all()


def test_unknown_sizes_in_a_body():
    """They leave a body as it is: torch-mlir cannot write their arithmetic there."""

    def function(x, n):
        def turn(c):
            i, v = c
            y = jnp.concatenate([v, v * 2])
            return i + 1, v + softmax(y)[: v.shape[0]] + jnp.arange(v.shape[0], dtype=v.dtype)[:, None]

        return jax.lax.while_loop(lambda c: c[0] < n, turn, (0, x))[1] * x.shape[0]

    shape = jax.ShapeDtypeStruct(jax.export.symbolic_shape("b, 8"), np.float32)
    source = jax.export.export(jax.jit(function), platforms=["cpu"])(shape, np.int32(0))
    compiled = rewritten(read_model(source.mlir_module_serialized), "all")
    for near in (X / 100, X[:3] / 100):
        np.testing.assert_allclose(called(source, compiled.export(), (near, np.int32(3)))[0], source.call(near, np.int32(3)), rtol=1e-5)


IF = """func.func @main(%x: tensor<4x8xf32>, %c: tensor<i1>, %z: tensor<4xcomplex<f32>>) -> (tensor<4x8xf32>, tensor<4xcomplex<f32>>) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0:2 = "stablehlo.if"(%c) ({
    %e = stablehlo.exponential %x : tensor<4x8xf32>
    %s = stablehlo.reduce(%e init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<4x8xf32>, tensor<f32>) -> tensor<4xf32>
    %b = stablehlo.broadcast_in_dim %s, dims = [0] : (tensor<4xf32>) -> tensor<4x8xf32>
    %d = stablehlo.divide %e, %b : tensor<4x8xf32>
    %w = stablehlo.multiply %z, %z : tensor<4xcomplex<f32>>
    stablehlo.return %d, %w : tensor<4x8xf32>, tensor<4xcomplex<f32>>
  }, {
    stablehlo.return %x, %z : tensor<4x8xf32>, tensor<4xcomplex<f32>>
  }) : (tensor<i1>) -> (tensor<4x8xf32>, tensor<4xcomplex<f32>>)
  return %0#0, %0#1 : tensor<4x8xf32>, tensor<4xcomplex<f32>>
}"""


@pytest.mark.parametrize("condition", [True, False])
def test_a_branch_by_the_command_line(condition, tmp_path, capsys):
    path, made = tmp_path / "if.mlir", tmp_path / "made.mlir"
    path.write_text(IF)
    assert main([str(path), "-O", "stability", "--emit", "stablehlo", "-o", str(made)]) == 0
    assert "softmax_fusion" in capsys.readouterr().err
    inputs = [X, np.array(condition), np.arange(4).astype("c8") * 1j]
    found, wanted = (xla.run(xla.prepared(text, 4), inputs) for text in (made.read_text(), IF))
    assert np.isfinite(wanted[0]).all() == (not condition) and np.isfinite(found[0]).all()
    np.testing.assert_array_equal(found[1], wanted[1])
    if not condition:
        np.testing.assert_array_equal(found[0], wanted[0])


def test_complex_constants_have_a_portable_form():
    """In a body and beside it."""

    def function(x):
        return jax.lax.fori_loop(0, 3, lambda i, v: v * v + 1j * x, x * (2 + 1j)).real

    inputs = [X / 1000]
    source = exported(function, inputs)
    found = called(source, read_model(source.mlir_module_serialized), inputs)
    np.testing.assert_allclose(found[0], source.call(*inputs), rtol=1e-5)
