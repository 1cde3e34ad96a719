"""Elements that operations write besides their results: a transposed operand of a product is laid out anew before it is read, and a
product of what does not lie in rows is written before a bias is added."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import fx
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from hnfc.precision.cast_insertion import is_repetition

_COPIES = (torch.ops.aten.clone.default, torch.ops.aten.copy_.default)


def copied_elements(graph: fx.GraphModule, arguments: Sequence[torch.Tensor]) -> Mapping[int, int]:
    """By the places of nodes the elements of their results, and of views of these, that are copied when the graph runs, and the elements
    that they write on the way to their results."""
    with torch.no_grad(), _Writes() as seen:
        _Owning(graph, seen).run(*arguments)
    return dict(seen.elements)


class _Writes(TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.elements: Counter[int] = Counter()
        self.owners: dict[int, int] = {}
        """Places of nodes by the storages that they made."""
        self.written = 0
        """Elements of numbers that operations other than copies wrote."""

    def __torch_dispatch__(self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        if function in _COPIES:
            source = args[-1] if function is _COPIES[1] else args[0]
            if (owner := self.owners.get(_storage(source))) is not None:
                self.elements[owner] += source.numel()
            return function(*args, **(kwargs or {}))
        result = function(*args, **(kwargs or {}))
        given = {_storage(t) for t in pytree.tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)}
        self.written += _elements(result, given)
        return result


class _Owning(fx.Interpreter):
    """A run in which each storage is known by the node that made it; copies that casts leave out are left out."""

    def __init__(self, graph: fx.GraphModule, seen: _Writes) -> None:
        super().__init__(graph)
        self.seen = seen
        self.places = {node: place for place, node in enumerate(graph.graph.nodes)}

    def run_node(self, n: fx.Node) -> Any:
        if is_repetition(n):
            return self.env[n.args[0]]  # type: ignore[index]
        before = self.seen.written
        result = super().run_node(n)
        given = {_storage(t) for source in n.all_input_nodes for t in pytree.tree_leaves(self.env[source]) if isinstance(t, torch.Tensor)}
        self.seen.elements[self.places[n]] += max(self.seen.written - before - _elements(result, given), 0)
        for tensor in pytree.tree_leaves(result):
            if isinstance(tensor, torch.Tensor) and n.op != "output" and _storage(tensor) not in given:
                self.seen.owners[_storage(tensor)] = self.places[n]
        return result


def _elements(result: Any, given: set[int]) -> int:
    """Floating-point numbers that a result has in memory of its own."""
    tensors = (t for t in pytree.tree_leaves(result) if isinstance(t, torch.Tensor) and t.is_floating_point())
    return sum(t.numel() for t in tensors if _storage(t) not in given)


def _storage(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)
