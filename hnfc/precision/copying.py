"""Elements that operations read, and those that they write besides their results: a transposed operand of a product is laid out anew
before it is read, and a product of what does not lie in rows is written before a bias is added."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import fx
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from hnfc.precision.cast_insertion import is_repetition
from hnfc.precision.policy import SemanticDType
from hnfc.precision.running import layout_of
from hnfc.precision.values import PrecisionSites

_COPIES = (torch.ops.aten.clone.default, torch.ops.aten.copy_.default)


def with_traffic(sites: PrecisionSites, graph: fx.GraphModule, arguments: Sequence[torch.Tensor]) -> PrecisionSites:
    """The sites with what operations read of each, and copy, when the graph runs."""
    parameters = {place for site in sites.sites if site.role is SemanticDType.PARAM for place in site.nodes}
    # a product is another operation where a gradient of its matrix may be wanted
    given = [t.detach().requires_grad_(place in parameters and t.is_floating_point()) for place, t in enumerate(arguments)]
    with torch.no_grad(), _Writes() as seen:
        _Owning(graph, seen).run(*given)
    nodes = list(graph.graph.nodes)
    places = {node: place for place, node in enumerate(nodes)}
    owner = {place: site for site in sites.sites for place in site.nodes}
    for place, node in enumerate(nodes):
        if node.target is _COPIES[0] and place not in owner and places[node.args[0]] in owner:
            owner[place] = owner[places[node.args[0]]]
    parts: Counter[tuple[str, str]] = Counter()
    reads: Counter[str] = Counter()
    for (made, reader), count in seen.read.items():
        site = owner.get(made)
        if site is None or not site.elements:
            continue
        reads[site.name] += count / site.elements
        parts_of = [user for user in nodes[reader].users if user.target is operator.getitem]
        into = next((owner[places[node]] for node in (nodes[reader], *parts_of) if places[node] in owner), None)
        if into is not None:
            parts[site.name, into.name] += count / site.elements
    copied = {site.name: sum(seen.elements[place] for place in site.nodes) for site in sites.sites}
    counted = tuple(replace(site, copied=copied[site.name], reads=reads[site.name]) for site in sites.sites)
    return replace(sites, sites=counted, parts={edge: parts[edge] for edge in sites.edges})


class _Writes(TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.elements: Counter[int] = Counter()
        self.owners: dict[int, int] = {}
        """Places of nodes by the storages that they made."""
        self.written = 0
        """Elements of numbers that operations other than copies wrote."""
        self.node = 0
        """Place of the node that runs."""
        self.read: Counter[tuple[int, int]] = Counter()
        """Elements by the node that made them, and the one that read them."""

    def __torch_dispatch__(self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        if function in _COPIES:
            source = args[-1] if function is _COPIES[1] else args[0]
            if (owner := self.owners.get(_storage(source))) is not None:
                self.elements[owner] += source.numel()
            return function(*args, **(kwargs or {}))
        result = function(*args, **(kwargs or {}))
        tensors = {layout_of(t): t for t in pytree.tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)}
        given = {_storage(t) for t in tensors.values()}
        written = _elements(result, given)
        self.written += written
        for tensor in pytree.tree_leaves(result):
            if isinstance(tensor, torch.Tensor) and _storage(tensor) not in given:
                # memory of something that is gone may be another's now
                self.owners.pop(_storage(tensor), None)
        # what is only viewed is not read
        for tensor in tensors.values() if written or function._schema.is_mutable else ():
            if (owner := self.owners.get(_storage(tensor))) is not None and tensor.is_floating_point():
                self.read[owner, self.node] += tensor.numel()
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
        before, self.seen.node = self.seen.written, self.places[n]
        result = super().run_node(n)
        given = {_storage(t) for source in n.all_input_nodes for t in pytree.tree_leaves(self.env[source]) if isinstance(t, torch.Tensor)}
        self.seen.elements[self.places[n]] += max(self.seen.written - before - _elements(result, given), 0)
        for tensor in pytree.tree_leaves(result):
            is_new = isinstance(tensor, torch.Tensor) and (_storage(tensor) not in given or n.target is operator.getitem)
            if n.op != "output" and is_new:
                self.seen.owners[_storage(tensor)] = self.places[n]
        return result


def _elements(result: Any, given: set[int]) -> int:
    """Floating-point numbers that a result has in memory of its own."""
    tensors = (t for t in pytree.tree_leaves(result) if isinstance(t, torch.Tensor) and t.is_floating_point())
    return sum(t.numel() for t in tensors if _storage(t) not in given)


def _storage(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)
