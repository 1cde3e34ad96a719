"""Findings of `PrecisionOptimizer.analyze_training` for a step of training, and the gradients that are finite."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from functools import partial

import torch
from torch import fx
from torch.func import functional_call
from torch.utils import _pytree as pytree

from hnfc.analysis.outputs import Outputs
from hnfc.backend.fx import raise_function
from hnfc.core.errors import ModelError, UsageError
from hnfc.formats.scaled import largest
from hnfc.frontend.pytorch import Captured
from hnfc.frontend.signature import FixedResult, Given, Gradient, Returned, State, tensor_of
from hnfc.frontend.training import capture_training, names_of_results
from hnfc.pipeline.rulesets import load_rules
from hnfc.precision.analyzed import PrecisionAnalysis
from hnfc.precision.cast_insertion import Casts, casts_of, is_narrow, without_narrow_casts
from hnfc.precision.values import PrecisionSite, PrecisionSites
from hnfc.pytorch.losses import Loss, with_loss
from hnfc.pytorch.optimized import Arguments, arguments_of, wrapped
from hnfc.pytorch.settings import Settings
from hnfc.pytorch.steps import Edit, Steps, TrainingStep, untied

_NOISE = 0.1
"""A result that moves by more than this part of itself with the last bits of what it is computed from is rounding errors."""
_WHOLE = 2048
"""float16 has all whole numbers up to this."""
_SAME = 1e-2
"""Tolerance for gradients of two computations in float32,"""
_NOISES = 10
"""besides so many times what one rounding of all that is given does to them."""


@dataclass(repr=False)
class TrainingAnalysis(PrecisionAnalysis):
    """The outcome on a step of training. `sites` has those of the backward pass too, by names that start with "gradient"."""

    loss: Loss | None = None
    undetermined: tuple[str, ...] = ()
    """The results that are 0, or nothing but rounding errors in the reference, as is the gradient of a bias before a normalization: they
    have no target, and must be finite."""

    def casts(self) -> Casts:
        return self._casts(self._step())

    def _step(self) -> TrainingStep:
        """In the formats that the model has."""
        args, kwargs = arguments_of(self.sample)
        return TrainingStep.of(with_loss(self.model, self.loss), args, kwargs, Settings(load_rules(self.group)), self._first())

    def _first(self) -> Edit:
        return partial(without_narrow_casts, wide=self.wide)

    def _casts(self, step: TrainingStep) -> Casts:
        return casts_of(self._found(), self.sites, step.graph, self.dtypes, self.wide)

    def apply(self, train: bool = True) -> torch.nn.Module:
        """A module of the same class on the same parameters that takes a sample and returns the loss, whose `backward` gives parameters
        the gradients in mixed precision. Gradients are computed with the loss and kept until then.

        A call on other shapes makes a graph of its own; one that makes the model take another path raises UsageError. train: a step has
        to keep the parameters as they are, for an optimizer to change; raises UsageError for False.
        """
        if not train:
            raise UsageError("a step of training changes its parameters: apply() keeps them as they are; analyze() gives a model to run")
        step = self._step()
        casts = self._casts(step)
        steps = Steps(self.loss, Settings(load_rules(self.group), edit=casts), self._first())
        steps.add(self.model, *arguments_of(self.sample), step.edited(casts))
        return self._taking_narrow(wrapped(self.model, steps, same_call=False))

    def loss_scale(self, form: str = "fp16") -> float:
        """The power of two to multiply the loss by so that as few gradients as can be vanish in a format and none overflows, with the
        headroom that was requested: what `torch.amp.GradScaler` may start with. Below 1 where gradients are too large as they are."""
        reached = max((site.magnitude for site in growing(self.sites)), default=0.0)
        return 2.0 ** math.floor(math.log2(largest(form) / (self.requirements.headroom * reached))) if reached else 1.0


def growing(sites: PrecisionSites) -> list[PrecisionSite]:
    """The sites that are multiplied by what the loss is multiplied by: those that are computed from the first of the backward pass, which
    is the derivative of the loss by itself. Others, like a deviation that is computed again, are not."""
    first = next((site.name for site in sites.sites if site.backward), None)
    feeds: dict[str, list[str]] = {}
    for source, user in sites.edges:
        feeds.setdefault(source, []).append(user)
    found = dict.fromkeys([] if first is None else [first])
    waiting = list(found)
    for name in waiting:
        new = [user for user in feeds.get(name, ()) if user not in found]
        found.update(dict.fromkeys(new))
        waiting += new
    return [site for site in sites.sites if site.name in found]


def captured_in(model: torch.nn.Module, call: Arguments, wide: torch.dtype) -> Captured:
    """The graph of a step without the casts to narrower formats than `wide` that the model makes itself. model: with its loss.

    Raises ModelError where it cannot be captured, and where its gradients are not those that torch computes without a graph.
    """
    args, kwargs = call = untied(model, call)
    captured = capture_training(model, args, kwargs)
    with torch.no_grad():
        given = captured.signature.gather(model, pytree.tree_leaves(call))
    graph = raise_function(captured.module)
    _check(model, captured, call, [t.detach() for t in graph(*given)], ResultNorms.of(graph, [given], _parameters(captured)))
    values = [node.meta.get("val") for node in captured.program.graph.nodes]
    if not any(isinstance(value, torch.Tensor) and is_narrow(value.dtype, wide) for value in values):
        return captured
    return capture_training(model, args, kwargs, partial(without_narrow_casts, wide=wide))


def required_outputs(captured: Captured, given: Sequence[Sequence[torch.Tensor]], apart: bool) -> tuple[Outputs, tuple[str, ...]]:
    """Requirements on the loss, the new values of buffers and the gradients, one by one where `apart`; and the names of those that are
    nothing but rounding errors. Raises ModelError where results are not finite, or no gradient is more than that."""
    norms = ResultNorms.of(raise_function(captured.module), given, _parameters(captured)).norms
    names = names_of_results(captured.signature)
    if lost := [names[place] for place, norm in norms.items() if math.isnan(norm)]:
        raise ModelError(f"not finite on the samples, before any rounding: {', '.join(lost[:3])}{' and others' if len(lost) > 3 else ''}")
    if not any(norm < math.inf for place, norm in norms.items() if names[place].startswith("gradient")):
        raise ModelError("on the samples all gradients are 0, or nothing but rounding errors")
    determined = tuple(place for place, norm in norms.items() if norm < math.inf)
    outputs = Outputs(determined if apart else (), {index: names[place] for index, place in enumerate(determined)} if apart else {}, norms)
    return outputs, tuple(names[place] for place in norms if place not in determined)


@dataclass(frozen=True)
class ResultNorms:
    """By the places of results of floating-point numbers the root mean square over samples of their Euclidean norm, and of how far they
    move where every number that is given moves to the next one, other than whole numbers that every format has."""

    norm: Mapping[int, float]
    noise: Mapping[int, float]

    @staticmethod
    def of(graph: fx.GraphModule, given: Sequence[Sequence[torch.Tensor]], parameters: Set[int]) -> ResultNorms:
        """parameters: the places of those among the arguments, which move also where they are whole numbers."""
        squares: dict[int, float] = {}
        moved: dict[int, float] = {}
        generator = torch.Generator().manual_seed(0)
        with torch.no_grad():
            for tensors in given:
                moving = (i in parameters or not _is_whole(t) for i, t in enumerate(tensors))
                near = graph(*(_near(t, generator) if moves else t for t, moves in zip(tensors, moving, strict=True)))
                for place, (true, other) in enumerate(zip(graph(*tensors), near, strict=True)):
                    if isinstance(true, torch.Tensor) and true.is_floating_point():
                        squares[place] = squares.get(place, 0.0) + _square(true) / len(given)
                        moved[place] = moved.get(place, 0.0) + _square(other - true) / len(given)
        roots = ({place: math.sqrt(square) for place, square in found.items()} for found in (squares, moved))
        return ResultNorms(*roots)

    @property
    def norms(self) -> dict[int, float]:
        """NaN for what is not finite, and infinite for what is 0 or is decided by the last bits of what is given."""
        return {place: self._determined(norm, self.noise[place]) for place, norm in self.norm.items()}

    @staticmethod
    def _determined(norm: float, noise: float) -> float:
        if not math.isfinite(norm):
            return math.nan
        return norm if norm > 0 and noise <= _NOISE * norm else math.inf


def _parameters(captured: Captured) -> Set[int]:
    """The places of parameters among the arguments of the graph."""
    names = set(captured.program.graph_signature.parameters)
    arguments = enumerate(captured.signature.arguments)
    return {place for place, source in arguments if isinstance(source, State) and source.name in names}


def _is_whole(tensor: torch.Tensor) -> bool:
    """Return whether it has small integers only, as a mask of 0 and 1 does: formats have these as they are, and what is made of them, as
    1 - mask, is exact."""
    return not tensor.is_floating_point() or bool(((tensor == tensor.round()) & (tensor.abs() <= _WHOLE)).all())


def _near(tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Numbers next to those of the tensor; the largest of all stay."""
    if not tensor.is_floating_point():
        return tensor
    signs = (torch.randint(0, 2, tensor.shape, generator=generator) * 2 - 1).to(tensor.dtype).to(tensor.device)
    moved = tensor * (1 + torch.finfo(tensor.dtype).eps * signs)
    return torch.where(moved.isinf(), tensor, moved)


