"""A look at a forward pass: the size of the largest element of each result of an operation and a sample of it, under the module and line
that made it."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from functools import cache
from types import FrameType
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from hnfc.frontend.places import Place, frames_below, innermost, is_own
from hnfc.frontend.torch_mlir import shortened
from hnfc.tracing.modules import ModulePath
from hnfc.tracing.run import UNINITIALIZED
from hnfc.watching.samples import sample_of
from hnfc.watching.series import Size, size_of

_CALL = 1e-5
"""Seconds that torch takes to hand an operation to a mode, about: 8 µs were measured."""


class Look(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Mode that measures the floating-point results of operations. names: paths of modules by identity. samples: take samples too."""

    def __init__(self, names: Mapping[int, str], samples: bool = False) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.found: dict[str, tuple[str, Size, torch.Tensor]] = {}
        """By name the module, the size of the largest element, and a sample."""
        self.spent = 0.0
        """Seconds that measuring took."""
        self.paused, self._samples = False, samples
        self._modules = ModulePath(names)
        self._count: dict[str, int] = {}
        self._empty: dict[torch.dtype, torch.Tensor] = {}

    def __enter__(self) -> Look:
        self._modules.__enter__()
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *error: Any) -> Any:
        self._modules.__exit__()
        return super().__exit__(*error)  # type: ignore[no-untyped-call]

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        if self.paused:
            return result
        start = time.perf_counter()
        self._measure(function, result)
        self.spent += time.perf_counter() - start + _CALL
        return result

    def _measure(self, function: Any, result: Any) -> None:
        if _makes_values(function):
            for part in (result,) if isinstance(result, torch.Tensor) else pytree.tree_leaves(result):
                if isinstance(part, torch.Tensor) and part.is_floating_point() and part.numel() and part.layout is torch.strided:
                    self.found[self._name(function)] = self._modules.current, size_of(part), self._sample(part)
                    break

    def _sample(self, part: torch.Tensor) -> torch.Tensor:
        if self._samples:
            return sample_of(part)
        none = self._empty.get(part.dtype)
        return self._empty.setdefault(part.dtype, torch.empty(0, dtype=part.dtype)) if none is None else none

    def _name(self, function: Any) -> str:
        """The operation, its module and line, and a number where it comes there several times."""
        place = _place(sys._getframe(3))
        module = self._modules.current
        where = " ".join(part for part in (module, f"({shortened(place[0])}:{place[1]})" if place else "") if part)
        name = f"{function._schema.name.rpartition('::')[2]} in {where or 'the model'}"
        count = self._count[name] = self._count.get(name, 0) + 1
        return name if count == 1 else f"{name}, time {count}"


@cache
def _makes_values(function: Any) -> bool:
    """Return whether an operation has a result of its own, not one of its operands or memory that holds nothing yet."""
    schema = function._schema
    fresh = not any(returned.alias_info is not None for returned in schema.returns)
    return fresh and not schema.name.rpartition("::")[2].startswith(UNINITIALIZED)


def _place(frame: FrameType | None) -> Place | None:
    """The innermost own frame, as `innermost` gives it; that of a module of torch where there is no other."""
    start = frame
    while frame is not None:
        if is_own(frame.f_code.co_filename):
            return frame.f_code.co_filename, frame.f_lineno
        frame = frame.f_back
    return innermost(frames_below(start, ()))
