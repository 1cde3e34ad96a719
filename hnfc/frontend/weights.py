"""The elements of a weight as a NumPy array, read from the MLIR context on demand."""

from __future__ import annotations

import io
import math
import re
from typing import Any

import numpy as np
from torch_mlir import ir

from hnfc.core.errors import ModelError
from hnfc.dialects.num.rounding import NUMPY_TYPES

_TYPES: dict[str, np.dtype[Any]] = {
    **{f"ui{width}": np.dtype(f"u{width // 8}") for width in (8, 16, 32, 64)},
    **{f"{sign}{width}": np.dtype(f"i{width // 8}") for width in (8, 16, 32, 64) for sign in ("i", "si")},
    **{name: np.dtype(kind) for name, kind in NUMPY_TYPES.items()},
}
_NUMBER = re.compile(r"0x[0-9A-Fa-f]+|true|false|[-+]?\d+(?:\.\d*)?(?:[eE][-+]?\d+)?")
_COMPLEX = r"(dense<[^<>]*> : tensor<[\dx]*complex<\w+>>)"
_CONSTANTS = ("torch.vtensor.literal", "stablehlo.constant", "arith.constant", "torch.operator")
_PLACE = re.compile(r'"([^"]*)":(\d+):(\d+)')
_NAME = re.compile(r'^loc\("([^"]+)"(?:\("([^"]*)"\))?')
"""The name of an operation, and the operator of ONNX behind it."""
_RESOURCES = 5
"""The section of MLIR's bytecode that holds the bytes of resources."""
_HEADERS = 4096
"""Bytes of bytecode of a module with one attribute in which its other sections end."""


def element_type(kind: ir.ShapedType) -> str:
    """The dialect's name of the element type of a builtin tensor type; signless integers are read as signed ones."""
    name = str(kind.element_type)
    return f"s{name}" if name in ("i8", "i16", "i32", "i64") else name


def is_known(element: str) -> bool:
    """Return whether NumPy has a type for an element type of MLIR, as the text of one is."""
    return element in _TYPES


def dtype_of(element: str) -> np.dtype[Any]:
    """The NumPy type of an element type. Raises ModelError where there is none."""
    if not is_known(element):
        raise ModelError(f"there are no arrays of `{element}`")
    return _TYPES[element]


def read(attribute: ir.Attribute) -> np.ndarray[Any, Any]:
    """The elements of a `dense<…>` or `dense_resource<…>` attribute, in its shape. A splat takes no more memory than one element."""
    shaped = ir.ShapedType(attribute.type)
    dtype, shape = dtype_of(element_type(shaped)), tuple(shaped.shape)
    if isinstance(attribute, ir.DenseElementsAttr):
        if attribute.is_splat:
            return np.broadcast_to(np.asarray(attribute.get_splat_value().value, dtype), shape)
        try:
            return np.asarray(attribute).astype(dtype, copy=False).reshape(shape)
        except (TypeError, ValueError, BufferError):  # no Python buffer has this element type
            return _from_text(str(attribute), dtype).reshape(shape)
    return np.frombuffer(_resource_bytes(attribute, _size(shaped)), dtype).reshape(shape)