def _square(tensor: torch.Tensor) -> float:
    return float(tensor.double().square().sum())


def _check(model: torch.nn.Module, captured: Captured, call: Arguments, results: Sequence[torch.Tensor], sizes: ResultNorms) -> None:
    """Compares with what torch computes without a graph: hooks and functions with gradients of their own are not captured."""
    inputs, structure = pytree.tree_flatten(call)
    inputs = [x.detach().clone().requires_grad_(x.requires_grad) if isinstance(x, torch.Tensor) else x for x in inputs]
    args, kwargs = pytree.tree_unflatten(inputs, structure)
    wanted = {State(name): p for name, p in model.named_parameters() if p.requires_grad}
    sinks = [sink for sink in captured.signature.results if not isinstance(sink, FixedResult)]
    reached = {sink.of: place for place, sink in enumerate(sinks) if isinstance(sink, Gradient)}
    everything = wanted | {of: inputs[of.index] if isinstance(of, Given) else tensor_of(model, of.name) for of in reached}
    with torch.enable_grad():
        found = functional_call(model, {name: b.clone() for name, b in model.named_buffers()}, args, kwargs)
        loss = next(x for x in pytree.tree_leaves(found) if isinstance(x, torch.Tensor))
        gradients = torch.autograd.grad(loss, list(everything.values()), allow_unused=True)
    pairs: list[tuple[str, torch.Tensor, int | None]] = [
        ("loss", loss, next(place for place, sink in enumerate(sinks) if isinstance(sink, Returned)))
    ]
    pairs += [(f"gradient of {of.name}", g, reached.get(of)) for of, g in zip(everything, gradients, strict=True) if g is not None]
    for name, true, place in pairs:
        # what the graph has no gradient of is 0 there
        other = torch.zeros_like(true) if place is None else results[place]
        norm = math.sqrt(_square(true.detach())) if place is None else sizes.norms[place]
        noise = 0.0 if place is None else sizes.noise[place]
        if norm < math.inf and math.sqrt(_square(true.detach() - other)) > _SAME * norm + _NOISES * noise:
            raise ModelError(
                f"the {name} that the captured graph computes is not that of the model: a hook, or a torch.autograd.Function with a "
                "derivative of its own, changes it, and torch.export does not carry these"
            )
