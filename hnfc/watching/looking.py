"""A look at a forward pass: the size of the largest element of each result of an operation and a sample of it, under the module and line
that made it."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from hnfc.frontend.places import frames_below, innermost
from hnfc.frontend.torch_mlir import shortened
from hnfc.tracing.modules import ModulePath
from hnfc.tracing.run import UNINITIALIZED
from hnfc.watching.samples import sample_of
from hnfc.watching.series import size_of

_CALL = 1e-5
"""Seconds that torch takes to hand an operation to a mode, about: 8 µs were measured."""


class Look(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Mode that measures the floating-point results of operations. names: paths of modules by identity. samples: take samples too."""

    def __init__(self, names: Mapping[int, str], samples: bool = False) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.found: dict[str, tuple[str, torch.Tensor, torch.Tensor]] = {}
        """By name the module, the size of the largest element, and a sample."""
        self.spent = 0.0
        """Seconds that measuring took."""
        self.paused, self._samples = False, samples
        self._modules = ModulePath(names)
        self._count: dict[str, int] = {}

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
        schema = function._schema
        fresh = not any(returned.alias_info is not None for returned in schema.returns)
        if fresh and not schema.name.rpartition("::")[2].startswith(UNINITIALIZED):
            for part in pytree.tree_leaves(result):
                if isinstance(part, torch.Tensor) and part.is_floating_point() and part.numel() and part.layout is torch.strided:
                    size = size_of(part)
                    sample = sample_of(part) if self._samples else part.new_empty(0)
                    self.found[self._name(function)] = self._modules.current, size, sample
                    break

    def _name(self, function: Any) -> str:
        """The operation, its module and line, and a number where it comes there several times."""
        place = innermost(frames_below(sys._getframe(3), ()))
        module = self._modules.current
        where = " ".join(part for part in (module, f"({shortened(place[0])}:{place[1]})" if place else "") if part)
        name = f"{function._schema.name.rpartition('::')[2]} in {where or 'the model'}"
        count = self._count[name] = self._count.get(name, 0) + 1
        return name if count == 1 else f"{name}, time {count}"
