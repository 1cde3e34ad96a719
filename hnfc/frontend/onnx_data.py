"""The bytes behind the tensors of an ONNX model: as many as their types take, inside the file and beside it, before any is read."""

from __future__ import annotations

import math
import mmap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from hnfc.core.errors import ModelError

_SMALL = 4096
"""Bytes of external data up to which shape inference gets to see it: sizes, axes, indices."""
_LARGEST = 2**62
"""Bytes of the largest tensor that any address reaches."""
_STRING = 8
_FIELDS = ("float_data", "double_data", "int64_data", "uint64_data", "int32_data", "string_data")


class External:
    """Data outside the file of the model, in the folder that it lies in.

    check: every tensor has as many bytes as its type takes. take_in: small ones, and those of nodes, come into the model.
    mapped: the bytes of one. All raise ModelError.
    """

    def __init__(self, folder: Path | None, name: str) -> None:
        self.folder, self.name = folder, name

    def check(self, onnx: Any, model: Any) -> None:
        for tensor in tensors(model):
            if tensor.data_type not in onnx.TensorProto.DataType.values() or tensor.data_type == 0:
                raise self._error(tensor, f"has the unknown element type {tensor.data_type}")
            wanted = _bytes(onnx, tensor)
            if any(size < 0 for size in tensor.dims) or wanted > _LARGEST:
                raise self._error(tensor, f"has the shape {list(tensor.dims)}, which no memory holds")
            if tensor.data_location == tensor.EXTERNAL:
                self._check_file(tensor, wanted)
            elif tensor.HasField("raw_data"):
                if len(tensor.raw_data) != wanted or tensor.data_type == _STRING:
                    raise self._error(tensor, f"has {len(tensor.raw_data)} bytes, but its type takes {wanted}")
            else:
                self._check_numbers(onnx, tensor)

    def _check_numbers(self, onnx: Any, tensor: Any) -> None:
        """Numbers in a list of their own type: parts of complex numbers apart, those of less than a byte in bytes."""
        found = sum(len(getattr(tensor, field)) for field in _FIELDS)
        count, bits = math.prod(tensor.dims), _bits(onnx, tensor.data_type)
        wanted = count * (2 if tensor.data_type in (onnx.TensorProto.COMPLEX64, onnx.TensorProto.COMPLEX128) else 1)
        if bits and bits < 8:
            wanted = -(-count * bits // 8)
        if found != wanted:
            raise self._error(tensor, f"has {found} numbers, but its type takes {wanted}")

    def _check_file(self, tensor: Any, wanted: int) -> None:
        path, offset, length = self._place(tensor, wanted)
        if length != wanted:
            raise self._error(tensor, f"has {length} bytes in {path.name}, but its type takes {wanted}")
        if offset + length > path.stat().st_size:
            raise ModelError(f"the file {path.name} ends before the weight `{tensor.name}` does", self.name)

    def take_in(self, onnx: Any, model: Any) -> None:
        kept = {id(tensor) for tensor in model.graph.initializer}
        for tensor in tensors(model):
            if tensor.data_location == tensor.EXTERNAL and (id(tensor) not in kept or _bytes(onnx, tensor) <= _SMALL):
                tensor.raw_data = self.mapped(onnx, tensor).tobytes()
                del tensor.external_data[:]
                tensor.data_location = onnx.TensorProto.DEFAULT

    def mapped(self, onnx: Any, tensor: Any) -> np.ndarray[Any, Any]:
        path, offset, length = self._place(tensor, _bytes(onnx, tensor))
        if length == 0:
            return np.zeros(0, np.uint8)
        with path.open("rb") as file:
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        return np.frombuffer(data, np.uint8, length, offset)

    def _place(self, tensor: Any, wanted: int) -> tuple[Path, int, int]:
        """File, offset and length of a tensor's data, which must lie beside the model."""
        entries = {entry.key: entry.value for entry in tensor.external_data}
        location = entries.get("location", "")
        if self.folder is None:
            raise self._error(tensor, f"lies in the file {location}, which a model without a folder cannot find")
        if not location or "\0" in location:
            raise self._error(tensor, f"names no file for its data: {location!r}")
        path = (self.folder / location).resolve()
        if not path.is_relative_to(self.folder.resolve()):
            raise self._error(tensor, f"lies outside the folder of the model: {location}")
        if not path.is_file():
            raise ModelError(f"the file of the weight `{tensor.name}` is missing: {location}", self.name)
        return path, self._number(tensor, entries, "offset", 0), self._number(tensor, entries, "length", wanted)

    def _number(self, tensor: Any, entries: dict[str, str], key: str, default: int) -> int:
        text = entries.get(key, str(default))
        if not (text.isascii() and text.isdigit() and len(text) < 20):
            raise self._error(tensor, f"has the {key} {text!r}, which is no number of bytes")
        return int(text)

    def _error(self, tensor: Any, what: str) -> ModelError:
        return ModelError(f"the weight `{tensor.name}` {what}", self.name)


def graphs(model: Any) -> Iterator[Any]:
    """The graph of a model, its functions, and the graphs of their nodes."""
    pending = [model.graph, *model.functions]
    while pending:
        current = pending.pop()
        yield current
        for attribute in (attribute for node in current.node for attribute in node.attribute):
            pending += ([attribute.g] if attribute.HasField("g") else []) + list(attribute.graphs)


def tensors(model: Any) -> Iterator[Any]:
    """Every tensor with data in a model; of sparse ones their two parts."""
    for graph in graphs(model):
        yield from getattr(graph, "initializer", ())  # functions have none
        sparse = list(getattr(graph, "sparse_initializer", ()))
        for attribute in (attribute for node in graph.node for attribute in node.attribute):
            yield from ([attribute.t] if attribute.HasField("t") else [])
            yield from attribute.tensors
            sparse += ([attribute.sparse_tensor] if attribute.HasField("sparse_tensor") else []) + list(attribute.sparse_tensors)
        for one in sparse:
            yield from (one.values, one.indices)


def _bits(onnx: Any, kind: int) -> int:
    """Bits of an element; 0 for texts, which have no size."""
    name = onnx.TensorProto.DataType.Name(kind)
    if name == "STRING":
        return 0
    narrow = {"INT4": 4, "UINT4": 4, "FLOAT4E2M1": 4, "INT2": 2, "UINT2": 2}
    return narrow.get(name) or int(onnx.helper.tensor_dtype_to_np_dtype(kind).itemsize) * 8


def _bytes(onnx: Any, tensor: Any) -> int:
    """Bytes that the type of a tensor takes."""
    return -(-math.prod(map(int, tensor.dims)) * _bits(onnx, tensor.data_type) // 8)
