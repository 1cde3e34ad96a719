"""The module that trains in mixed precision: its result is the loss, and `backward` puts the gradients of its graph into parameters."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import torch
from torch import fx
from torch.autograd.function import once_differentiable
from torch.utils import _pytree as pytree

from hnfc.backend.fx import raise_function
from hnfc.frontend.training import capture_training
from hnfc.modules.losses import Loss, with_loss
from hnfc.modules.optimized import plain
from hnfc.modules.program import Kind, modes_of, rewrite
from hnfc.modules.signature import Gradient, Signature
from hnfc.rewriter import Settings

Key: TypeAlias = tuple[Any, ...]
Edit: TypeAlias = Callable[[fx.GraphModule], None]


@dataclass
class Step:
    """A graph of a loss and its gradients. forward: its signature without gradients, which come last. places: of the arguments that have
    a gradient."""

    graph: fx.GraphModule
    forward: Signature
    places: tuple[int, ...]
    output_structure: pytree.TreeSpec
    forward_graph: fx.GraphModule

    @staticmethod
    def of(model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], settings: Settings, first: Edit | None = None) -> Step:
        """model: its result is the loss. first: what is changed in its graph before gradients are taken. Raises ModelError where gradients
        cannot be captured."""
        captured = capture_training(model, args, kwargs, first)
        graph = raise_function(rewrite(model, captured, args, kwargs, settings).export())
        results = captured.signature.results
        arguments = captured.signature.arguments
        places = tuple(arguments.index(sink.of) for sink in results if isinstance(sink, Gradient))
        forward = Signature(arguments, tuple(sink for sink in results if not isinstance(sink, Gradient)))
        step = Step(graph, forward, places, captured.output_structure, _first_results(graph, len(places)))
        return step if settings.edit is None else step.edited(settings.edit)

    def edited(self, edit: Callable[[fx.GraphModule], fx.GraphModule]) -> Step:
        """The same with a change of the graph."""
        graph = edit(self.graph)
        return replace(self, graph=graph, forward_graph=_first_results(graph, len(self.places)))

    def run(self, module: Any, inputs: Sequence[Any]) -> Any:
        tensors = self.forward.gather(module, inputs)
        if torch.is_grad_enabled():
            results = _Step.apply(self, *tensors)  # type: ignore[no-untyped-call]
        else:
            results = self.forward_graph(*tensors)
        return pytree.tree_unflatten(self.forward.scatter(module, inputs, results), self.output_structure)


def _first_results(graph: fx.GraphModule, omitted: int) -> fx.GraphModule:
    """The graph without its last results, and without what only they need."""
    part = fx.GraphModule(graph, copy.deepcopy(graph.graph))
    output = part.graph.output_node()
    (results,) = output.args
    assert isinstance(results, tuple | list)
    output.args = (tuple(results[: len(results) - omitted]),)
    part.graph.eliminate_dead_code()
    part.recompile()
    return part


class _Step(torch.autograd.Function):
    """Computes gradients together with the loss, and gives them to autograd when it asks."""

    @staticmethod
    def forward(ctx: Any, step: Step, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        results = tuple(step.graph(*tensors))
        kept = len(results) - len(step.places)
        ctx.save_for_backward(*results[kept:])
        ctx.places, ctx.arguments = step.places, len(tensors)
        loss = kept - 1
        ctx.mark_non_differentiable(*results[:loss])
        ctx.set_materialize_grads(False)
        return results[:kept]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *given: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
        found: list[torch.Tensor | None] = [None] * ctx.arguments
        if (scale := given[-1]) is not None:
            for place, gradient in zip(ctx.places, ctx.saved_tensors, strict=True):
                found[place] = gradient * scale
        return None, *found


@dataclass
class Steps:
    """Answers the calls of a training module, with a graph for each kind of call that came so far."""

    loss: Loss | None
    settings: Settings
    first: Edit | None = None
    known: dict[Key, Step] = field(default_factory=dict)

    def __call__(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        key = self._key(module, args, kwargs)
        if key not in self.known:
            self.known[key] = self._new(module, args, kwargs)
        return self.known[key].run(module, pytree.tree_leaves((args, kwargs)))

    def add(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any], step: Step) -> None:
        """The answer to calls like this one."""
        self.known[self._key(module, args, kwargs)] = step

    def _key(self, module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Key:
        inputs, structure = pytree.tree_flatten((args, kwargs))
        state = tuple((t.dtype, t.device, t.requires_grad) for t in (*module.parameters(), *module.buffers()))
        shapes = tuple((tuple(x.shape), x.requires_grad) if isinstance(x, torch.Tensor) else None for x in inputs)
        return structure, tuple(map(Kind.of, inputs)), shapes, state, modes_of(module)

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def _new(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Step:
        """Raises UsageError where the call makes the model take another path than that of the sample."""
        with torch.enable_grad():
            return Step.of(with_loss(plain(module), self.loss), args, kwargs, self.settings, self.first)

    def forget_others(self, module: Any) -> None:
        """Graphs are found again by the type and the place of the module's tensors."""
