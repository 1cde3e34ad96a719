"""Branches and loops whose bodies are graphs: modules that a graph calls, as torch has no operations for them.

A body takes its own arguments first and then the values that it uses of what is around it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import torch
from torch import fx
from torch_mlir import ir

from hnfc.backend.declared import Declared, declared_dtype
from hnfc.backend.onnx_reference import onnx_attributes, opsets_of
from hnfc.core.errors import ModelError
from hnfc.frontend.torch_mlir import operation_name

_SHAPE = re.compile(r"!torch\.vtensor<\[([^\]]*)\],")
_SCAN_LISTS = ("scan_input_axes", "scan_input_directions", "scan_output_axes", "scan_output_directions")


class Controlled(torch.nn.Module):
    """An operation with graphs of its own. used: of each graph, how many of the values behind the operands it takes."""

    def __init__(self, bodies: Sequence[fx.GraphModule], used: Sequence[int], operands: int) -> None:
        super().__init__()
        self.bodies = torch.nn.ModuleList(bodies)
        self.used, self.operands = list(used), operands
        self.declare(True)

    def declare(self, declares: bool) -> None:
        """Gives the values of the bodies the types that are declared for them, or none where everything runs in a wider type."""
        made: Callable[[Any], fx.Interpreter] = partial(Declared, shapes=False) if declares else fx.Interpreter
        self._graphs = [made(body) for body in self.bodies]

    def _split(self, given: Sequence[Any]) -> tuple[list[Any], list[list[Any]]]:
        """The operands, and for each body what it uses of the values around it."""
        rest, found = list(given[self.operands :]), []
        for count in self.used:
            found.append(rest[:count])
            rest = rest[count:]
        return list(given[: self.operands]), found

    def _run(self, index: int, arguments: Sequence[Any]) -> tuple[Any, ...]:
        results: tuple[Any, ...] = self._graphs[index].run(*arguments)
        return results


def _single(results: Sequence[Any]) -> Any:
    return results[0] if len(results) == 1 else tuple(results)


class Branches(Controlled):
    """The results of one body where the condition holds, else those of the other."""

    def __init__(self, bodies: Sequence[fx.GraphModule], used: Sequence[int], operands: int, holding: int) -> None:
        super().__init__(bodies, used, operands)
        self.holding = holding

    def forward(self, *given: Any) -> Any:
        (condition,), around = self._split(given)
        chosen = self.holding if bool(condition) else 1 - self.holding
        return _single(self._run(chosen, around[chosen]))


class Loop(Controlled):
    """`torch.prim.Loop`: at most as many turns as given, while the condition holds; the body takes the number of the turn."""

    def forward(self, *given: Any) -> Any:
        (most, condition, *carried), (around,) = self._split(given)
        turn = 0
        while turn < int(most) and bool(condition):
            condition, *carried = self._run(0, [turn, *carried, *around])
            turn += 1
        return _single(carried)


class OnnxLoop(Controlled):
    """ONNX's Loop: its results are the values carried, and the others of each turn one behind another."""

    def __init__(self, bodies: Sequence[fx.GraphModule], used: Sequence[int], operands: int, results: Sequence[str]) -> None:
        super().__init__(bodies, used, operands)
        self.results = list(results)

    def forward(self, *given: Any) -> Any:
        (most, condition, *carried), (around,) = self._split(given)
        limit = None if most is None else int(most)
        condition = torch.tensor(True) if condition is None else condition
        turn, listed = 0, list[list[Any]]()
        while (limit is None or turn < limit) and bool(condition):
            condition, *made = self._run(0, [torch.tensor(turn), condition, *carried, *around])
            carried, rest = made[: len(carried)], made[len(carried) :]
            listed = listed or [[] for _ in rest]
            for values, value in zip(listed, rest, strict=True):
                values.append(value)
            turn += 1
        stacked = [torch.stack(values) for values in listed] if turn else [_empty(kind) for kind in self.results[len(carried) :]]
        return _single([*carried, *stacked])


def _empty(declared: str) -> torch.Tensor:
    """No values one behind another, of the declared element type."""
    found = _SHAPE.match(declared)
    sizes = [size for size in found[1].split(",") if size] if found else []
    return torch.empty([0, *(int(size) if size.isdigit() else 0 for size in sizes[1:])], dtype=declared_dtype(declared))


class Scan(Controlled):
    """ONNX's Scan from version 9 on: a loop over slices of the last operands, whose states come before them."""

    def __init__(self, bodies: Sequence[fx.GraphModule], used: Sequence[int], operands: int, attributes: dict[str, Any]) -> None:
        super().__init__(bodies, used, operands)
        self.scanned = int(attributes["num_scan_inputs"])
        self.lists = {name: [int(part) for part in attributes.get(name, ())] for name in _SCAN_LISTS}

    def _of(self, name: str, index: int) -> int:
        return self.lists[name][index] if index < len(self.lists[name]) else 0

    def forward(self, *given: Any) -> Any:
        operands, (around,) = self._split(given)
        states, inputs = operands[: -self.scanned], operands[len(operands) - self.scanned :]
        listed: list[list[Any]] = []
        for parts in zip(*(self._slices(index, value) for index, value in enumerate(inputs)), strict=True):
            made = self._run(0, [*states, *parts, *around])
            states, rest = list(made[: len(states)]), made[len(states) :]
            listed = listed or [[] for _ in rest]
            for values, value in zip(listed, rest, strict=True):
                values.append(value)
        return _single([*states, *(self._stacked(index, values) for index, values in enumerate(listed))])

    def _slices(self, index: int, value: torch.Tensor) -> Iterator[torch.Tensor]:
        parts = value.unbind(self._of("scan_input_axes", index))
        return iter(parts[::-1] if self._of("scan_input_directions", index) else parts)

    def _stacked(self, index: int, values: list[torch.Tensor]) -> torch.Tensor:
        return torch.stack(values[::-1] if self._of("scan_output_directions", index) else values, self._of("scan_output_axes", index))


def controlled(operation: ir.Operation, bodies: Sequence[fx.GraphModule], used: Sequence[int]) -> torch.nn.Module:
    """The module for an operation with graphs of its own. Raises ModelError where torch has none."""
    operands, results, attributes = len(operation.operands), [str(result.type) for result in operation.results], onnx_attributes(operation)
    match operation_name(operation):
        case "torch.prim.If":
            return Branches(bodies, used, operands, 0)
        case "torch.onnx.If":  # whose graphs come by name: else_branch, then_branch
            return Branches(bodies, used, operands, 1)
        case "torch.prim.Loop":
            return Loop(bodies, used, operands)
        case "torch.onnx.Loop":
            return OnnxLoop(bodies, used, operands, results)
        case "torch.onnx.Scan":
            if "num_scan_inputs" not in attributes or opsets_of(operation)[""] < 9:
                raise ModelError("torch runs Scan from version 9 on, with its number of scanned inputs")
            return Scan(bodies, used, operands, attributes)
    raise ModelError("it has a graph of its own, which torch does not run; try --on iree")
