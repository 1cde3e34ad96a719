"""Checkpoints in the layout of compressed-tensors, which vLLM reads: integers of linear layers packed, other weights as numbers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from hnfc.deployment.optional import needed
from hnfc.deployment.weights import IntegerMatrix, State, integer_matrix, plain
from hnfc.formats.granular import Along, Granular

_PACKED = "pack-quantized"
_ROWS = 1024


def write_compressed(folder: str | Path, model: torch.nn.Module, state: State) -> dict[str, Any]:
    """Writes `model.safetensors` and `config.json`; its `quantization_config`. Weights that are not integers of a linear layer are written
    as the numbers that they hold. Raises UsageError where the package is missing."""
    linear = {name: module for name, module in model.named_modules() if isinstance(module, torch.nn.Linear)}
    tensors: dict[str, torch.Tensor] = {}
    schemes: dict[str, tuple[dict[str, Any], list[str]]] = {}
    for name, tensor in state.items():
        path, _, own = name.rpartition(".")
        found = integer_matrix(tensor) if path in linear and own == "weight" else None
        if found is None:
            tensors[name] = plain(tensor).contiguous()
            continue
        tensors |= {f"{name}_{part}": value for part, value in packed_parts(found).items()}
        schemes.setdefault(found.form.name, (scheme_of(found.form), []))[1].append(path)
    config = quantization_config(schemes, list(linear))
    Path(folder).mkdir(parents=True, exist_ok=True)
    save_file(alone(tensors), Path(folder) / "model.safetensors", metadata={"format": "pt"})
    settings: Any = getattr(model, "config", None)
    own_config = settings.to_dict() if hasattr(settings, "to_dict") else {}
    text = json.dumps({**own_config, "quantization_config": config}, indent=1)
    (Path(folder) / "config.json").write_text(text + "\n", encoding="utf-8")
    return config


Schemes = Mapping[str, tuple[dict[str, Any], list[str]]]
"""By format its scheme, and the paths of the layers that have it."""


def quantization_config(schemes: Schemes, linear: Sequence[str]) -> dict[str, Any]:
    """Settings of a checkpoint with these schemes. linear: the paths of all linear layers."""
    quantized = {path for _, paths in schemes.values() for path in paths}
    return {
        "quant_method": "compressed-tensors",
        "format": _PACKED,
        "quantization_status": "compressed",
        "config_groups": {
            f"group_{place}": {"targets": paths, "weights": scheme, "format": _PACKED}
            for place, (scheme, paths) in enumerate(schemes.values())
        },
        "ignore": [path for path in linear if path not in quantized],
    }


def packed_parts(found: IntegerMatrix) -> dict[str, torch.Tensor]:
    """Tensors of a weight; codes with a zero point are from 0 on, and are written with a sign. Raises UsageError without the package."""
    pack = needed("compressed_tensors.compressors.pack_quantized", "compressed-tensors", "a checkpoint for vLLM").pack_to_int32
    middle = 1 << (found.form.bits - 1) if found.zeros is not None else 0
    parts = {
        # integers of 32 bits are made of a part at a time
        "packed": torch.cat([pack((codes.int() - middle).to(torch.int8), found.form.bits) for codes in torch.split(found.codes, _ROWS)]),
        "scale": found.scales.float().reshape(-1) if found.form.along is Along.TENSOR else found.scales.float(),
        "shape": torch.tensor(found.codes.shape),
    }
    if found.zeros is not None:
        zeros = (found.zeros.int() - middle).to(torch.int8)
        parts["zero_point"] = zeros if found.form.along is Along.TENSOR else pack(zeros, found.form.bits, packed_dim=0).contiguous()
    return parts


def scheme_of(form: Granular) -> dict[str, Any]:
    """Scheme of weights in a format."""
    size = {"group_size": form.size} if form.along is Along.GROUP else {}
    return {"num_bits": form.bits, "type": "int", "symmetric": not form.zero, "strategy": form.along.value, "dynamic": False, **size}


def alone(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The tensors without memory that two of them share."""
    seen: set[int] = set()
    alone = {}
    for name, tensor in tensors.items():
        alone[name] = tensor.clone() if tensor.untyped_storage().data_ptr() in seen else tensor
        seen.add(tensor.untyped_storage().data_ptr())
    return alone
