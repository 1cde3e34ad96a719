"""Storage of results: a rewritten graph returns tensors of their own wherever the original did.

A rule may leave an argument itself (x·1), one value for two results, or a number that is expanded; who writes to such a result in
place would change something else, or could not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import fx

aten = torch.ops.aten
_EXPANDING = {aten.expand.default, aten.broadcast_to.default, aten.expand_as.default}


class _Storage(NamedTuple):
    """The node whose storage a result has, and whether elements of it share a place."""

    root: Any
    expanded: bool


def separate_results(before: fx.Graph, after: fx.Graph, returned: Sequence[bool]) -> None:
    """Copies results of `after` that share storage where those of `before` do not.

    returned: of each result whether the model returns it, in place of storing it.
    """
    old, new = _storages(before), _storages(after)
    output = after.output_node()
    results = list(output.args[0])  # type: ignore[arg-type]
    for index, (first, second) in enumerate(zip(old, new, strict=True)):
        if not returned[index] or not isinstance(results[index], fx.Node):
            continue
        given = isinstance(second.root, int) and first.root != second.root
        doubled = any(new[other].root == second.root and old[other].root != first.root for other in range(index))
        if given or doubled or (second.expanded and not first.expanded):
            with after.inserting_before(output):
                results[index] = after.call_function(aten.clone.default, (results[index],))
    output.args = (tuple(results),)


def _storages(graph: fx.Graph) -> list[_Storage]:
    """The storage of each result; of an argument, its index is the root."""
    arguments = {node: index for index, node in enumerate(n for n in graph.nodes if n.op == "placeholder")}
    found = []
    for result in graph.output_node().args[0]:  # type: ignore[union-attr]
        node, expanded = result, False
        while isinstance(node, fx.Node) and _is_view(node.target):
            expanded |= node.target in _EXPANDING
            node = node.args[0]
        found.append(_Storage(arguments.get(node, node), expanded))
    return found


def _is_view(target: Any) -> bool:
    if not isinstance(target, torch._ops.OpOverload):
        return False
    returns = target._schema.returns
    return len(returns) == 1 and returns[0].alias_info is not None and not returns[0].alias_info.is_write
