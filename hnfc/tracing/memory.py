"""Shadow memory: the float64 values beside the storages of a run, so that views, changes in place and saved tensors need no care."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from hnfc.tracing.events import Event

WIDE = torch.float64
_SWEEP = 256
"""Operations between two removals of storages that are gone."""


@dataclass
class StorageState:
    """Knowledge of the values of a storage. event: what went wrong in them; reach: all that did. branch: of a gradient, the choice that
    it came through, in words."""

    error: float = 0.0
    event: Event | None = None
    reach: frozenset[Event] = frozenset()
    backward: bool = False
    branch: str = ""


@dataclass
class StorageRecord:
    """A storage: the values that it should have (None where they are those that it has), and its state."""

    alive: StorageWeakRef
    dtype: torch.dtype
    shadow: torch.Tensor | None = None
    state: StorageState = field(default_factory=StorageState)


class Memory:
    """Records by storage. A storage without one holds exact values."""

    def __init__(self) -> None:
        self._records: dict[int, StorageRecord] = {}
        self._calls = 0

    def record(self, tensor: torch.Tensor) -> StorageRecord | None:
        if tensor.layout is not torch.strided:
            return None
        found = self._records.get(tensor.untyped_storage()._cdata)
        return found if found is not None and found.dtype == tensor.dtype else None

    def true(self, tensor: torch.Tensor) -> torch.Tensor | None:
        """The values that a tensor should have, or None where they are its own."""
        found = self.record(tensor)
        if found is None or found.shadow is None:
            return None
        return found.shadow.as_strided(tensor.size(), tensor.stride(), tensor.storage_offset())

    def made(self, tensor: torch.Tensor) -> StorageRecord | None:
        """The record of a storage, a new one where there is none; None for tensors without a storage."""
        if tensor.layout is not torch.strided:
            return None
        self._sweep()
        storage = tensor.untyped_storage()
        found = self._records.get(storage._cdata)
        if found is None or found.dtype != tensor.dtype:
            found = self._records[storage._cdata] = StorageRecord(StorageWeakRef(storage), tensor.dtype)  # type: ignore[no-untyped-call]
        return found

    def store(self, tensor: torch.Tensor, true: torch.Tensor) -> None:
        """Writes the true values of a tensor. Values that are exact take no memory."""
        record = self.made(tensor)
        if record is None:
            return
        if record.shadow is None:
            if _same(tensor, true):
                return
            whole = tensor.as_strided((tensor.untyped_storage().nbytes() // tensor.element_size(),), (1,), 0)
            record.shadow = whole.to(WIDE, copy=True) if tensor.numel() < whole.numel() else torch.empty_like(whole, dtype=WIDE)
        record.shadow.as_strided(tensor.size(), tensor.stride(), tensor.storage_offset()).copy_(true)

    def _sweep(self) -> None:
        self._calls += 1
        if self._calls % _SWEEP == 0:
            for key in [key for key, record in self._records.items() if record.alive.expired()]:  # type: ignore[no-untyped-call]
                del self._records[key]


def _same(given: torch.Tensor, true: torch.Tensor) -> bool:
    wide = given.to(WIDE)
    return bool(((wide == true) | (wide.isnan() & true.isnan())).all())


def is_float(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point()
