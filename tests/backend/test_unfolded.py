"""Quotients of constant integers, and sums of constant booleans: torch-mlir's own folding gives other numbers, or ends the process."""

from __future__ import annotations

import numpy as np
import pytest

from hnfc.backend.iree import compile_iree, run_iree
from hnfc.backend.stablehlo import emit_stablehlo
from hnfc.backend.torch_mlir import lower_to_linalg
from hnfc.frontend.models import read_model
from hnfc.pipeline.compile import compile_module
from hnfc.pipeline.request import Request
from hnfc.pipeline.rulesets import load_rules
from tests.running import run_torch_mlir


def quotient(a, b, element, mode, shape):
    sizes, builtin = ",".join(map(str, shape)), "".join(f"{size}x" for size in shape)
    kind = f"!torch.vtensor<[{sizes}],{element}>"
    return read_model(f"""func.func @main() -> {kind} {{
  %a = torch.vtensor.literal(dense<{a}> : tensor<{builtin}{element}>) : {kind}
  %b = torch.vtensor.literal(dense<{b}> : tensor<{builtin}{element}>) : {kind}
  %mode = torch.constant.str "{mode}"
  %c = torch.aten.div.Tensor_mode %a, %b, %mode : {kind}, {kind}, !torch.str -> {kind}
  return %c : {kind}
}}""".encode())


@pytest.mark.parametrize("element", ["si8", "si32", "si64"])
@pytest.mark.parametrize("mode", ["trunc", "floor"])
@pytest.mark.parametrize(("a", "b"), [(-5, 3), (7, -2), (-1, -4), (-100, 7)])
def test_signed_division(a, b, element, mode):
    wanted = a // b if mode == "floor" else int(a / b)
    for shape in ((), (2,)):
        (found,) = run_torch_mlir(quotient(a, b, element, mode, shape), [])
        np.testing.assert_array_equal(found, np.full(shape, wanted))


def test_large_numbers_are_divided_as_integers():
    (found,) = run_torch_mlir(quotient(2**62 + 1, 1, "si64", "trunc", (1,)), [])
    assert found.tolist() == [2**62 + 1]


def test_a_divisor_of_zero_does_not_end_the_process():
    assert lower_to_linalg(quotient(5, 0, "si32", "trunc", (2,))) is not None


@pytest.mark.parametrize(("element", "a", "b", "wanted"), [("i8", -1, -4, 0), ("i32", -5, 3, -1), ("i16", -100, 7, -14)])
def test_stablehlo(element, a, b, wanted):
    module = read_model(f"""func.func @main() -> tensor<{element}> {{
  %a = stablehlo.constant dense<{a}> : tensor<{element}>
  %b = stablehlo.constant dense<{b}> : tensor<{element}>
  %c = stablehlo.divide %a, %b : tensor<{element}>
  return %c : tensor<{element}>
}}""".encode())
    text = emit_stablehlo(module)
    assert f"dense<{wanted}> : tensor<{element}>" in text and "stablehlo.divide" not in text


def test_complex_constants():
    module = read_model(b"""func.func @main(%x: tensor<2xcomplex<f32>>) -> tensor<2xcomplex<f32>> {
  %a = stablehlo.constant dense<[(1.0, 2.0), (0.5, -0.0)]> : tensor<2xcomplex<f32>>
  %b = stablehlo.constant dense<(0.0, 1.0)> : tensor<2xcomplex<f32>>
  %c = stablehlo.multiply %x, %a : tensor<2xcomplex<f32>>
  %d = stablehlo.add %c, %b : tensor<2xcomplex<f32>>
  return %d : tensor<2xcomplex<f32>>
}""")
    text = emit_stablehlo(compile_module(module, Request(phases=load_rules("stability").allowed())).export())
    assert "(5.000000e-01,-0.000000e+00)" in text and "stablehlo.multiply" in text


@pytest.mark.parametrize("run", [run_torch_mlir, lambda module, inputs: run_iree(compile_iree(module), "main", inputs)])
def test_a_float_that_may_be_nan_is_not_taken_for_equal_to_itself(run):
    kind = "!torch.vtensor<[3],f32>"
    module = read_model(f"""func.func @main(%x: {kind}) -> !torch.vtensor<[3],i1> {{
  %r = torch.aten.eq.Tensor %x, %x : {kind}, {kind} -> !torch.vtensor<[3],i1>
  return %r : !torch.vtensor<[3],i1>
}}""".encode())
    (found,) = run(module, [np.array([1.0, np.nan, np.inf], np.float32)])
    assert found.astype(bool).tolist() == [True, False, True]
