"""A graph in float64 whose values before a rewrite are those of the model's own types, so that a gradient is judged by them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import fx

_MOST_COMPARED = 4096
"""Elements of a constant up to which it is compared with others."""


class WithKept(torch.nn.Module):
    """The graph in float64, where each of the last values that it has in common with the graph before is as the narrow graph computes it.

    narrow, wide: one graph, in the model's types and in float64, with the same nodes in the same order. Derivatives pass through.
    """

    def __init__(self, before: fx.GraphModule, narrow: fx.GraphModule, wide: fx.GraphModule) -> None:
        super().__init__()
        kept = _kept(before, narrow)
        self._places = [place for place, node in enumerate(narrow.graph.nodes) if node in kept]
        self._narrow, self._wide = narrow, wide
        self.graph = wide.graph
        self._computed: dict[int, torch.Tensor] = {}

    def record(self, inputs: Sequence[Any]) -> None:
        """Runs the narrow graph on inputs of its types."""
        self._computed = {}
        recorder = _KeptRecorder(self._narrow, self._places, self._computed)
        with torch.no_grad():
            recorder.run(*inputs)

    def forward(self, *inputs: Any) -> Any:
        return _KeptReplacer(self._wide, self._places, self._computed).run(*inputs)


class _AtPlaces(fx.Interpreter):
    """Interpreter that meets the tensors at some places of a graph."""

    def __init__(self, module: fx.GraphModule, places: Sequence[int], computed: dict[int, torch.Tensor]) -> None:
        super().__init__(module)
        nodes = list(module.graph.nodes)
        self._place_of, self._computed = {nodes[place]: place for place in places}, computed

    def run_node(self, n: fx.Node) -> Any:
        result = super().run_node(n)
        place = self._place_of.get(n)
        return self._met(place, result) if place is not None and isinstance(result, torch.Tensor) else result

    def _met(self, place: int, value: torch.Tensor) -> torch.Tensor:
        raise NotImplementedError


class _KeptRecorder(_AtPlaces):
    def _met(self, place: int, value: torch.Tensor) -> torch.Tensor:
        self._computed[place] = value.detach()
        return value


class _KeptReplacer(_AtPlaces):
    def _met(self, place: int, value: torch.Tensor) -> torch.Tensor:
        known = self._computed.get(place)
        if known is None or known.shape != value.shape or not value.is_floating_point():
            return value
        return value + (known.to(value.dtype) - value).detach()


def _kept(before: fx.GraphModule, after: fx.GraphModule) -> set[fx.Node]:
    """The nodes of the graph after that compute what one of the graph before does, up to those that only such ones use."""
    keys: dict[Any, int] = {}
    known = set(_numbers(before, keys).values())
    found = _numbers(after, keys)
    common = {node for node, number in found.items() if number in known and node.op == "call_function"}
    return {node for node in common if not set(node.users) <= common}


def _numbers(module: fx.GraphModule, keys: dict[Any, int]) -> dict[fx.Node, int]:
    """A number for each node, the same for the same computation."""
    numbers: dict[fx.Node, int] = {}
    inputs = 0
    for node in module.graph.nodes:
        key: Any = node  # like no other
        if node.op == "placeholder":
            key, inputs = ("input", inputs), inputs + 1
        elif node.op == "get_attr":
            tensor = getattr(module, node.target, None)
            if isinstance(tensor, torch.Tensor) and tensor.numel() <= _MOST_COMPARED:
                key = ("constant", str(tensor.dtype), tuple(tensor.shape), tuple(map(str, tensor.flatten().tolist())))
        elif node.op == "call_function" and torch.Tag.nondeterministic_seeded not in getattr(node.target, "tags", ()):
            key = (node.target, str(fx.node.map_arg((node.args, node.kwargs), lambda operand: f"%{numbers[operand]}")))
        numbers[node] = keys.setdefault(key, len(keys))
    return numbers
