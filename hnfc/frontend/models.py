"""A file of any form that hnfc reads → the torch dialect: what a file is shows in its content."""

from __future__ import annotations

import mmap
import sys
from collections.abc import Collection
from pathlib import Path

from torch_mlir import ir

from hnfc.frontend import stablehlo
from hnfc.frontend.onnx import read_onnx
from hnfc.frontend.onnx_conversion import convert, is_onnx
from hnfc.frontend.reading import new_context, read

_STABLEHLO = (b"stablehlo", b"StableHLO", b"chlo.")
_IN_TORCH = b"onnx."
_ONNX = b"\x08"
"""A file of ONNX begins with the field `ir_version`; no text does."""


def read_model(source: str | Path | bytes, name: str = "<bytes>", kept: Collection[str] = ()) -> ir.Module:
    """The model in a file, in the bytes of one (called `name` in errors), or on stdin (`-`). Raises ModelError.

    The file holds the torch dialect, StableHLO, or ONNX. kept: nodes of ONNX, by name, that stay operations of ONNX.
    """
    if not isinstance(source, bytes) and str(source) == "-":
        return _of_bytes(sys.stdin.buffer.read(), "<stdin>")
    if isinstance(source, bytes):
        return _of_bytes(source, name)
    path = Path(source)
    if not path.is_file() or (path.stat().st_size == 0 and path.suffix != ".onnx"):
        return read(source)  # which says what is wrong
    if path.suffix == ".onnx":
        return read_onnx(path, kept)
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        start = bytes(data[:64])
        mentions_stablehlo = any(data.find(word) >= 0 for word in _STABLEHLO)
        mentions_onnx = data.find(_IN_TORCH) >= 0
    if start[:1] == _ONNX:
        return read_onnx(path, kept)
    if mentions_stablehlo:
        return _stablehlo(path.read_bytes() if start[:4] == b"ML\xefR" else source, str(source))
    module = read(source)
    return _converted(module, str(source)) if mentions_onnx else module


def _of_bytes(data: bytes, name: str) -> ir.Module:
    if data[:1] == _ONNX:
        return read_onnx(data)
    if any(word in data for word in _STABLEHLO):
        return _stablehlo(data, name)
    module = read(data, name=name)
    return _converted(module, name) if _IN_TORCH in data else module


def _converted(module: ir.Module, name: str) -> ir.Module:
    """A module of torch-mlir's ONNX importer, with the operations that hnfc knows."""
    return convert(module, name) if is_onnx(module) else module


def _stablehlo(source: str | Path | bytes, name: str) -> ir.Module:
    """A file that mentions StableHLO; one that only mentions it stays what it is."""
    context = new_context()
    stablehlo.register(context)
    if isinstance(source, bytes) and stablehlo.is_portable(source):
        module = stablehlo.from_portable(source, context, name)
    else:
        module = read(source, context, name=name)
    return stablehlo.translate(module, name) if stablehlo.is_stablehlo(module) else module
