"""The bytes of a weight are as many as its type takes, or the file is refused: nothing reads what lies behind them."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from hnfc.core.errors import ModelError
from hnfc.frontend.models import read_model
from hnfc.frontend.torch_mlir import import_module

COUNT, OTHER = "bytes, but its type takes", "the weight `w`"


def with_resource(blob, shape, element):
    sizes, builtin = ",".join(map(str, shape)), "x".join([*map(str, shape), element.removeprefix("s")])
    return f"""func.func @main() -> !torch.vtensor<[{sizes}],{element}> {{
  %w = torch.vtensor.literal(dense_resource<w> : tensor<{builtin}>) : !torch.vtensor<[{sizes}],{element}>
  return %w : !torch.vtensor<[{sizes}],{element}>
}}
{{-# dialect_resources: {{ builtin: {{ w: "0x04000000{blob}" }} }} #-}}
""".encode()


@pytest.mark.parametrize(
    ("blob", "shape", "element"),
    [("", [4], "f32"), ("00" * 16, [64, 64], "f32"), ("00" * 20, [4], "f32"), ("00" * 16, [2**40, 2**40], "f64"), ("00" * 7, [8], "i1")],
)
def test_resource_of_another_size(blob, shape, element):
    with pytest.raises(ModelError, match=COUNT) as raised:
        read_model(with_resource(blob, shape, element), "model.mlir")
    assert raised.value.line == 2


def test_resource_of_its_size():
    imported = import_module(read_model(with_resource("0000803f" * 4, [2, 2], "f32")))
    assert imported.weight("w").tolist() == [[1, 1], [1, 1]]


def test_resource_without_bytes():
    text = with_resource("", [4], "f32").split(b"{-#")[0]
    with pytest.raises(ModelError, match="no bytes"):
        read_model(text)


def saved(folder, tensor):
    shape = list(tensor.dims)
    value = [helper.make_tensor_value_info(name, tensor.data_type, shape) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Add", ["x", "w"], ["y"])], "g", value[:1], value[1:], [tensor])
    path = folder / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def tensor(shape, kind=TensorProto.FLOAT, **fields):
    return TensorProto(name="w", data_type=kind, dims=shape, **fields)


def external(folder, shape, size, kind=TensorProto.FLOAT, **entries):
    (folder / "w.bin").write_bytes(b"\0" * size)
    made = tensor(shape, kind, data_location=TensorProto.EXTERNAL)
    for key, value in {"location": "w.bin", **entries}.items():
        made.external_data.add(key=key, value=str(value))
    return made


@pytest.mark.parametrize(
    ("shape", "size", "entries"),
    [
        ([64, 64], 4096, {}), ([64, 64], 4096, {"length": 4096}), ([4], 64, {"length": 64}), ([4], 64, {"length": "abc"}),
        ([4], 64, {"offset": -4}), ([4], 64, {"offset": "1e1"}), ([4], 16, {"offset": 4}), ([4], 16, {"location": "w\0.bin"}),
        ([4], 16, {"location": ""}), ([4], 16, {"location": "none.bin"}), ([2**40, 2**40], 16, {}), ([-4], 16, {}),
        ([4], 64, {"length": "9" * 5000}),
    ],
)  # fmt: skip
def test_external_data_that_does_not_fit(shape, size, entries, tmp_path):
    with pytest.raises(ModelError, match=OTHER):
        read_model(saved(tmp_path, external(tmp_path, shape, size, **entries)))


@pytest.mark.parametrize("kind", [TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.INT64, TensorProto.FLOAT16])
def test_data_inside_that_does_not_fit(kind, tmp_path):
    with pytest.raises(ModelError, match=COUNT):
        read_model(saved(tmp_path, tensor([64, 3], kind, raw_data=b"\0" * 17)))
    with pytest.raises(ModelError, match="0 numbers"):
        read_model(saved(tmp_path, tensor([64, 3], kind)))


@pytest.mark.parametrize("kind", [TensorProto.FLOAT, TensorProto.INT32, TensorProto.UINT8])
def test_external_data_that_fits(kind, tmp_path):
    size = 3 * np.dtype(helper.tensor_dtype_to_np_dtype(kind)).itemsize
    for entries in ({}, {"offset": 8}, {"offset": 8, "length": size}):
        read_model(saved(tmp_path, external(tmp_path, [3], size + 8, kind, **entries)))


def test_constant_of_a_node_with_too_few_bytes(tmp_path):
    node = helper.make_node("Constant", [], ["y"], value=tensor([64], raw_data=b"\0" * 8))
    graph = helper.make_graph([node], "g", [], [helper.make_tensor_value_info("y", TensorProto.FLOAT, [64])])
    onnx.save(helper.make_model(graph, ir_version=8), tmp_path / "m.onnx")
    with pytest.raises(ModelError, match=COUNT):
        read_model(tmp_path / "m.onnx")
