"""A folder in the layout of compressed-tensors: a file for each segment, then the index and the configuration, which make it a model."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open

from hnfc.deployment.compressed import packed_parts, quantization_config, scheme_of
from hnfc.deployment.weights import IntegerMatrix, integer_matrix
from hnfc.formats.granular import Granular
from hnfc.formats.scaled import stored_format
from hnfc.sharded.checkpoint import INDEX, write_json, write_tensors
from hnfc.sharded.model import CONFIG, ShardedModel
from hnfc.sharded.rows import PackedRows

_BESIDE = (".json", ".model", ".txt", ".jinja")
"""Suffixes of small files that go along: vocabularies, settings of generation."""

_UNREAD = "model-unread.safetensors"


def shard_name(place: int, count: int) -> str:
    return f"model-{place + 1:05}-of-{count:05}.safetensors"


def tensors_of(model: ShardedModel, names: list[str], stored: Mapping[str, PackedRows], written: set[str]) -> dict[str, torch.Tensor]:
    """Tensors of a file: integers packed, others as the files of the model have them, each once."""
    found: dict[str, torch.Tensor] = {}
    for name in names:
        if name in written or name not in model.sources:
            continue
        if name in stored:
            found |= {f"{name}_{part}": value for part, value in packed_parts(_matrix(stored[name])).items()}
        else:
            source = model.sources[name]
            found[source] = model.checkpoint.read([source])[source]
    return found


def _matrix(stored: PackedRows) -> IntegerMatrix:
    """All rows of a matrix."""
    parts = [integer_matrix(piece) for piece in stored.pieces]
    whole = [part for part in parts if part is not None]
    assert len(whole) == len(parts)
    zeros = [part.zeros for part in whole if part.zeros is not None]
    codes, scales = torch.cat([part.codes for part in whole]), torch.cat([part.scales for part in whole])
    return IntegerMatrix(whole[0].form, codes, scales, torch.cat(zeros) if zeros else None)


def finish(model: ShardedModel, folder: Path, formats: Mapping[str, str], count: int, written: set[str]) -> None:
    """Writes what no segment reads, the small files, the index, and at last the configuration."""
    files = [shard_name(place, count) for place in range(count)]
    unread = sorted(model.checkpoint.tensors.keys() - {model.sources[name] for name in written if name in model.sources})
    if unread:
        files.append(_UNREAD)
        write_tensors(folder / _UNREAD, model.checkpoint.read(unread))
    schemes: dict[str, tuple[dict[str, Any], list[str]]] = {}
    for name, form in formats.items():
        kind = stored_format(form) if form != "own" else None
        if isinstance(kind, Granular):
            schemes.setdefault(kind.name, (scheme_of(kind), []))[1].append(name.removesuffix(".weight"))
    weights, size = dict[str, str](), 0
    for file in files:
        with safe_open(folder / file, framework="pt") as stored:
            weights |= dict.fromkeys(stored.keys(), file)
        size += (folder / file).stat().st_size
    linear = [path for path, module in model.module.named_modules() if isinstance(module, torch.nn.Linear)]
    for path in model.checkpoint.folder.iterdir():
        if path.suffix in _BESIDE and path.name not in (CONFIG, INDEX):
            shutil.copyfile(path, folder / path.name)
    write_json(folder / INDEX, {"metadata": {"total_size": size}, "weight_map": weights})
    write_json(folder / CONFIG, {**model.config, "quantization_config": quantization_config(schemes, linear)})
