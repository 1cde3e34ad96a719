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
_LARGEST = 2**62


@dataclass
class Sizes:
    """shapes: of each flattened input, or None where it is no tensor. bounds: of each dynamic size. guards: what torch.export saw to
    hold of them, and relied on, as Python over `sizes[input][axis]` (`if x.shape[0] % 2 == 0` takes one branch)."""

    shapes: tuple[tuple[Size, ...] | None, ...]
    bounds: dict[str, tuple[int, int]]
    guards: tuple[str, ...]
    _hold: Callable[[Sequence[Any]], bool] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        text = " and ".join(f"({guard})" for guard in self.guards) or "True"
        self._hold = eval(f"lambda sizes: {text}", {})

    def __getstate__(self) -> tuple[Any, ...]:
        return self.shapes, self.bounds, self.guards

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.shapes, self.bounds, self.guards = state
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
        sizes: dict[str, int] = {}
        for shape, given in zip(self.shapes, inputs, strict=True):
            if shape is not None and not (isinstance(given, torch.Tensor) and self._fits(shape, given.shape, sizes)):
                return False
        return not self.guards or self._hold([given.shape if isinstance(given, torch.Tensor) else None for given in inputs])

    def _fits(self, wanted: tuple[Size, ...], found: Sequence[int], sizes: dict[str, int]) -> bool:
        if len(wanted) != len(found):
            return False
        for size, actual in zip(wanted, found, strict=True):
            if isinstance(size, int):
                if size != actual:
                    return False
            else:
                low, high = self.bounds.get(size, (0, _LARGEST))
                if not low <= actual <= high or sizes.setdefault(size, actual) != actual:
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
