"""GGUF files, which llama.cpp and others read: weights in Q8_0 and Q4_0 as blocks, others as numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from hnfc.deployment.optional import needed
from hnfc.deployment.weights import State, plain
from hnfc.formats.granular import Q4_0, Granular
from hnfc.formats.packed import PackedTensor
from hnfc.formats.scaled import stored_format

_PLAIN = {torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16"}
_SIZE = 32


def write_gguf(path: str | Path, state: State, architecture: str) -> dict[str, str]:
    """Writes a file of tensors; the types that they have in it, by name. Formats that GGUF lacks are written as the float32 numbers that
    they hold. Raises UsageError where the package is missing."""
    gguf = needed("gguf", "gguf", "a GGUF file")
    writer = gguf.GGUFWriter(str(path), architecture)
    types: dict[str, str] = {}
    for name, tensor in state.items():
        blocks = _blocks(tensor)
        if blocks is not None:
            types[name], array = blocks
            writer.add_tensor(name, array, raw_dtype=gguf.GGMLQuantizationType[types[name]])
            continue
        values = plain(tensor).contiguous()
        # a single number is a row of one
        values = values if values.dim() else values.reshape(1)
        types[name], array = _numbers(values)
        raw = gguf.GGMLQuantizationType.BF16 if types[name] == "BF16" else None
        writer.add_tensor(name, array, raw_shape=tuple(values.shape) if raw is None else None, raw_dtype=raw)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return types


def _numbers(values: torch.Tensor) -> tuple[str, Any]:
    if values.dtype is torch.bfloat16:
        return "BF16", values.view(torch.uint8).numpy()
    if not values.is_floating_point():
        whole = values.to(torch.int8) if values.dtype is torch.bool else values.to(torch.int16) if values.dtype is torch.uint8 else values
        return f"I{8 * whole.dtype.itemsize}", whole.numpy()
    if values.dtype is torch.float64:
        return "F64", values.numpy()
    kind = _PLAIN.get(values.dtype, "F32")
    return kind, values.to(torch.float16 if kind == "F16" else torch.float32).numpy()


def _blocks(tensor: torch.Tensor) -> tuple[str, Any] | None:
    """Name of a type and its blocks, in bytes: of each a scale, then codes."""
    if not isinstance(tensor, PackedTensor) or tensor.form not in ("Q8_0", Q4_0) or not tensor.dim() or tensor.shape[-1] % _SIZE:
        return None
    assert tensor.scales is not None
    scales = tensor.scales.reshape(-1, 1)
    codes = tensor.codes.reshape(-1, _SIZE) if tensor.form == "Q8_0" else _nibbles(tensor)
    blocks = np.concatenate([scales.numpy().view(np.uint8), codes.numpy().view(np.uint8)], -1)
    return tensor.form, blocks.reshape(*tensor.shape[:-1], -1)


def _nibbles(tensor: PackedTensor) -> torch.Tensor:
    """Codes of 4 bits, from 0 on, as a block has them: its first half in the lower bits of bytes, its second in the upper ones."""
    form = stored_format(tensor.form)
    assert isinstance(form, Granular)
    codes = (tensor.parts_of(form)[0].reshape(-1, _SIZE) + 8).to(torch.uint8)
    return codes[:, : _SIZE // 2] | (codes[:, _SIZE // 2 :] << 4)
