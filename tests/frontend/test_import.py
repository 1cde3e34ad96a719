"""Reading modules: forms, faults, weights, locations, and what the dialect does not know."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from torch_mlir import ir

from hnfc.backend.torch_mlir import emit_bytecode, export
from hnfc.core.errors import ModelError
from hnfc.frontend.reading import new_context, read
from hnfc.frontend.torch_mlir import Imported, import_module
from hnfc.frontend.weights import read as read_weight


def imported(body: str, arguments: str = "%x: !torch.vtensor<[2,3],f32>", result: str = "!torch.vtensor<[2,3],f32>") -> Imported:
    return import_module(read(f"func.func @main({arguments}) -> {result} {{\n{body}\n}}".encode()))


def names(found: Imported) -> list[str]:
    return [op.name for op in found.module.walk() if op.name.startswith("num.")]


T = "!torch.vtensor<[2,3],f32>"


def test_text_and_bytecode_and_files_are_read(tmp_path: Path) -> None:
    text = f"func.func @main(%x: {T}) -> {T} {{\n  return %x : {T}\n}}\n"
    (tmp_path / "model.mlir").write_text(text)
    module = read(tmp_path / "model.mlir")
    (tmp_path / "model.mlirbc").write_bytes(emit_bytecode(module))
    assert str(read(str(tmp_path / "model.mlirbc"))) == str(module) == str(read(text.encode()))


@pytest.mark.parametrize(("text", "line", "message"), [
    ("func.func @f() {\n  %0 = torch.aten.foo\n}", 2, "torch.aten.foo"),
    ("func.func @f( {", 1, "expected"),
    (f"func.func @f(%x: {T}) -> {T} {{\n\n  return %y : {T}\n}}", 3, "undeclared"),
])  # fmt: skip
def test_a_fault_has_its_place(tmp_path: Path, text: str, line: int, message: str) -> None:
    path = tmp_path / "broken.mlir"
    path.write_text(text)
    with pytest.raises(ModelError) as caught:
        read(path)
    assert (caught.value.file, caught.value.line) == (str(path), line)
    assert message in caught.value.message
    assert str(caught.value).startswith(f"{path}:{line}:")


def test_files_that_are_none() -> None:
    with pytest.raises(ModelError, match="no such file"):
        read("does-not-exist.mlir")
    with pytest.raises(ModelError):
        read(b"\x00\x01")


def test_strange_operations_are_carried() -> None:
    body = f"""%n = torch.constant.int 3
      %y = torch.operator "my.thing"(%x, %n) {{flavour = "odd"}} : ({T}, !torch.int) -> {T}
      %z = torch.aten.exp %y : {T} -> {T}
      return %z : {T}"""
    found = imported(body)
    assert names(found) == ["num.opaque", "num.opaque", "num.exp"]
    opaque = next(op for op in found.module.walk() if op.name == "num.opaque" and len(op.inputs) == 2)
    assert opaque.carried.data["flavour"].data == '"odd"'


def test_nothing_happens_in_clone_dropout_and_times_one() -> None:
    body = f"""%none = torch.constant.none
      %p = torch.constant.float 0.1
      %false = torch.constant.bool false
      %one = torch.constant.int 1
      %a = torch.aten.clone %x, %none : {T}, !torch.none -> {T}
      %b = torch.aten.dropout %a, %p, %false : {T}, !torch.float, !torch.bool -> {T}
      %c = torch.aten.mul.Scalar %b, %one : {T}, !torch.int -> {T}
      return %c : {T}"""
    found = imported(body)
    assert names(found) == []
    before = str(found.torch)
    assert str(export(found, {})) == before


def test_batched_products_are_recognised() -> None:
    big = "!torch.vtensor<[2,3,4,5],f32>"
    other = "!torch.vtensor<[2,3,5,4],f32>"
    a, b, c, d = (
        "!torch.vtensor<[6,4,5],f32>",
        "!torch.vtensor<[6,5,4],f32>",
        "!torch.vtensor<[6,4,4],f32>",
        "!torch.vtensor<[2,3,4,4],f32>",
    )
    body = f"""%i2 = torch.constant.int 2
      %i3 = torch.constant.int 3
      %i4 = torch.constant.int 4
      %i5 = torch.constant.int 5
      %i6 = torch.constant.int 6
      %l1 = torch.prim.ListConstruct %i6, %i4, %i5 : (!torch.int, !torch.int, !torch.int) -> !torch.list<int>
      %l2 = torch.prim.ListConstruct %i6, %i5, %i4 : (!torch.int, !torch.int, !torch.int) -> !torch.list<int>
      %l3 = torch.prim.ListConstruct %i2, %i3, %i4, %i4 : (!torch.int, !torch.int, !torch.int, !torch.int) -> !torch.list<int>
      %a = torch.aten.view %x, %l1 : {big}, !torch.list<int> -> {a}
      %b = torch.aten.view %y, %l2 : {other}, !torch.list<int> -> {b}
      %c = torch.aten.bmm %a, %b : {a}, {b} -> {c}
      %d = torch.aten.view %c, %l3 : {c}, !torch.list<int> -> {d}
      return %d : {d}"""
    found = imported(body, f"%x: {big}, %y: {other}", d)
    final = [op for op in found.module.walk() if op.name == "num.matmul"][-1]
    assert final.a.type.get_shape() == (2, 3, 4, 5)
    assert final.b.type.get_shape() == (2, 3, 5, 4)


def test_functions_arguments_that_are_no_tensors_and_unknown_ranks() -> None:
    text = """
      func.func @first(%x: !torch.vtensor<*,f32>, %n: !torch.int) -> !torch.vtensor<*,f32> {
        %y = torch.aten.exp %x : !torch.vtensor<*,f32> -> !torch.vtensor<*,f32>
        return %y : !torch.vtensor<*,f32>
      }
      func.func @second(%x: !torch.vtensor<[?,3],f32>) -> !torch.vtensor<[?,3],f32> {
        %y = torch.aten.exp %x : !torch.vtensor<[?,3],f32> -> !torch.vtensor<[?,3],f32>
        return %y : !torch.vtensor<[?,3],f32>
      }"""
    found = import_module(read(text.encode()))
    assert names(found) == ["num.opaque", "num.exp"]
    assert '!num.torch<"!torch.int">' in str(found.module)


def test_control_flow_is_a_wall_with_windows() -> None:
    """An operation with regions stays opaque; values that its regions use are still followed."""
    body = f"""%c = torch.prim.If %p -> ({T}) {{
        %y = torch.aten.exp %x : {T} -> {T}
        torch.prim.If.yield %y : {T}
      }} else {{
        torch.prim.If.yield %x : {T}
      }}
      return %c : {T}"""
    found = imported(body, f"%x: {T}, %p: !torch.bool")
    assert names(found) == ["num.opaque"]
    assert str(export(found, {})) == str(found.torch)


def test_location_is_the_users() -> None:
    found = imported(f'%y = torch.aten.exp %x : {T} -> {T} loc("net.py":7:3)\n return %y : {T}')
    (op,) = [op for op in found.module.walk() if op.name == "num.exp"]
    assert found.location(op) == "net.py:7"


@pytest.mark.parametrize(("text", "expected"), [
    ("dense<[1.0, 2.5, -3.0]> : tensor<3xbf16>", np.array([1, 2.5, -3], ml_dtypes.bfloat16)),
    ("dense<[1.0, 0x7C00]> : tensor<2xf16>", np.array([1, np.inf], np.float16)),
    ("dense<[[1, 2], [3, 4]]> : tensor<2x2xsi64>", np.array([[1, 2], [3, 4]])),
    ("dense<[true, false]> : tensor<2xi1>", np.array([True, False])),
    ("dense<0x7F80> : tensor<2xbf16>", np.array([np.inf, np.inf], ml_dtypes.bfloat16)),
    ("dense<2> : tensor<3xui8>", np.array([2, 2, 2], np.uint8)),
    ("dense<> : tensor<0xf32>", np.zeros(0, np.float32)),
])  # fmt: skip
def test_literals_are_read(text: str, expected: Any) -> None:
    found = read_weight(ir.Attribute.parse(text, new_context()))
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("size", [2, 127, 128, 70_000])
@pytest.mark.parametrize("kind", [np.float64, np.float32, np.float16, ml_dtypes.bfloat16, np.int64])
def test_resources_are_read(size: int, kind: Any) -> None:
    values = np.arange(size).clip(max=60000).astype(kind)
    name = {"float64": "f64", "float32": "f32", "float16": "f16", "bfloat16": "bf16", "int64": "si64"}[np.dtype(kind).name]
    with new_context():
        attribute = ir.DenseResourceElementsAttr.get_from_buffer(values.view(np.uint8), "w", ir.Type.parse(f"tensor<{size}x{name}>"))
        np.testing.assert_array_equal(read_weight(attribute), values)


def test_splats_become_constants_and_the_rest_weights() -> None:
    body = f"""%a = torch.vtensor.literal(dense<0x7F800000> : tensor<2x3xf32>) : {T}
      %b = torch.vtensor.literal(dense<[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]> : tensor<2x3xf32>) : {T}
      %one = torch.constant.int 1
      %c = torch.aten.add.Tensor %a, %b, %one : {T}, {T}, !torch.int -> {T}
      return %c : {T}"""
    found = imported(body)
    assert names(found) == ["num.constant", "num.weight", "num.add"]
    assert 'num.constant "inf"' in str(found.module)
    np.testing.assert_array_equal(found.weight("weight_0"), np.arange(1, 7, dtype=np.float32).reshape(2, 3))