def _from_text(text: str, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    body = text[text.index("<") + 1 : text.rindex(" : tensor<")]
    if body.startswith('"0x'):
        return np.frombuffer(bytes.fromhex(body[3:].rstrip('">')), dtype)
    return np.array([_number(token, dtype) for token in _NUMBER.findall(body)], dtype)


def _number(token: str, dtype: np.dtype[Any]) -> Any:
    if token.startswith("0x"):
        return np.array([int(token, 16)], f"u{dtype.itemsize}").view(dtype)[0]
    return token == "true" if token in ("true", "false") else float(token)


def check_resources(module: ir.Module, name: str) -> None:
    """Raises ModelError at the first constant of the module whose bytes are not as many as its type takes."""
    pending = [module.operation]
    while pending:
        operation = pending.pop()
        pending += [view.operation for region in operation.regions for block in region.blocks for view in block.operations]
        if operation.name not in _CONSTANTS:
            continue
        attribute = _value_of(operation)
        if attribute is not None and not isinstance(attribute, ir.DenseElementsAttr) and str(attribute).startswith("dense_resource<"):
            try:
                _check_resource(attribute)
            except ModelError as error:
                raise ModelError(error.message, *place_of(operation, name)) from None


def _value_of(operation: ir.Operation) -> ir.Attribute | None:
    for key in ("value", "torch.onnx.value"):
        try:
            if key in operation.attributes:
                return operation.attributes[key]
        except TypeError:  # the bindings have no class for complex elements, whose bytes the parser has counted
            return None
    return None


def text_of(operation: ir.Operation, name: str) -> str:
    """The attribute `name` as MLIR prints it, of complex elements too."""
    try:
        return str(operation.attributes[name])
    except TypeError:  # see _value_of
        found = re.search(rf"[{{ ]{re.escape(name)} = {_COMPLEX}", operation.get_asm(print_generic_op_form=True))
        if found is None:
            raise ModelError(f"the attribute `{name}` of {operation.name} cannot be read", *place_of(operation, "")) from None
        return found[1]


def place_of(operation: ir.Operation, name: str | None) -> tuple[Any, ...]:
    """File, line and column of an operation; where MLIR does not know them its own name, or that of the file."""
    location = str(operation.location)
    found, named = _PLACE.search(location), _NAME.match(location)
    if found is None:
        return (f"`{named[1]}`{f' ({named[2]})' if named[2] else ''}",) if named and not name else (name,)
    return name if found[1] == "-" else found[1], int(found[2]), int(found[3])


def node_of(operation: ir.Operation) -> str:
    """The name of the node of ONNX that an operation comes from; empty where it comes from none."""
    named = _NAME.match(str(operation.location))
    return named[1] if named and named[2] else ""


def _check_resource(attribute: ir.Attribute) -> None:
    """Raises ModelError where a resource has more or fewer bytes than its type takes; its bytes are not kept."""
    shaped = ir.ShapedType(attribute.type)
    stream = _Beginning()
    _write_alone(attribute, stream)
    _located(memoryview(bytes(stream.kept)), attribute, _size(shaped))


def _size(shaped: ir.ShapedType) -> int:
    return math.prod(int(size) for size in shaped.shape) * int(dtype_of(element_type(shaped)).itemsize)


class _Beginning:
    """A stream that keeps what comes before the bytes of a resource, and forgets these."""

    def __init__(self) -> None:
        self.kept = bytearray()

    def write(self, data: bytes) -> None:
        self.kept += data[: max(0, _HEADERS - len(self.kept))]


def _write_alone(attribute: ir.Attribute, stream: Any) -> None:
    """Writes the bytecode of a module that holds nothing but the attribute."""
    with attribute.context:
        holder = ir.Module.create(ir.Location.unknown())
        holder.operation.attributes["weight"] = attribute
        holder.operation.write_bytecode(stream)


def _resource_bytes(attribute: ir.Attribute, size: int) -> memoryview:
    """The blob behind a resource, of the size that its type has. Raises ModelError."""
    stream = io.BytesIO()
    _write_alone(attribute, stream)
    data = memoryview(stream.getbuffer())
    end = _located(data, attribute, size)
    return data[end - size : end]


def _located(data: memoryview, attribute: ir.Attribute, wanted: int) -> int:
    """The end of the blob in a module with one resource. Raises ModelError where its size is another."""
    _, at = _varint(data, 4)
    at += bytes(data[at : at + 64]).index(0) + 1
    while at < len(data):
        kind = data[at]
        length, at = _varint(data, at + 1)
        if kind & 0x80:
            alignment, at = _varint(data, at)
            at += -at % alignment
        if kind & 0x7F == _RESOURCES and length:
            _, start = _varint(data, at)  # the alignment
            size, _ = _varint(data, start)
            if size != wanted:
                raise ModelError(f"the weight `{attribute}` has {size} bytes, but its type takes {wanted}")
            return at + length
        at += length
    raise ModelError(f"there are no bytes for the weight `{attribute}`")


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    """MLIR's prefix varint: the number of trailing zeros of the first byte says how many bytes follow."""
    first = data[at]
    if first & 1:
        return first >> 1, at + 1
    if first == 0:
        return int.from_bytes(data[at + 1 : at + 9], "little"), at + 9
    count = (first & -first).bit_length()
    return int.from_bytes(data[at : at + count], "little") >> count, at + count
