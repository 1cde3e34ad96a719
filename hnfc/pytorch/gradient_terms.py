"""The terms that a gradient is the sum of: one for each use of the argument."""

from __future__ import annotations

import torch
from torch import fx


def with_separate_uses(graph: fx.GraphModule, index: int) -> tuple[fx.GraphModule, int]:
    """The graph with an argument more, behind the others, for each use of one argument, and how many these are."""
    copied = fx.Graph()
    copied.output(copied.graph_copy(graph.graph, {}))
    arguments = [node for node in copied.nodes if node.op == "placeholder"]
    argument, last = arguments[index], arguments[-1]
    uses = list(argument.users)
    for count, user in enumerate(uses):
        with copied.inserting_after(last):
            last = copied.placeholder(f"{argument.name}_in_use_{count}")
        user.replace_input_with(argument, last)
    root = torch.nn.Module()
    for name, buffer in graph.named_buffers():
        root.register_buffer(name, buffer, persistent=False)
    return fx.GraphModule(root, copied), len(uses)
