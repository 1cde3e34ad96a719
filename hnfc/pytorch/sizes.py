"""Sizes of its inputs that a graph is for: the assumptions of torch.export while it traced."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import torch

from hnfc.frontend.pytorch import Captured
from hnfc.frontend.signature import Given

Size: TypeAlias = "int | str"
"""A number, or the name of one that differs from call to call."""
Assigned: TypeAlias = "tuple[tuple[str, int], ...]"
"""Dynamic sizes with their numbers in a call, in the order in which they come."""
_LARGEST = 2**62
_ASSUMED = 2
"""The size from which torch.export takes an open one to be, whatever it is for."""


@dataclass
class Sizes:
    """shapes: of each flattened input, or None where it is no tensor. bounds: of each dynamic size. guards: what torch.export saw to
    hold of them, and relied on, as Python over `sizes[input][axis]` (`if x.shape[0] % 2 == 0` takes one branch)."""

    shapes: tuple[tuple[Size, ...] | None, ...]
    bounds: dict[str, tuple[int, int]]
    guards: tuple[str, ...]
    ones: dict[Assigned, bool] = field(default_factory=dict)
    """By sizes of which some are 1, where torch.export assumed 2 or more: whether a call showed that the graph is for them."""
    _hold: Callable[[Sequence[Any]], bool] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        text = " and ".join(f"({guard})" for guard in self.guards) or "True"
        self._hold = eval(f"lambda sizes: {text}", {})

    def __getstate__(self) -> tuple[Any, ...]:
        return self.shapes, self.bounds, self.guards, self.ones

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.shapes, self.bounds, self.guards, self.ones = state
        self.__post_init__()

    @staticmethod
    def of(captured: Captured, inputs: Sequence[Any]) -> Sizes:
        """Sizes of a captured call with these flattened inputs."""
        values = {node.name: node.meta.get("val") for node in captured.program.graph.nodes if node.op == "placeholder"}
        given = {a.index: a.name for a in captured.signature.arguments if isinstance(a, Given)}
        shapes = tuple(
            tuple(size if isinstance(size, int) else str(size) for size in values.get(given.get(index, ""), actual).shape)
            if isinstance(actual, torch.Tensor)
            else None
            for index, actual in enumerate(inputs)
        )
        dynamic = {size for shape in shapes for size in shape or () if isinstance(size, str)}
        bounds = {
            str(symbol): (int(interval.lower), _LARGEST if interval.upper > _LARGEST else int(interval.upper))
            for symbol, interval in captured.program.range_constraints.items()
            if str(symbol) in dynamic
        }
        return Sizes(shapes, bounds, captured.guards)

    def fit(self, inputs: Sequence[Any]) -> bool:
        """Return whether the graph is for inputs of these sizes."""
        ones = self.assumed_larger(inputs)
        if ones is None or (ones and not self.ones.get(ones, False)):
            return False
        return not self.guards or self._hold([given.shape if isinstance(given, torch.Tensor) else None for given in inputs])

    def assumed_larger(self, inputs: Sequence[Any]) -> Assigned | None:
        """The dynamic sizes of these inputs if one is 1 where torch.export assumed 2 or more, else none; None where they do not fit."""
        sizes: dict[str, int] = {}
        for shape, given in zip(self.shapes, inputs, strict=True):
            if shape is not None and not (isinstance(given, torch.Tensor) and self._fits(shape, given.shape, sizes)):
                return None
        # all of them: a branch on a size of 1 may look at the others, of which torch.export then noted nothing
        below = any(actual < self.bounds.get(size, (0, 0))[0] for size, actual in sizes.items())
        return tuple(sizes.items()) if below else ()

    def _fits(self, wanted: tuple[Size, ...], found: Sequence[int], sizes: dict[str, int]) -> bool:
        if len(wanted) != len(found):
            return False
        for size, actual in zip(wanted, found, strict=True):
            if isinstance(size, int):
                if size != actual:
                    return False
            else:
                low, high = self.bounds.get(size, (0, _LARGEST))
                if (not low <= actual <= high and (actual, low) != (1, _ASSUMED)) or sizes.setdefault(size, actual) != actual:
                    return False
        return True

    def changed(self, inputs: Sequence[Any]) -> list[dict[int, Any] | None]:
        """The axes on which inputs differ from those that the graph is for, as torch.export names them.

        Sizes 0 and 1 are left fixed: torch makes other graphs for them.
        """
        found: list[dict[int, Any] | None] = []
        for shape, given in zip(self.shapes, inputs, strict=True):
            if shape is None or not isinstance(given, torch.Tensor) or len(shape) != given.dim():
                found.append(None)
                continue
            axes = {i: torch.export.Dim.AUTO for i, (a, b) in enumerate(zip(shape, given.shape, strict=True)) if a != b and b > 1}
            found.append(axes or None)
        return found
