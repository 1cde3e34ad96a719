"""The graph that holds the results of a model and its gradients together, rewritten as a whole."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx
from torch._decomp import get_decompositions
from torch._functorch._aot_autograd.utils import make_boxed_func
from torch._functorch.aot_autograd import aot_function
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch._guards import detect_fake_mode
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.fx.passes.fake_tensor_prop import FakeTensorProp

from hnfc.backend.fx import raise_function
from hnfc.backend.gradients import ignore_unused
from hnfc.core.errors import ModelError
from hnfc.frontend.pytorch import import_graph
from hnfc.pipeline.compile import compile_module
from hnfc.pipeline.request import Request
from hnfc.pytorch.settings import Settings

aten = torch.ops.aten
_BACKWARD = get_decompositions(
    [
        aten.tanh_backward, aten.sigmoid_backward, aten.softplus_backward, aten.log_sigmoid_backward, aten.logit_backward,
        aten._softmax_backward_data, aten._log_softmax_backward_data, aten.threshold_backward, aten.silu_backward, aten.elu_backward,
    ]
)  # fmt: skip
"""Derivatives that torch has as one operation each, in the operations that rules are written in."""


def with_rewritten_gradients(graph: fx.GraphModule, settings: Settings) -> Callable[..., Any]:
    """`graph` for arguments of one shape, with the rules applied to the graph of its results and gradients together.

    Torch's partitioner then says what of it runs forward and what backward.
    """

    def partition(joint: fx.GraphModule, inputs: Sequence[Any], **options: Any) -> tuple[fx.GraphModule, fx.GraphModule]:
        try:
            joint = _rewritten(joint, settings)
        except ModelError as error:
            warnings.warn(f"hnfc: the gradients of a graph stay as they are: {error}", stacklevel=2)
        return min_cut_rematerialization_partition(joint, inputs, **options)

    whole, constants = _with_constants_as_arguments(graph)
    if len(whole.graph.output_node().args[0]) > 1:  # type: ignore[arg-type]
        ignore_unused(whole.graph)
        whole.recompile()
    options: dict[str, Any] = {"fw_compiler": lambda part, _: make_boxed_func(part), "decompositions": _BACKWARD}
    made: Callable[..., Any] = aot_function(whole, partition_fn=partition, **options)
    return lambda *inputs: made(*inputs, *constants)


def _rewritten(joint: fx.GraphModule, settings: Settings) -> fx.GraphModule:
    """The graph with the rules of the settings applied, its arguments called as they were, its values with their types."""
    for node in [node for node in joint.graph.nodes if node.target is aten.detach.default]:
        # in a graph that holds the gradients already, nothing is differentiated any more
        node.replace_all_uses_with(node.args[0])
        joint.graph.erase_node(node)
    arguments = [node for node in joint.graph.nodes if node.op == "placeholder"]
    with unset_fake_temporarily():  # constants of the result are real tensors
        compiled = compile_module(import_graph(joint.graph), Request(phases=settings.rules.allowed(), assume=settings.assume))
        made = raise_function(compiled.export())
    for node, argument in zip((n for n in made.graph.nodes if n.op == "placeholder"), arguments, strict=True):
        node._rename(argument.name)
        node.target = argument.target
    made.recompile()
    values = [argument.meta["val"] for argument in arguments]
    _Types(made, detect_fake_mode(values)).propagate_dont_convert_inputs(*values)
    return made


class _Types(FakeTensorProp):
    """Gives every node its type; constants are real tensors, of which it takes the type only."""

    def get_attr(self, target: Any, args: Any, kwargs: Any) -> Any:
        return self._mode.from_tensor(super().get_attr(target, args, kwargs), static_shapes=True)


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
