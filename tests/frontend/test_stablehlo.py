"""What JAX exports: the same function, the rules fire, and it goes back to StableHLO."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from scipy import special

from hnfc.backend.entries import entry
from hnfc.backend.execution import runner
from hnfc.backend.iree import compile_iree, run_iree
from hnfc.backend.stablehlo import emit_portable, emit_stablehlo, kept_operations
from hnfc.backend.torch_mlir import emit_linalg
from hnfc.core.errors import ModelError
from hnfc.frontend.models import read_model
from hnfc.pipeline.compile import compile_module
from hnfc.pipeline.compiled import Compiled
from hnfc.pipeline.request import Request
from hnfc.rewriter import load_rules
from tests.interpreting import interpret, parsed

DATA = Path(__file__).parent.parent / "data" / "jax"


def attention(q, k, v):
    return special.softmax(q @ k.swapaxes(-1, -2) / 4, axis=-1) @ v


def layer_norm(x, scale, shift):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * scale + shift


def picked(logits, labels):
    return -np.mean(special.log_softmax(logits, -1)[np.arange(len(labels)), labels.astype(int)])


def mlp(b1, b2, w1, w2, x):
    x = x @ w1 + b1
    hidden = x * special.expit(2 * np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))
    return special.softmax(hidden @ w2 + b2, -1)


def block(x, table, w):
    rows = table[np.where(x < 0, x + 10, x)]
    scores = np.where(np.tril(np.ones((6, 6), bool)), rows @ rows.swapaxes(-1, -2), -1e9)
    mixed = np.pad(special.softmax(scores, -1) @ rows, ((0, 0), (1, 1), (0, 0)))
    return sum(mixed[:, i : i + 6] @ w[i] for i in range(3))


FUNCTIONS = {
    "softmax": lambda x: special.softmax(x, -1),
    "logsumexp": lambda x: special.logsumexp(x, -1),
    "attention": attention,
    "layer_norm": layer_norm,
    "cross_entropy": lambda logits, labels: -np.mean(np.sum(labels * special.log_softmax(logits, -1), -1)),
    "picked": picked,
    "mlp": mlp,
    "block": block,
}
"""What the exported functions are, in float64, without the overflow."""
OVERFLOWING = {"softmax": 100, "logsumexp": 100, "attention": 30, "cross_entropy": 100, "mlp": 30, "block": 20}
"""The size of inputs on which the function as it was written is not finite."""
SYMBOLIC = {"batched": FUNCTIONS["softmax"], "batched_attention": attention}


def read(name: str):
    return read_model(DATA / f"{name}.mlir")


def drawn(name: str, size: float, unknown: int = 3) -> list[np.ndarray]:
    generator = np.random.default_rng(1)
    shapes = [(one.dtype, [s if s >= 0 else unknown for s in one.shape]) for one in entry(read(name)).inputs]
    arrays = [
        generator.normal(size=shape).astype(dtype) * np.float32(size)
        if dtype.kind == "f"
        else generator.integers(0, 8, shape).astype(dtype)
        for dtype, shape in shapes
    ]
    if name == "cross_entropy":
        arrays[1] = np.eye(8, dtype=np.float32)[:4]
    return arrays


def rewritten(name: str, inputs) -> Compiled:
    rules = load_rules("stability")
    return compile_module(read(name), Request(phases=rules.allowed(), samples=[inputs], observed=True))


def truth(function, inputs):
    return function(*(array.astype(np.float64) if array.dtype.kind == "f" else array for array in inputs))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_same_function(name):
    inputs = drawn(name, 1)
    (found,) = runner(read(name), "main", "torch")(inputs)
    np.testing.assert_allclose(found, truth(FUNCTIONS[name], inputs), rtol=1e-4, atol=1e-5)
    (again,) = interpret((DATA / f"{name}.mlir").read_text(encoding="utf-8"), inputs)
    np.testing.assert_allclose(found, again, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", OVERFLOWING)
def test_finite_where_it_was_not(name):
    inputs = drawn(name, OVERFLOWING[name])
    (before,) = runner(read(name), "main", "torch")(inputs)
    assert not np.isfinite(before).all()
    compiled = rewritten(name, inputs)
    fired = {applied.rule.name for applied in compiled.applied}
    assert fired & {"softmax_fusion", "logsumexp_fusion"}
    assert any("tests/data/jax/export.py:" in applied.place for applied in compiled.applied), "the places of the Python source"
    module = compiled.export()
    wanted = truth(FUNCTIONS[name], inputs)
    for found in (*runner(module, "main", "torch")(inputs), *interpret(emit_stablehlo(module), inputs)):
        assert np.isfinite(found).all()
        np.testing.assert_allclose(found, wanted, rtol=2e-3, atol=2e-4 * OVERFLOWING[name])


def test_no_library_calls_are_left_of_attention():
    text = str(read("attention"))
    assert "broadcast" not in text and "reshape" not in text, "operands are broadcast by torch itself"
    assert "torch.aten.matmul" in text and "stablehlo" not in text


@pytest.mark.parametrize("size", [1, 2, 5])
@pytest.mark.parametrize("name", SYMBOLIC)
def test_sizes_that_differ_from_call_to_call(name, size):
    inputs = drawn(name, 100, size)
    compiled = rewritten(name, inputs)
    assert [applied.rule.name for applied in compiled.applied] == ["softmax_fusion"]
    module = compiled.export()
    for found in (*runner(module, "main", "torch")(inputs), *interpret(emit_stablehlo(module), inputs)):
        np.testing.assert_allclose(found, truth(SYMBOLIC[name], inputs), rtol=1e-3, atol=1e-3)


def test_a_loop_and_a_sort_stay_and_the_rest_is_rewritten():
    inputs = drawn("looped", 60)
    compiled = rewritten("looped", inputs)
    assert [applied.rule.name for applied in compiled.applied] == ["softmax_fusion"]
    module = compiled.export()
    assert {operation.name for operation in kept_operations(module)} == {"stablehlo.while", "stablehlo.sort"}
    ordered, sums = interpret(emit_stablehlo(module), inputs)
    np.testing.assert_allclose(ordered, np.sort(special.softmax(inputs[0].astype(np.float64), -1), -1), rtol=1e-4, atol=1e-6)
    (_, before) = interpret((DATA / "looped.mlir").read_text(encoding="utf-8"), inputs)
    np.testing.assert_array_equal(sums, before)
    compiled_code = compile_iree(module)
    np.testing.assert_allclose(run_iree(compiled_code, "main", inputs)[0], ordered, rtol=1e-3, atol=1e-6)
    with pytest.raises(ModelError, match=r"export\.py:.*torch has no operation like `stablehlo"):
        runner(module, "main", "torch")


def test_every_backend_takes_it():
    inputs = drawn("attention", 30)
    module = rewritten("attention", inputs).export()
    wanted = truth(attention, inputs)
    np.testing.assert_allclose(run_iree(compile_iree(module), "main", inputs)[0], wanted, rtol=1e-3, atol=1e-2)
    assert "linalg.generic" in emit_linalg(module)


def test_portable_artifacts_go_both_ways(tmp_path):
    path = DATA / "attention.mlirbc"
    assert str(read_model(path)) == str(read("attention")) == str(read_model(path.read_bytes()))
    artifact = emit_portable(read("attention"))
    assert artifact[:4] == b"ML\xefR" and b"StableHLO_v" in artifact[:64]
    inputs = drawn("attention", 1)
    (found,) = runner(read_model(artifact), "main", "torch")(inputs)
    np.testing.assert_allclose(found, truth(attention, inputs), rtol=1e-4, atol=1e-5)
    (tmp_path / "broken.mlirbc").write_bytes(path.read_bytes()[:600])
    with pytest.raises(ModelError, match=r"broken.mlirbc: this portable StableHLO artifact cannot be read"):
        read_model(tmp_path / "broken.mlirbc")


def test_a_place_in_the_text_is_named(tmp_path):
    path = tmp_path / "wrong.mlir"
    path.write_text(
        "func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {\n  %0 = stablehlo.exp %a : tensor<2xf32>\n  return %0 : tensor<2xf32>\n}\n"
    )
    with pytest.raises(ModelError, match=re.escape(f"{path}:2:8")):
        read_model(path)


def test_a_function_that_only_mentions_stablehlo_is_left_alone():
    text = (
        "// stablehlo\nfunc.func @main(%a: !torch.vtensor<[2],f32>) -> !torch.vtensor<[2],f32> {\n"
        "  %0 = torch.aten.exp %a : !torch.vtensor<[2],f32> -> !torch.vtensor<[2],f32>\n  return %0 : !torch.vtensor<[2],f32>\n}\n"
    )
    assert "torch.aten.exp" in str(read_model(text.encode()))


def test_calls_and_composites_are_put_in_line():
    text = """
    func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
      %0 = call @twice(%x) : (tensor<3xf32>) -> tensor<3xf32>
      %1 = stablehlo.composite "chlo.erf" %0 {decomposition = @erf} : (tensor<3xf32>) -> tensor<3xf32>
      %2 = stablehlo.composite "mine.twice" %1 {decomposition = @twice} : (tensor<3xf32>) -> tensor<3xf32>
      %3 = stablehlo.custom_call @Sharding(%2) : (tensor<3xf32>) -> tensor<3xf32>
      return %3 : tensor<3xf32>
    }
    func.func private @twice(%x: tensor<3xf32>) -> tensor<3xf32> {
      %0 = stablehlo.add %x, %x : tensor<3xf32>
      return %0 : tensor<3xf32>
    }
    func.func private @erf(%x: tensor<3xf32>) -> tensor<3xf32> {
      %0 = stablehlo.cbrt %x : tensor<3xf32>
      return %0 : tensor<3xf32>
    }
    """
    module = read_model(text.encode())
    assert str(module).count("torch.aten.add.Tensor") == 2 and "torch.aten.erf" in str(module)
    assert "stablehlo" not in str(module) and str(module).count("func.func") == 1
    x = np.array([0.1, -0.2, 0.5], np.float32)
    np.testing.assert_allclose(runner(module, "main", "torch")([x])[0], 2 * special.erf(2 * x), rtol=1e-6)


def test_constants_of_many_values():
    weights = ", ".join(str(i / 7) for i in range(64))
    module = read_model(
        f"func.func @main(%x: tensor<64xf32>) -> tensor<64xf32> {{\n  %c = stablehlo.constant dense<[{weights}]> : tensor<64xf32>\n"
        "  %0 = stablehlo.multiply %x, %c : tensor<64xf32>\n  return %0 : tensor<64xf32>\n}}".replace("}}", "}").encode()
    )
    (found,) = runner(module, "main", "torch")([np.ones(64, np.float32)])
    np.testing.assert_array_equal(found, (np.arange(64) / 7).astype(np.float32))


def test_the_interpreter_reads_what_hnfc_writes():
    text = emit_stablehlo(read("layer_norm"))
    assert "stablehlo." in text and "torch." not in text
    assert str(parsed(text)).count("stablehlo.constant") > 0
