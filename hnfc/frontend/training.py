"""A model and its gradients as one graph: what a step of training computes, from the inputs to the gradients of the loss.

torch's autograd runs on the graph that torch.export gives, and what it does is traced. An operation of the backward pass is put in the
place and the module of the one whose gradient it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import fx
from torch._decomp import core_aten_decompositions, get_decompositions
from torch.func import functionalize
from torch.fx import traceback
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils import _pytree as pytree

from hnfc.core.errors import ModelError
from hnfc.frontend.pytorch import BACKWARD, Captured, arguments_of, export, first_line, import_graph, module_path, results_of, source_of
from hnfc.frontend.signature import Gradient, Mutation, Returned, Signature, Sink, TensorConstant

aten = torch.ops.aten
_TAKEN_APART = [
    aten.native_layer_norm, aten.native_group_norm, aten.native_batch_norm, aten._native_batch_norm_legit,
    aten._native_batch_norm_legit_functional, aten._native_batch_norm_legit_no_training, aten._fused_rms_norm,
]  # fmt: skip
"""Operations that also give a mean or a deviation, on which gradients depend and of which torch has no derivative."""


def capture_training(
    model: torch.nn.Module,
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None = None,
    edit: Callable[[fx.GraphModule], None] | None = None,
) -> Captured:
    """Graph of the model, whose result is a scalar loss, and of its gradients on inputs like these. edit: the change of the graph of the
    model before its gradients are taken, its nodes staying in their places.

    The results are those of the model, then the gradients of all parameters that require one and that the loss depends on, and of inputs
    that do. Raises ModelError where torch cannot follow the model or its gradients, where the result is not one scalar, where nothing is
    to be trained, and where random numbers are drawn: no two runs would have the same gradients.
    """
    program = export(model, args, kwargs, None)
    if edit is not None:
        edit(program.graph_module)
    sources, sinks = arguments_of(program), results_of(program)
    loss = _place_of_loss(program.graph, sinks)
    signature = Signature(tuple(sources), tuple(sinks))
    values = signature.gather(model, pytree.tree_leaves((tuple(args), dict(kwargs or {}))))
    trained = [value.requires_grad and not isinstance(source, TensorConstant) for source, value in zip(sources, values, strict=True)]
    if not any(trained):
        raise ModelError(f"no parameter of {type(model).__name__} requires a gradient: there is nothing to train")
    joint = _Joint(program.graph_module, loss, trained, [next(i for i, other in enumerate(values) if other is v) for v in values])
    try:
        graph = _traced(joint, [value.detach() for value in values])
    except ModelError:
        raise
    except Exception as error:  # whatever torch has no gradient of comes through here
        raise ModelError(f"torch cannot follow the gradients of {type(model).__name__}: {first_line(error)}") from error
    gradients = [Gradient(source) for place in joint.reached if not isinstance(source := sources[place], TensorConstant)]
    structure, outputs = program.call_spec.in_spec, program.call_spec.out_spec
    assert structure is not None and outputs is not None
    return Captured(import_graph(graph), Signature(tuple(sources), (*sinks, *gradients)), program, structure, outputs)


def names_of_results(signature: Signature) -> tuple[str, ...]:
    """Name of each result of the graph for the reader."""
    return tuple(_name(sink) for sink in signature.results if isinstance(sink, Mutation | Returned | Gradient))


def _name(sink: Sink) -> str:
    if isinstance(sink, Gradient):
        return f"gradient of {sink.of.name}"
    return f"new {sink.target.name}" if isinstance(sink, Mutation) else "loss"


def _place_of_loss(graph: fx.Graph, sinks: Sequence[Sink]) -> int:
    """Among the results of the graph."""
    found = [sink for sink in sinks if isinstance(sink, Mutation | Returned)]
    places = [place for place, sink in enumerate(found) if isinstance(sink, Returned)]
    if len(places) != 1:
        raise ModelError(f"training needs one result, a scalar loss, and the model has {len(places)}; `loss` may compute it from them")
    value = graph.output_node().args[0][places[0]].meta["val"]  # type: ignore[union-attr,index]
    if not isinstance(value, torch.Tensor) or value.numel() != 1 or not value.is_floating_point():
        what = f"a tensor of shape {tuple(value.shape)} of {value.dtype}" if isinstance(value, torch.Tensor) else "a number"
        raise ModelError(f"training needs a scalar loss, and the result is {what}; `loss` may compute a scalar from it")
    return places[0]


class _Joint(fx.Interpreter):
    """The graph of a model as a function that returns gradients too. While it is traced, nodes are given the place, the module and the
    direction of what they belong to. same: for each argument the first one that is the same tensor, which has the gradient of both.
    reached: after that, the places of arguments that have a gradient."""

    def __init__(self, module: fx.GraphModule, loss: int, trained: Sequence[bool], same: Sequence[int]) -> None:
        super().__init__(module)
        self.loss, self.trained, self.same = loss, trained, same
        self.reached: list[int] = []

    def __call__(self, *given: torch.Tensor) -> tuple[torch.Tensor, ...]:
        self.known: set[Any] = set()
        with torch.enable_grad():
            leaves = [x.detach().requires_grad_(trained) for x, trained in zip(given, self.trained, strict=True)]
            results = self.run(*(leaves[place] for place in self.same))
            loss = results[self.loss]
            if not loss.requires_grad:
                raise ModelError("the loss depends on no parameter that requires a gradient")
            traceback.current_meta = {BACKWARD: True}
            wanted = [place for place, trained in enumerate(self.trained) if trained and self.same[place] == place]
            with torch.autograd.set_multithreading_enabled(False):  # elsewhere nothing is traced
                gradients = torch.autograd.grad(loss, [leaves[place] for place in wanted], allow_unused=True)
        self.reached = [place for place, gradient in zip(wanted, gradients, strict=True) if gradient is not None]
        return (*results, *(gradient for gradient in gradients if gradient is not None))

    def run_node(self, n: fx.Node) -> Any:
        result = super().run_node(n)
        for value in pytree.tree_leaves(result):
            if isinstance(value, torch.Tensor) and value.grad_fn is not None:
                self._belongs(value.grad_fn, n)
        return result

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        # the kernel of attention that is traced gives another order of strides than the one that was exported
        return super().call_function(aten.reshape.default if target is aten.view.default else target, args, kwargs)

    def _belongs(self, function: Any, node: fx.Node) -> None:
        """Notes that the gradients of a node are what autograd computes with a function, and with those behind it that are new."""
        meta = {key: node.meta[key] for key in ("nn_module_stack", "stack_trace") if key in node.meta} | {BACKWARD: True}

        def before(_: Any) -> None:
            # stays until the next function runs: where gradients meet, their sum belongs to the one that came last
            traceback.current_meta = dict(meta)

        waiting = [function]
        while waiting:
            new = waiting.pop()
            if new is not None and new not in self.known:
                self.known.add(new)
                new.register_prehook(before)
                waiting += [behind for behind, _ in new.next_functions]


def _traced(joint: _Joint, values: Sequence[torch.Tensor]) -> fx.Graph:
    """The graph without side effects, of operations that torch can derive: the effect of roundings on gradients is derived from it."""
    # kernels of oneDNN and of attention keep what they need for gradients in forms of their own
    with traceback.preserve_node_meta(), sdpa_kernel(SDPBackend.MATH), torch.backends.mkldnn.flags(enabled=False, allow_tf32=None):
        first = make_fx(joint, tracing_mode="fake")(*values)
    for node in list(first.graph.nodes):
        if torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()):
            _refuse_random(node)
        if node.target is aten.detach.default:
            # what autograd keeps and what a model detaches still moves gradients
            node.replace_all_uses_with(node.args[0])
            first.graph.erase_node(node)
    table = {**core_aten_decompositions(), **get_decompositions(_TAKEN_APART)}
    with traceback.preserve_node_meta(), torch.no_grad():
        second = make_fx(functionalize(fx.Interpreter(first).run), tracing_mode="fake", decomposition_table=table)(*values)
    second.graph.eliminate_dead_code()
    return second.graph


def _refuse_random(node: fx.Node) -> None:
    path = module_path(node)
    who, how = (
        (f"`{path}`", f"put it in evaluation mode, model.{path}.eval()") if path else ("the model", "do without, as in evaluation mode")
    )
    what = str(node.target).removeprefix("aten.").partition(".")[0]
    raise ModelError(f"{who} draws random numbers ({what}), so that no two runs have the same gradients: {how}", *(source_of(node) or ()))
