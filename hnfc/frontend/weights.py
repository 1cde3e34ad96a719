"""The elements of a weight as a NumPy array, read from the MLIR context on demand."""

from __future__ import annotations

import io
import re
from typing import Any

import numpy as np
from torch_mlir import ir

from hnfc.dialects.num.rounding import NUMPY_TYPES

_NUMBER = re.compile(r"0x[0-9A-Fa-f]+|true|false|[-+]?\d+(?:\.\d*)?(?:[eE][-+]?\d+)?")
_RESOURCES = 5
"""The section of MLIR's bytecode that holds the bytes of resources."""


def element_type(kind: ir.ShapedType) -> str:
    """The dialect's name of the element type of a builtin tensor type; signless integers are read as signed ones."""
    name = str(kind.element_type)
    return f"s{name}" if name in ("i8", "i16", "i32", "i64") else name


def read(attribute: ir.Attribute) -> np.ndarray[Any, Any]:
    """The elements of a `dense<…>` or `dense_resource<…>` attribute, in its shape. A splat takes no more memory than one element."""
    shaped = ir.ShapedType(attribute.type)
    dtype, shape = np.dtype(NUMPY_TYPES[element_type(shaped)]), tuple(shaped.shape)
    if isinstance(attribute, ir.DenseElementsAttr):
        if attribute.is_splat:
            return np.broadcast_to(np.asarray(attribute.get_splat_value().value, dtype), shape)
        try:
            return np.asarray(attribute).astype(dtype, copy=False).reshape(shape)
        except (TypeError, ValueError, BufferError):  # no Python buffer has this element type
            return _from_text(str(attribute), dtype).reshape(shape)
    size = int(np.prod(shape, dtype=np.int64))
    return np.frombuffer(_resource_bytes(attribute, size * dtype.itemsize), dtype).reshape(shape)


def _from_text(text: str, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    body = text[text.index("<") + 1 : text.rindex(" : tensor<")]
    if body.startswith('"0x'):
        return np.frombuffer(bytes.fromhex(body[3:].rstrip('">')), dtype)
    return np.array([_number(token, dtype) for token in _NUMBER.findall(body)], dtype)


def _number(token: str, dtype: np.dtype[Any]) -> Any:
    if token.startswith("0x"):
        return np.array([int(token, 16)], f"u{dtype.itemsize}").view(dtype)[0]
    return token == "true" if token in ("true", "false") else float(token)


def _resource_bytes(attribute: ir.Attribute, size: int) -> memoryview:
    """The blob behind a resource: the last `size` bytes of the resource section of a module that holds nothing else."""
    with attribute.context:
        holder = ir.Module.create(ir.Location.unknown())
        holder.operation.attributes["weight"] = attribute
        stream = io.BytesIO()
        holder.operation.write_bytecode(stream)
    data = memoryview(stream.getbuffer())
    _, at = _varint(data, 4)
    at += bytes(data[at : at + 64]).index(0) + 1
    while at < len(data):
        kind = data[at]
        length, at = _varint(data, at + 1)
        if kind & 0x80:
            alignment, at = _varint(data, at)
            at += -at % alignment
        if kind & 0x7F == _RESOURCES:
            return data[at + length - size : at + length]
        at += length
    raise ValueError(f"no resource behind {attribute}")


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    """MLIR's prefix varint: the number of trailing zeros of the first byte says how many bytes follow."""
    first = data[at]
    if first & 1:
        return first >> 1, at + 1
    if first == 0:
        return int.from_bytes(data[at + 1 : at + 9], "little"), at + 9
    count = (first & -first).bit_length()
    return int.from_bytes(data[at : at + count], "little") >> count, at + count
