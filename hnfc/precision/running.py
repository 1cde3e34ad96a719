"""Record of a run of a module: the types that its operations computed in, the bytes that they read and wrote, and its memory."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from hnfc.formats.packed import PackedTensor

CAST = "_to_copy"
"""Torch's name of a cast."""
PRODUCTS = (
    "mm", "addmm", "bmm", "baddbmm", "addbmm", "addmv", "mv", "dot", "convolution", "_scaled_dot_product_flash_attention_for_cpu",
    "mkldnn_rnn_layer",
)  # fmt: skip
"""Torch's names of products of matrices and of convolutions."""


@dataclass(frozen=True)
class RunRecord:
    """Record of one run.

    operations: how often each ran, by its name and the type of its result, as ("addmm", "bfloat16"). Those that only view what another
    wrote are not among them, and neither read nor write.
    """

    operations: Mapping[tuple[str, str], int]
    read: int
    """Bytes of the arguments of operations."""
    written: int
    """Bytes of their results."""
    cast: int
    """Bytes of the results of casts, which are part of these."""
    peak: int
    """Most bytes of results that were alive at once."""
    parameters: int
    """Bytes of parameters and buffers as they are stored."""
    seconds: float
    """Time of the fastest of three other runs, without the recording."""

    @property
    def moved(self) -> int:
        """Bytes that operations read and wrote."""
        return self.read + self.written

    def types_of(self, *names: str) -> dict[str, int]:
        """Number of times that operations of these names ran, by the types of their results."""
        found: Counter[str] = Counter()
        for (name, dtype), count in self.operations.items():
            found[dtype] += count if name in names else 0
        return {dtype: count for dtype, count in found.items() if count}


class Measured(float):
    """Measured error, with the record of a run in the formats that have it; the model runs when something of that is first looked at."""

    def __new__(cls, error: float, run: Callable[[], RunRecord]) -> Measured:
        return super().__new__(cls, error)

    def __init__(self, error: float, run: Callable[[], RunRecord]) -> None:
        self._run = run

    @cached_property
    def run(self) -> RunRecord:
        """Record of the run."""
        return self._run()

    def __reduce__(self) -> tuple[type[float], tuple[float]]:
        return float, (float(self),)


def record(module: torch.nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any] | None = None) -> RunRecord:
    """The record of a call without gradients. A first call, which may have to capture the module, is not part of it."""
    keywords = dict(kwargs or {})
    with torch.no_grad():
        module(*args, **keywords)
        seconds = min(_seconds(lambda: module(*args, **keywords)) for _ in range(3))
        with _Recording() as seen:
            module(*args, **keywords)
    return RunRecord(dict(seen.operations), seen.read, seen.written, seen.cast, seen.peak, stored_size(module), seconds)


def _seconds(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def stored_size(module: torch.nn.Module) -> int:
    """Bytes of parameters and buffers, of each once."""
    wholes = (*module.parameters(), *module.buffers())
    tensors = [t for whole in wholes for t in (whole.parts() if isinstance(whole, PackedTensor) else [whole])]
    return sum({t.untyped_storage().data_ptr(): t.numel() * t.element_size() for t in tensors}.values())


class _Recording(TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.operations: Counter[tuple[str, str]] = Counter()
        self.read = self.written = self.cast = self.peak = self._live = 0
        self._alive: dict[int, tuple[StorageWeakRef, int]] = {}

    def __torch_dispatch__(self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        if any(issubclass(kind, PackedTensor) for kind in types):
            # it unpacks itself, by operations that come here
            return NotImplemented
        result = function(*args, **(kwargs or {}))
        given = {_storage(t): t for t in pytree.tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)}
        made = [t for t in pytree.tree_leaves(result) if isinstance(t, torch.Tensor) and _storage(t) not in given]
        written_to = [t for t in pytree.tree_leaves(result) if isinstance(t, torch.Tensor)] if function._schema.is_mutable else []
        if made or written_to:
            name = function._schema.name.rpartition("::")[2]
            self.operations[name, str((made or written_to)[0].dtype).removeprefix("torch.")] += 1
            read = {layout_of(t): t for t in pytree.tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)}
            self.read += sum(map(_size, read.values()))
            wrote = sum(map(_size, made or written_to))
            self.written += wrote
            self.cast += wrote if name == CAST else 0
            self._keep(made)
        return result

    def _keep(self, made: list[torch.Tensor]) -> None:
        for storage, (alive, size) in list(self._alive.items()):
            if alive.expired():  # type: ignore[no-untyped-call]
                self._live -= size
                del self._alive[storage]
        for tensor in made:
            if _storage(tensor) not in self._alive:
                size = tensor.untyped_storage().nbytes()
                alive = StorageWeakRef(tensor.untyped_storage())  # type: ignore[no-untyped-call]
                self._alive[_storage(tensor)] = alive, size
                self._live += size
        self.peak = max(self.peak, self._live)


def layout_of(tensor: torch.Tensor) -> tuple[object, ...]:
    """Identity of the elements of a tensor: its memory, and its part of that."""
    return _storage(tensor), tensor.storage_offset(), tuple(tensor.shape), tensor.stride(), tensor.dtype


def _storage(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)


def _size(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()
