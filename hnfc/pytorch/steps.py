"""The module that trains in mixed precision: its result is the loss, and `backward` puts the gradients of its graph into parameters."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import torch
from torch import fx
from torch.utils import _pytree as pytree

from hnfc.backend.fx import raise_function
from hnfc.core.errors import UsageError
from hnfc.frontend.signature import Gradient, Signature
from hnfc.frontend.training import capture_training
from hnfc.pytorch.losses import Loss, with_loss
from hnfc.pytorch.optimized import MOST_PROGRAMS, Arguments, plain
from hnfc.pytorch.program import ArgumentKind, modes_of
from hnfc.pytorch.rewriting import rewrite_values
from hnfc.pytorch.settings import Settings

Key: TypeAlias = tuple[Any, ...]
Edit: TypeAlias = Callable[[fx.GraphModule], None]


@dataclass
class TrainingStep:
    """A graph of a loss and its gradients. forward: its signature without gradients, which come last. places: of the arguments that have
    a gradient."""

    graph: fx.GraphModule
    forward: Signature
    places: tuple[int, ...]
    output_structure: pytree.TreeSpec
    forward_graph: fx.GraphModule

    @staticmethod
    def of(
        model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], settings: Settings, first: Edit | None = None
    ) -> TrainingStep:
        """model: its result is the loss. first: what is changed in its graph before gradients are taken. Raises ModelError where gradients
        cannot be captured."""
        args, kwargs = untied(model, (args, kwargs))
        captured = capture_training(model, args, kwargs, first)
        graph = raise_function(rewrite_values(model, captured, args, kwargs, settings).export())
        results = captured.signature.results
        arguments = captured.signature.arguments
        places = tuple(arguments.index(sink.of) for sink in results if isinstance(sink, Gradient))
        forward = Signature(arguments, tuple(sink for sink in results if not isinstance(sink, Gradient)))
        step = TrainingStep(graph, forward, places, captured.output_structure, _first_results(graph, len(places)))
        return step if settings.edit is None else step.edited(settings.edit)

    def edited(self, edit: Callable[[fx.GraphModule], fx.GraphModule]) -> TrainingStep:
        """The same with a change of the graph."""
        graph = edit(self.graph)
        return replace(self, graph=graph, forward_graph=_first_results(graph, len(self.places)))

    def run(self, module: Any, inputs: Sequence[Any]) -> Any:
        tensors = self.forward.gather(module, inputs)
        if torch.is_grad_enabled():
            results = _StepFunction.apply(self, *tensors)  # type: ignore[no-untyped-call]
        else:
            results = self.forward_graph(*tensors)
        return pytree.tree_unflatten(self.forward.scatter(module, inputs, results), self.output_structure)


def untied(model: torch.nn.Module, call: Arguments) -> Arguments:
    """The call with a copy where a tensor with a gradient is given again, or is a parameter: a graph that adds the two gradients up is
    wrong for tensors that are two. Autograd adds them up where they are one."""
    inputs, structure = pytree.tree_flatten(call)
    seen = {id(p) for p in model.parameters()}
    for place, x in enumerate(inputs):
        if isinstance(x, torch.Tensor) and x.requires_grad:
            inputs[place] = x.detach().clone().requires_grad_() if id(x) in seen else x
            seen.add(id(x))
    args, kwargs = pytree.tree_unflatten(inputs, structure)
    return args, kwargs


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


class _StepFunction(torch.autograd.Function):
    """Computes gradients together with the loss, and gives them to autograd on demand."""

    @staticmethod
    def forward(ctx: Any, step: TrainingStep, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        results = tuple(step.graph(*tensors))
        kept = len(results) - len(step.places)
        ctx.save_for_backward(*results[kept:])
        ctx.places, ctx.arguments = step.places, len(tensors)
        loss = kept - 1
        ctx.mark_non_differentiable(*results[:loss])
        ctx.set_materialize_grads(False)
        return results[:kept]

    @staticmethod
    def backward(ctx: Any, *given: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
        if torch.is_grad_enabled():
            raise UsageError(
                "create_graph=True asks for gradients that can be derived again, and those of a step in mixed precision are numbers: "
                "compute what needs second derivatives, such as a gradient penalty, with the original model"
            )
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
    known: dict[Key, TrainingStep] = field(default_factory=dict)
    sample: dict[str, bool] = field(default_factory=dict)
    """Of what the sample had, whether it required a gradient."""
    warned: bool = False

    def __call__(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        key = self._key(module, args, kwargs)
        if key not in self.known:
            if len(self.known) >= MOST_PROGRAMS:
                return self._original(module, args, kwargs)
            self.known[key] = self._new(module, args, kwargs)
        return self.known[key].run(module, pytree.tree_leaves((args, kwargs)))

    def add(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any], step: TrainingStep) -> None:
        """The answer to calls like this one, which is the sample."""
        self.known[self._key(module, args, kwargs)] = step
        self.sample = _trained(module, (args, kwargs))

    def _key(self, module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Key:
        inputs, structure = pytree.tree_flatten((args, kwargs))
        shapes = tuple((tuple(x.shape), x.requires_grad) if isinstance(x, torch.Tensor) else None for x in inputs)
        return _state(module), structure, tuple(map(ArgumentKind.of, inputs)), shapes, modes_of(module)

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def _new(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> TrainingStep:
        """Raises UsageError where the call makes the model take another path than that of the sample."""
        model = with_loss(plain(module), self.loss)
        try:
            with torch.enable_grad():
                return TrainingStep.of(model, args, kwargs, self.settings, self.first)
        except UsageError as error:
            if changed := self._changed(_trained(module, (args, kwargs))):
                raise UsageError(f"{error}. Unlike with the sample, {changed}") from error
            raise

    def _changed(self, now: dict[str, bool]) -> str:
        """Tensors that require a gradient now and did not, or the other way round."""
        differing = {name: required for name, required in now.items() if required != self.sample.get(name, required)}
        by = {required: [name for name, other in differing.items() if other == required] for required in (False, True)}
        verbs = {False: "no gradient is required of", True: "a gradient is required of"}
        return ", and ".join(f"{verbs[required]} {_listed(names)}" for required, names in by.items() if names)

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def _original(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not self.warned:
            self.warned = True
            reason = f"more than {MOST_PROGRAMS} kinds of calls came; give batches of the same shapes, such as padded ones"
            warnings.warn(f"hnfc: this call runs the original model, not in mixed precision: {reason}", stacklevel=4)
        return with_loss(plain(module), self.loss).forward(*args, **kwargs)

    def guard(self, module: Any) -> None:
        """Nothing that rests on attributes."""

    def forget_others(self, module: Any) -> None:
        """Drops graphs for tensors of another type or in another place than the module's."""
        self.known = {key: step for key, step in self.known.items() if key[0] == _state(module)}


def _state(module: torch.nn.Module) -> Key:
    return tuple((t.dtype, t.device, t.requires_grad) for t in (*module.parameters(), *module.buffers()))


def _trained(module: torch.nn.Module, call: Arguments) -> dict[str, bool]:
    """Of the parameters and of what is given, whether it requires a gradient."""
    found = {name: p.requires_grad for name, p in module.named_parameters()}
    given = enumerate(pytree.tree_leaves(call))
    return found | {f"argument {place}": x.requires_grad for place, x in given if isinstance(x, torch.Tensor)}


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
