"""The terms that a gradient is the sum of: one for each use of the argument."""

from __future__ import annotations

from torch import fx


def separate_uses(graph: fx.GraphModule, index: int) -> int:
    """Adds to a graph an argument, behind the others, for each use of one argument; returns how many these are."""
    arguments = [node for node in graph.graph.nodes if node.op == "placeholder"]
    argument, last = arguments[index], arguments[-1]
    uses = list(argument.users)
    for count, user in enumerate(uses):
        with graph.graph.inserting_after(last):
            last = graph.graph.placeholder(f"{argument.name}_in_use_{count}")
        user.replace_input_with(argument, last)
    graph.recompile()
    return len(uses)
