"""Nodes of a graph by the names of their operations, and those that only compute sizes."""

from __future__ import annotations

import operator

import torch
from torch import fx

_NUMBERS = (torch.IntType, torch.FloatType, torch.BoolType, torch.NumberType)
"""Types of results of operations that are numbers of Python."""


def names_of(graph: fx.GraphModule) -> tuple[str, ...]:
    return tuple(map(name_of, graph.graph.nodes))


def name_of(node: fx.Node) -> str:
    return str(node.target) if node.op == "call_function" else node.op


def is_size(node: fx.Node) -> bool:
    """Return whether it computes a number, as the size of a tensor or from sizes, which a graph with open sizes does."""
    if node.op != "call_function":
        return False
    schema = getattr(node.target, "_schema", None)
    if schema is not None:
        return all(isinstance(result.type, _NUMBERS) for result in schema.returns)
    return node.target is not operator.getitem and bool(node.all_input_nodes) and all(map(is_size, node.all_input_nodes))


def is_made_in(node: fx.Node, dtype: torch.dtype) -> bool:
    """Return whether the node makes zeros or ones, which every type has: then it makes them in this one, without a cast."""
    if node.target not in (torch.ops.aten.zeros.default, torch.ops.aten.ones.default):
        return False
    node.kwargs = {**node.kwargs, "dtype": dtype}
    return True
