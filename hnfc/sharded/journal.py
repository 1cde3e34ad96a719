"""Work that goes on where it was ended: the results of all layers that are done, and the values that the next one reads."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from hnfc.core.errors import ModelError
from hnfc.core.plain_files import read_json
from hnfc.sharded.checkpoint import write_json, write_tensors

_FILE = "journal.json"
_OURS = ("values-", ".values-", f".{_FILE}-")
"""Beginnings of the names of files that a run which was ended early leaves."""


class Journal:
    """Folder of a run. Without one everything is in memory, and a run that is ended begins anew."""

    def __init__(self, folder: Path | None, settings: object) -> None:
        self.folder = folder
        self.key = hashlib.sha256(json.dumps(settings, sort_keys=True, default=repr).encode()).hexdigest()
        self.done: list[Any] = []
        self._values: dict[str, torch.Tensor] = {}
        if folder is None:
            return
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / _FILE
        if not file.exists():
            if not all(path.name.startswith(_OURS) for path in folder.iterdir()):
                raise ModelError("the folder for unfinished work holds other files; choose an empty or a new one", str(folder))
            return
        try:
            found = read_json(file)
            key, self.done = found["key"], list(found["done"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ModelError(f"it is no journal of a run: {error!r}; delete the folder to begin anew", str(file)) from None
        if key != self.key:
            raise ModelError("the folder holds a run of another model, sample or setting; delete it, or choose another", str(folder))

    def values(self, first: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Values that the next layer reads; `first` before all layers."""
        if not self.done:
            return dict(first)
        if self.folder is None:
            return dict(self._values)
        # in memory of their own: kernels of matrices round differently where numbers are not aligned
        return {name: tensor.clone() for name, tensor in load_file(self._file(len(self.done))).items()}

    def add(self, result: Any, values: Mapping[str, torch.Tensor]) -> None:
        """Records a layer: its values first, then that it is done."""
        self.done.append(result)
        if self.folder is None:
            self._values = dict(values)
            return
        write_tensors(self._file(len(self.done)), values)
        write_json(self.folder / _FILE, {"key": self.key, "done": self.done})
        self._file(len(self.done) - 1).unlink(missing_ok=True)

    def remove(self) -> None:
        """Deletes what a run that has ended kept, and its folder if nothing else is there."""
        if self.folder is None:
            return
        for path in self.folder.iterdir():
            if path.name == _FILE or path.name.startswith(_OURS):
                path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            self.folder.rmdir()

    def _file(self, count: int) -> Path:
        assert self.folder is not None
        return self.folder / f"values-{count}.safetensors"


def digest_of(tensors: Mapping[str, torch.Tensor]) -> str:
    """Digest of names, types, shapes and numbers."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name].detach().contiguous()
        digest.update(f"{name} {tensor.dtype} {list(tensor.shape)}\0".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
