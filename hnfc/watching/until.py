"""A run of a step that ends at an operation, with what the operation takes and gives."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

from hnfc.tracing.events import ValueRange
from hnfc.watching.looking import Look

_BEFORE = 5


@dataclass(frozen=True)
class ReachedOperation:
    """An operation of the forward pass. takes and gives: its floating-point tensors and their values."""

    name: str
    takes: tuple[torch.Tensor, ...]
    gives: tuple[torch.Tensor, ...]

    def __str__(self) -> str:
        lines = [self.name]
        lines += [f"    takes   {_of(tensor)}" for tensor in self.takes] + [f"    gives   {_of(tensor)}" for tensor in self.gives]
        return "\n".join(lines)


def _of(tensor: torch.Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} {list(tensor.shape)} in {ValueRange.of(tensor)}"


class Arrival(Exception):
    """The end of a run, at the operation that was looked for."""


class RunUntil(Look):  # type: ignore[no-untyped-call]
    """Mode that raises `Arrival` at the first operation whose name, `exp in net.0 (policy.py:12)`, has a text in it.

    passed: the last operations up to there.
    """

    def __init__(self, names: Mapping[int, str], text: str) -> None:
        super().__init__(names)
        self.passed: deque[ReachedOperation] = deque(maxlen=_BEFORE)
        self._text = text
        self._given: tuple[torch.Tensor, ...] = ()

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if not self.paused:
            self._given = tuple(x.detach().clone() for x in _floats((args, kwargs)))
        return super().__torch_dispatch__(function, types, args, kwargs)

    def _measure(self, function: Any, result: Any) -> None:
        gives = tuple(x.detach().clone() for x in _floats(result))
        if not gives or any(returned.alias_info is not None and not returned.alias_info.is_write for returned in function._schema.returns):
            return
        name = self._name(function)
        self.passed.append(ReachedOperation(name, self._given, gives))
        if self._text in name:
            raise Arrival(name)


def _floats(tree: Any) -> list[torch.Tensor]:
    found = (x for x in pytree.tree_leaves(tree) if isinstance(x, torch.Tensor))
    return [x for x in found if x.is_floating_point() and x.layout is torch.strided]
