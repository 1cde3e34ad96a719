"""Tensors in the safetensors files of a folder."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from hnfc.core.errors import ModelError, first_line
from hnfc.core.plain_files import read_json
from hnfc.deployment.compressed import alone

INDEX = "model.safetensors.index.json"


@dataclass(frozen=True)
class StoredTensor:
    """Location and shape of a tensor in a file."""

    file: Path
    shape: tuple[int, ...]


class Checkpoint:
    """Tensors by name; of a file only its header is read until a tensor is. Raises ModelError for a folder or file that is faulty."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.tensors: dict[str, StoredTensor] = {}
        for file in self._files():
            with _opened(file) as stored:
                for name in stored.keys():  # noqa: SIM118  (it is no mapping)
                    if name in self.tensors:
                        raise ModelError(f"the tensor {name} is also in {self.tensors[name].file.name}", str(file))
                    self.tensors[name] = StoredTensor(file, tuple(stored.get_slice(name).get_shape()))

    def _files(self) -> list[Path]:
        index = self.folder / INDEX
        if not index.exists():
            files = sorted(self.folder.glob("*.safetensors"))
            if not files:
                raise ModelError("the folder has no safetensors files", str(self.folder))
            return files
        try:
            files = [self.folder / name for name in sorted(set(read_json(index)["weight_map"].values()))]
            lost = [file.name for file in files if not file.exists() or file.parent != self.folder]
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise ModelError(f"it is no index of tensors: {error!r}", str(index)) from None
        if lost:
            raise ModelError(f"the index names {lost[0]}, which is not in the folder", str(index))
        return files

    def read(self, names: Iterable[str]) -> dict[str, torch.Tensor]:
        """Tensors in the memory of their files, of which the system reads the pages that are used, and drops them as it needs room."""
        by_file: dict[Path, list[str]] = {}
        for name in names:
            by_file.setdefault(self.tensors[name].file, []).append(name)
        found = dict[str, torch.Tensor]()
        for file, inside in by_file.items():
            with _opened(file) as stored:
                found |= {name: stored.get_tensor(name) for name in inside}
        return found

    def identity(self) -> list[list[str | int]]:
        """Name, size and time of each file, by which a changed one is noticed."""
        files = sorted({stored.file for stored in self.tensors.values()})
        return [[file.name, (status := file.stat()).st_size, status.st_mtime_ns] for file in files]


def _opened(file: Path) -> safe_open:
    if not file.is_file():
        raise ModelError("this is not a file", str(file))
    try:
        return safe_open(file, framework="pt")
    except (SafetensorError, OSError) as error:
        raise ModelError(f"it is no safetensors file, or not all of one: {first_line(error)}", str(file)) from None


def write_tensors(file: Path, tensors: Mapping[str, torch.Tensor]) -> None:
    """Writes a safetensors file whole or not at all."""
    with _in_place_of(file) as part:
        save_file(alone({name: tensor.detach().contiguous() for name, tensor in tensors.items()}), part, metadata={"format": "pt"})


def write_json(file: Path, data: object) -> None:
    """Writes JSON whole or not at all."""
    with _in_place_of(file) as part:
        part.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")


@contextmanager
def _in_place_of(file: Path) -> Iterator[Path]:
    """A file beside it that takes its place at the end."""
    part = file.with_name(f".{file.name}-{uuid.uuid4().hex}.part")
    try:
        yield part
        os.replace(part, file)
    finally:
        part.unlink(missing_ok=True)
