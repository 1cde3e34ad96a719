"""Names of values in a StableHLO function, which `hnfc.jax` puts in and finds again in the torch dialect.

They become attributes of the function, so that a copy of the module has them too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from torch_mlir import ir

MARK, DETACH, WALL = "hnfc.mark.", "hnfc.detach", "hnfc.wall."
"""Calls with a meaning of their own: a name for a value, the end of a gradient, and an equation that stays what it is."""
_MADE, _KEPT = "hnfc.made", "hnfc.kept"
_MOST_OF_ONE = 4
"""Operations of an equation. One of more is an algorithm, of log Γ for example, with a derivative of its own; rules leave it alone."""
_PLAIN = tuple(f"stablehlo.{name}" for name in ("constant", "broadcast_in_dim", "reshape", "transpose", "convert", "slice"))
Place: TypeAlias = "tuple[int, int]"
"""Number of the operation in its function and of its result; -1 and the number of an argument."""


def wall_of(carried: Mapping[str, str]) -> tuple[str, int, str] | None:
    """The capture, the number and the name of the equation that a custom call with these attributes stands for; None for other calls."""
    target = carried.get("call_target_name", "").strip('"')
    if not target.startswith(WALL):
        return None
    capture, number, name = target.removeprefix(WALL).split(".", 2)
    return capture, int(number), name


class Marks:
    """Marks of a function while it is translated: each value by its name, and the names whose equation torch has no operation for."""

    def __init__(self) -> None:
        self._values: dict[str, ir.Value] = {}
        self._kept: list[str] = []
        self._pending = False
        self._count = 0

    def add(self, name: str, value: ir.Value) -> None:
        """Names a value. What was read since the last mark belongs to its equation, which is kept too if it is an algorithm."""
        self._values[name] = value
        if self._pending or self._count > _MOST_OF_ONE:
            self._kept.append(name)
        self._pending, self._count = False, 0

    def note(self, operation: ir.Operation) -> None:
        """Counts an operation that computes something."""
        self._count += operation.name not in _PLAIN

    def note_kept(self, operation: ir.Operation) -> None:
        """Notes that an operation stays what it is; a wall does so by intent."""
        is_wall = operation.name == "stablehlo.custom_call" and WALL in str(operation.attributes["call_target_name"])
        self._pending |= not is_wall and operation.name != "stablehlo.constant"

    def write(self, block: ir.Block) -> None:
        """Leaves the marks with the function; values that nothing uses are gone."""
        if not self._values:
            return
        function = block.owner
        context = function.context
        places = _places(block)
        made = {name: places[value] for name, value in self._values.items() if value in places}
        rows = {name: ir.DenseI64ArrayAttr.get(list(place), context) for name, place in made.items()}
        function.attributes[_MADE] = ir.DictAttr.get(rows, context)
        function.attributes[_KEPT] = ir.ArrayAttr.get([ir.StringAttr.get(name, context) for name in self._kept], context)


def _places(block: ir.Block) -> dict[ir.Value, Place]:
    places: dict[ir.Value, Place] = {argument: (-1, index) for index, argument in enumerate(block.arguments)}
    for number, view in enumerate(block.operations):
        places.update({result: (number, index) for index, result in enumerate(view.operation.results)})
    return places


def marked_values(function: ir.Operation) -> Mapping[str, ir.Value]:
    """The marked values of a translated function that nothing has changed yet, by their names."""
    if _MADE not in function.attributes:
        return {}
    block = function.regions[0].blocks[0]
    values = {place: value for value, place in _places(block).items()}
    rows = ir.DictAttr(function.attributes[_MADE])
    return {row.name: values[tuple(ir.DenseI64ArrayAttr(row.attr))] for row in rows}


def kept_marks(function: ir.Operation) -> list[str]:
    """The names of values that operations without a counterpart in torch make."""
    if _KEPT not in function.attributes:
        return []
    return [ir.StringAttr(name).value for name in ir.ArrayAttr(function.attributes[_KEPT])]
