"""One step of a model under `Run`: its results, the gradients of the sum of them, and the model as it was before."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch.utils import _pytree as pytree

from hnfc.tracing.events import Event
from hnfc.tracing.memory import WIDE, StorageState, is_float
from hnfc.tracing.run import Run
from hnfc.tracing.sources import inputs_of, not_finite_inputs
from hnfc.tracing.surroundings import kept, plain_kernels


@dataclass(frozen=True)
class Final:
    """A tensor that a step ends with. kind: `result` or `gradient`."""

    kind: str
    name: str
    given: torch.Tensor
    true: torch.Tensor
    state: StorageState

    @property
    def finite(self) -> bool:
        return bool(torch.isfinite(self.given).all())


@dataclass
class TracedStep:
    """End of a step, and its run. inputs: what is not finite in inputs, parameters and buffers."""

    finals: list[Final]
    run: Run
    inputs: list[Event] = field(default_factory=list)


def step_of(
    model: torch.nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any], backward: bool, call: Callable[..., Any] | None = None,
    scale: float = 1.0,
) -> TracedStep:  # fmt: skip
    """Runs the model, or another call in its stead, on copies of the inputs. Buffers, gradients and the state of random numbers are as
    before afterwards. scale: a factor of the loss, by which the gradients are divided again."""
    try:
        return _step_of(model, args, kwargs, backward, call or model, False, scale)
    except RuntimeError as error:
        if not backward or "checkpoint" not in str(error).lower() or ".grad()" not in str(error):
            raise
        return _step_of(model, args, kwargs, backward, call or model, True, scale)


def _step_of(
    model: torch.nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any], backward: bool, call: Callable[..., Any], accumulate: bool,
    scale: float,
) -> TracedStep:  # fmt: skip
    names = {id(part): path for path, part in model.named_modules()}
    run = Run(names, (_call.__code__, _differentiate.__code__))
    trained = [p for p in model.parameters() if p.requires_grad] if backward else []
    with warnings.catch_warnings(), plain_kernels(), kept(model), torch.random.fork_rng(devices=[]):
        given, leaves = inputs_of(args, kwargs, backward, bool(trained))
        inputs = not_finite_inputs(run, model, args, kwargs, given)
        with torch.set_grad_enabled(backward or torch.is_grad_enabled()):
            with run:
                output = _call(call, *given)
            results = {name: x for name, x in _named(output) if x.is_floating_point()}
            finals = [_final(run, "result", name, x) for name, x in results.items()]
            if backward:
                wanted = {**{n: p for n, p in model.named_parameters() if p.requires_grad}, **leaves}
                found = _gradients(run, _losses(output, results), list(wanted.values()), accumulate, scale)
                finals += [_unscaled(_final(run, "gradient", n, g), scale) for n, g in zip(wanted, found, strict=True) if g is not None]
        finals += [_final(run, "result", f"the new {n}", b.clone()) for n, b in _changed(run, model)]
    return TracedStep(finals, run, inputs)


def _call(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    return function(*args, **kwargs)


def _differentiate(
    losses: list[torch.Tensor], ones: list[torch.Tensor], wanted: list[torch.Tensor], accumulate: bool
) -> Sequence[torch.Tensor | None]:
    with torch.autograd.set_multithreading_enabled(False):  # other threads do not see the mode
        if not accumulate:
            return torch.autograd.grad(losses, wanted, ones, allow_unused=True)
        torch.autograd.backward(losses, ones)
        return [x.grad for x in wanted]


def _gradients(
    run: Run, losses: list[torch.Tensor], wanted: list[torch.Tensor], accumulate: bool, scale: float
) -> Sequence[torch.Tensor | None]:
    if not losses or not wanted:
        return [None] * len(wanted)
    kept: list[tuple[Any, Any, Any]] = [(x, x.grad, x._post_accumulate_grad_hooks) for x in wanted] if accumulate else []
    for x, _, _ in kept:
        x.grad, x._post_accumulate_grad_hooks = None, None
    ones = [torch.full_like(x, scale) for x in losses]
    for record in map(run.memory.made, ones):
        if record is not None:
            record.state = StorageState(backward=True)
    try:
        with run:
            return _differentiate(losses, ones, wanted, accumulate)
    finally:
        for x, gradient, hooks in kept:
            x.grad, x._post_accumulate_grad_hooks = gradient, hooks


def _losses(output: Any, results: Mapping[str, torch.Tensor]) -> list[torch.Tensor]:
    """Results to differentiate: the one that is called `loss`, where there is one, else all results."""
    loss = output.get("loss") if isinstance(output, Mapping) else None
    if isinstance(loss, torch.Tensor) and loss.requires_grad:
        return [loss]
    return [x for x in results.values() if x.requires_grad]


def _named(output: Any) -> Iterator[tuple[str, torch.Tensor]]:
    paths = pytree.tree_flatten_with_path(output)[0]
    for index, (path, value) in enumerate(paths):
        if isinstance(value, torch.Tensor):
            yield (f"result {pytree.keystr(path)}" if path else "the result") if len(paths) > 1 or path else "the result", value
        elif hasattr(value, "__dict__") and not isinstance(value, type):
            for name, part in vars(value).items():
                yield from ((f"result {index}.{name}", x) for x in pytree.tree_leaves(part) if isinstance(x, torch.Tensor))


def _final(run: Run, kind: str, name: str, tensor: torch.Tensor) -> Final:
    true = run.memory.true(tensor)
    record = run.memory.record(tensor)
    given = tensor.detach()
    return Final(
        kind, name, given.clone(), given.to(WIDE) if true is None else true.clone(), StorageState() if record is None else record.state
    )


def _unscaled(final: Final, scale: float) -> Final:
    """The gradient of the loss itself, in float32 at least."""
    if scale == 1:
        return final
    wide = torch.promote_types(final.given.dtype, torch.float32)
    return replace(final, given=final.given.to(wide) / scale, true=final.true / scale)


def _changed(run: Run, model: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    for name, buffer in model.named_buffers():
        if is_float(buffer) and run.memory.record(buffer) is not None and not bool(torch.isfinite(buffer).all()):
            yield f"buffer {name}", buffer
