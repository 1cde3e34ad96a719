"""Forms that torch-mlir writes badly in StableHLO, or not at all: hnfc emits them right, at -O none too."""

from __future__ import annotations

import operator

import numpy as np
import pytest

from hnfc.backend.execution import runner
from hnfc.backend.stablehlo import emit_stablehlo
from hnfc.cli.main import main
from hnfc.frontend.models import read_model
from tests.interpreting import interpret

SPECIAL = np.array([0.0, -0.0, 1.0, -1.0, 2.5, -3.0, np.inf, np.nan, -7.25, np.nan, 2.5, -np.inf], np.float32)
V, B, I, S, IV = (
    f"!torch.vtensor<[{shape}],{kind}>" for shape, kind in [("12", "f32"), ("12", "i1"), ("", "si64"), ("", "f32"), ("12", "si64")]
)
_CONSTANTS = """%axis = torch.constant.int 0
  %true = torch.constant.bool true
  %false = torch.constant.bool false
  %n = torch.constant.int -3
  %c = torch.constant.float -0.75"""
CASES = {
    "equal to itself": (f"%r = torch.aten.eq.Tensor %x, %x : {V}, {V} -> {B}", B),
    "equal after equal work": (
        f"%a = torch.aten.sin %x : {V} -> {V}\n %b = torch.aten.sin %x : {V} -> {V}\n"
        f"%r = torch.aten.eq.Tensor %a, %b : {V}, {V} -> {B}", B,
    ),
    "argmax": (f"%r = torch.aten.argmax %x, %axis, %false : {V}, !torch.int, !torch.bool -> {I}", I),
    "argmin": (f"%r = torch.aten.argmin %x, %axis, %false : {V}, !torch.int, !torch.bool -> {I}", I),
    "max": (f"%v, %r = torch.aten.max.dim %x, %axis, %false : {V}, !torch.int, !torch.bool -> {S}, {I}", I),
    "min value": (f"%r, %p = torch.aten.min.dim %x, %axis, %false : {V}, !torch.int, !torch.bool -> {S}, {I}", S),
    "sort": (f"%r, %p = torch.aten.sort %x, %axis, %false : {V}, !torch.int, !torch.bool -> {V}, {IV}", V),
    "sort downward": (f"%r, %p = torch.aten.sort %x, %axis, %true : {V}, !torch.int, !torch.bool -> {V}, {IV}", V),
    "remainder by a number": (f"%r = torch.aten.remainder.Scalar %x, %c : {V}, !torch.float -> {V}", V),
    "remainder by an integer": (f"%r = torch.aten.remainder.Scalar %x, %n : {V}, !torch.int -> {V}", V),
    "fmod by a number": (f"%r = torch.aten.fmod.Scalar %x, %c : {V}, !torch.float -> {V}", V),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_special_values_are_as_torch_has_them(name):
    body, kind = CASES[name]
    module = read_model(f"func.func @main(%x: {V}) -> {kind} {{\n  {_CONSTANTS}\n  {body}\n  return %r : {kind}\n}}".encode())
    (wanted,) = runner(module, "main", "torch")([SPECIAL])
    (found,) = interpret(emit_stablehlo(module), [SPECIAL])
    np.testing.assert_allclose(np.asarray(found).astype(float), wanted.astype(float), rtol=1e-6)


@pytest.mark.parametrize("name", ["remainder", "fmod"])
@pytest.mark.parametrize("kind", ["f32", "si32"])
def test_signs_of_remainders(name, kind):
    x, y = (np.array(values, np.float32 if kind == "f32" else np.int32) for values in ([7, -7, 7, -7, 0, 6], [3, 3, -3, -3, -3, -3]))
    vector = f"!torch.vtensor<[6],{kind}>"
    module = read_model(
        f"""func.func @main(%x: {vector}, %y: {vector}) -> {vector} {{
  %r = torch.aten.{name}.Tensor %x, %y : {vector}, {vector} -> {vector}
  return %r : {vector}
}}""".encode()
    )
    (found,) = interpret(emit_stablehlo(module), [x, y])
    np.testing.assert_array_equal(found, np.remainder(x, y) if name == "remainder" else np.fmod(x, y))


def test_fmod_keeps_the_digits_of_large_quotients():
    x = np.array([3e38, -1e10, 2.0**40], np.float32)
    vector = "!torch.vtensor<[3],f32>"
    module = read_model(
        f"""func.func @main(%x: {vector}) -> {vector} {{
  %c = torch.constant.float 0.7
  %r = torch.aten.fmod.Scalar %x, %c : {vector}, !torch.float -> {vector}
  return %r : {vector}
}}""".encode()
    )
    (found,) = interpret(emit_stablehlo(module), [x])
    np.testing.assert_allclose(found, np.fmod(x, np.float32(0.7)), rtol=1e-6)


@pytest.mark.parametrize(("name", "at"), [("digamma", 1.4616321), ("lgamma", 1.0), ("erf_inv", 0.0), ("erfc", 30.0)])
@pytest.mark.parametrize("shape", ["2", "?"])
def test_functions_that_the_torch_dialect_lacks_are_lowered(name, at, shape):
    text = f"""func.func @main(%x: tensor<{shape}xf32>) -> tensor<{shape}xf32> {{
  %y = chlo.{name} %x : tensor<{shape}xf32> -> tensor<{shape}xf32>
  return %y : tensor<{shape}xf32>
}}"""
    emitted = emit_stablehlo(read_model(text.encode()))
    assert "chlo" not in emitted and "torch" not in emitted
    if shape == "2":
        (found,) = interpret(emitted, [np.full(2, at, np.float32)])
        np.testing.assert_allclose(found, 0.0, atol=1e-6)


def test_a_constant_of_unsigned_bytes_is_lowered():
    text = """func.func @main() -> tensor<2x2xui8> {
  %x = stablehlo.constant dense<[200, 7]> : tensor<2xui8>
  %y = stablehlo.broadcast_in_dim %x, dims = [1] : (tensor<2xui8>) -> tensor<2x2xui8>
  return %y : tensor<2x2xui8>
}"""
    (found,) = interpret(emit_stablehlo(read_model(text.encode())), [])
    assert found.tolist() == [[200, 7], [200, 7]]


def test_products_and_choices_of_unknown_sizes_are_lowered():
    text = """func.func @main(%a: tensor<?x3x4xf32>, %b: tensor<?x4xf32>) -> tensor<?x3xf32> {
  %0 = stablehlo.dot_general %a, %b, batching_dims = [0] x [0], contracting_dims = [2] x [1]
    : (tensor<?x3x4xf32>, tensor<?x4xf32>) -> tensor<?x3xf32>
  %1 = stablehlo.compare GT, %0, %0 : (tensor<?x3xf32>, tensor<?x3xf32>) -> tensor<?x3xi1>
  %2 = stablehlo.exponential %0 : tensor<?x3xf32>
  %3 = stablehlo.select %1, %2, %0 : tensor<?x3xi1>, tensor<?x3xf32>
  return %3 : tensor<?x3xf32>
}"""
    emitted = emit_stablehlo(read_model(text.encode()))
    assert not any(dialect in emitted for dialect in ("shape.", "arith.", "tensor.", "torch"))


def test_a_call_without_results_goes_out_as_it_came(tmp_path):
    source, target = tmp_path / "in.mlir", tmp_path / "out.mlir"
    source.write_text("""func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %y = stablehlo.exponential %x : tensor<2xf32>
  stablehlo.custom_call @note(%y) {has_side_effect = true} : (tensor<2xf32>) -> ()
  return %y : tensor<2xf32>
}""")
    assert main([str(source), "-q", "-O", "all", "--emit", "stablehlo", "-o", str(target)]) == 0
    assert "@note(%0)" in target.read_text()


BODY = """  %i = stablehlo.iota dim = 0 : tensor<4xi32>
  %low = stablehlo.constant dense<LOW> : tensor<f32>
  %first = stablehlo.constant dense<FIRST> : tensor<i32>
  %r:2 = stablehlo.reduce(%x init: %low), (%i init: %first) across dimensions = [0]
    : (tensor<4xf32>, tensor<4xi32>, tensor<f32>, tensor<i32>) -> (tensor<f32>, tensor<i32>)
   reducer(%a: tensor<f32>, %b: tensor<f32>) (%p: tensor<i32>, %q: tensor<i32>)  {
    %2 = stablehlo.compare GT, %a, %b, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %3 = stablehlo.compare NE, %a, %a, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %4 = stablehlo.or %2, %3 : tensor<i1>
    %5 = stablehlo.compare EQ, %a, %b, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %6 = stablehlo.compare LT, %p, %q, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %7 = stablehlo.and %5, %6 : tensor<i1>
    %8 = stablehlo.or %4, %7 : tensor<i1>
    %9 = stablehlo.select %4, VALUES : tensor<i1>, tensor<f32>
    %10 = stablehlo.select %8, %p, %q : tensor<i1>, tensor<i32>
    stablehlo.return %9, %10 : tensor<f32>, tensor<i32>
  }
"""


@pytest.mark.parametrize(("low", "first", "values"), [
    ("0xFF800000", "0", "%a, %b"), ("0xFF800000", "7", "%a, %b"), ("5.0", "0", "%a, %b"), ("0xFF800000", "0", "%b, %a"),
])  # fmt: skip
def test_a_reduction_that_only_looks_like_an_argmax_is_kept(low, first, values):
    body = BODY.replace("LOW", low).replace("FIRST", first).replace("VALUES", values)
    kind = "tensor<f32>, tensor<i32>"
    text = f"func.func @main(%x: tensor<4xf32>) -> ({kind}) {{\n{body}  return %r#0, %r#1 : {kind}\n}}"
    x = np.array([-2.0, 3.0, 1.0, 3.0], np.float32)
    module = read_model(text.encode())
    assert ("aten.argmax" in str(module)) == ((low, first, values) == ("0xFF800000", "0", "%a, %b"))
    for found, wanted in zip(interpret(emit_stablehlo(module), [x]), interpret(text, [x]), strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_a_sort_of_the_users_keeps_its_order():
    text = """func.func @main(%x: tensor<5xf32>) -> tensor<5xf32> {
  %r = "stablehlo.sort"(%x) <{dimension = 0 : i64, is_stable = false}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %0 = stablehlo.compare LT, %a, %b, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %0 : tensor<i1>
  }) : (tensor<5xf32>) -> tensor<5xf32>
  return %r : tensor<5xf32>
}"""
    emitted = emit_stablehlo(read_model(text.encode()))
    assert "hnfc" not in emitted and "is_stable = false" in emitted and emitted.count("stablehlo.compare") == 1


@pytest.mark.parametrize("scales", ["f32, 0.5:-20", "f32:0, {0.1:-30,0.5:-20}"])
def test_quantised_types_are_handed_on(scales):
    """Refinement of shapes, a pass of StableHLO, ends the process at some of these."""
    kind = f"tensor<2x!quant.uniform<i8:{scales}>>"
    text = f"""func.func @main() -> tensor<2xi8> {{
  %0 = stablehlo.constant dense<[4.0, 15.0]> : tensor<2xf32>
  %1 = stablehlo.uniform_quantize %0 : (tensor<2xf32>) -> {kind}
  %2 = stablehlo.bitcast_convert %1 : ({kind}) -> tensor<2xi8>
  return %2 : tensor<2xi8>
}}"""
    emitted = emit_stablehlo(read_model(text.encode()))
    assert "stablehlo.uniform_quantize" in emitted and "stablehlo.bitcast_convert" in emitted


@pytest.mark.sampled(18)
@pytest.mark.parametrize("compared", ["eq", "ne", "lt", "le", "gt", "ge"])
@pytest.mark.parametrize("element", ["f32", "f64", "si64"])
@pytest.mark.parametrize("number", ["int 2", "int -1", "float 2.5", "float -7.5e-01"])
def test_constants_beside_a_number(compared, element, number):
    """torch-mlir folds such comparisons by numbers that it has not read, or ends the process."""
    values = (-2.0, -0.75, 0.0, 2.0, 3.0) if element != "si64" else (-2, 0, 2, 3)
    kind, written = number.split()
    for value in values:
        literal = f"dense<{value!r}> : tensor<3x{element}>"
        module = read_model(
            f"""func.func @main() -> !torch.vtensor<[3],i1> {{
                %c = torch.constant.{kind} {written if kind == "int" else f"{float(written):e}"}
                %l = torch.vtensor.literal({literal}) : !torch.vtensor<[3],{element}>
                %r = torch.aten.{compared}.Scalar %l, %c : !torch.vtensor<[3],{element}>, !torch.{kind} -> !torch.vtensor<[3],i1>
                return %r : !torch.vtensor<[3],i1>
            }}""".encode()
        )
        (wanted,) = runner(module, "main", "torch")([])
        (found,) = interpret(emit_stablehlo(module), [])
        assert np.asarray(found).tolist() == wanted.tolist() == [getattr(operator, compared)(value, float(written))] * 3
