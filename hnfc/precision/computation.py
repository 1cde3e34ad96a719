"""The graph of a computation as the mathematics of sheaves takes it: nodes are what torch.fx calls them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import fx

from hnfc.sheaf.graph import Graph


@dataclass(frozen=True)
class ComputationGraph:
    """The nodes of a graph that compute or hold values, and which of them feeds which; `graph` is the undirected one of the sheaf."""

    graph: Graph
    feeds: tuple[tuple[str, str], ...]
    facts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By node what `hnfc.annotate` wrote onto it."""

    @staticmethod
    def from_fx(module: fx.GraphModule | fx.Graph) -> ComputationGraph:
        """Nodes by their names in the order of the graph, without its output."""
        graph = module.graph if isinstance(module, fx.GraphModule) else module
        nodes = [node for node in graph.nodes if node.op != "output"]
        feeds = dict.fromkeys((source.name, node.name) for node in nodes for source in node.all_input_nodes)
        facts = {node.name: node.meta["hnfc"] for node in nodes if "hnfc" in node.meta}
        return ComputationGraph(Graph(tuple(node.name for node in nodes), tuple(feeds)), tuple(feeds), facts)

    def inputs_of(self, node: str) -> tuple[str, ...]:
        """Inputs of it."""
        return tuple(source for source, target in self.feeds if target == node)
