"""Graphs of ATen operations that torch makes itself, rewritten: those of torch.compile, and those of gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx
from torch._decomp import get_decompositions
from torch._functorch.aot_autograd import aot_function
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch._subclasses.fake_tensor import unset_fake_temporarily

from hnfc.backend.fx import raise_function
from hnfc.compile import Request, compile_module
from hnfc.errors import ModelError
from hnfc.frontend.pytorch import import_graph
from hnfc.rewriter import Settings

aten = torch.ops.aten
_BACKWARD = get_decompositions(
    [
        aten.tanh_backward, aten.sigmoid_backward, aten.softplus_backward, aten.log_sigmoid_backward, aten.logit_backward,
        aten._softmax_backward_data, aten._log_softmax_backward_data, aten.threshold_backward, aten.silu_backward, aten.elu_backward,
    ]
)  # fmt: skip
"""Derivatives that torch has as one operation each, in the operations that rules are written in."""


def rewritten(graph: fx.GraphModule, settings: Settings) -> fx.GraphModule:
    """The graph with the rules of the settings applied. Its placeholders are its arguments; sizes among them stay what they are."""
    module = import_graph(graph.graph)
    compiled = compile_module(module, Request(phases=settings.rules.allowed(), assume=settings.assume))
    return raise_function(compiled.export())


def with_rewritten_gradients(graph: fx.GraphModule, settings: Settings) -> Callable[..., Any]:
    """`graph` for arguments of one shape, with the rules applied to what computes its gradients as well."""

    def compiler(part: fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        try:
            with unset_fake_temporarily():  # constants of the result are real tensors
                return rewritten(part, settings)
        except ModelError:
            return part

    whole, constants = _with_constants_as_arguments(graph)
    options: dict[str, Any] = {"fw_compiler": compiler, "bw_compiler": compiler, "decompositions": _BACKWARD}
    made: Callable[..., Any] = aot_function(whole, partition_fn=min_cut_rematerialization_partition, **options)
    return lambda *inputs: made(*inputs, *constants)


def _with_constants_as_arguments(graph: fx.GraphModule) -> tuple[fx.GraphModule, list[torch.Tensor]]:
    """The graph with its constants as further arguments, and these: torch differentiates functions of their arguments only."""
    copied = fx.Graph()
    values: dict[fx.Node, Any] = {}
    copied.output(copied.graph_copy(graph.graph, values))
    first = next(node for node in copied.nodes if node.op != "placeholder")
    constants = []
    for node in [node for node in copied.nodes if node.op == "get_attr"]:
        constants.append(graph.get_buffer(node.target))
        with copied.inserting_before(first):
            argument = copied.placeholder(node.target)
        node.replace_all_uses_with(argument)
        copied.erase_node(node)
    return fx.GraphModule(torch.nn.Module(), copied), constants
