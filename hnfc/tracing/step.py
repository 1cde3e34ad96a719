"""One step of a model under `Run`: its results, the gradients of the sum of them, and the model as it was before."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils import _pytree as pytree

from hnfc.tracing.events import Event, Span
from hnfc.tracing.memory import WIDE, State, is_float
from hnfc.tracing.run import Run
from hnfc.tracing.words import at, first_index, kinds_of


@dataclass(frozen=True)
class Final:
    """A tensor that a step ends with. kind: `result` or `gradient`."""

    kind: str
    name: str
    given: torch.Tensor
    true: torch.Tensor
    state: State

    @property
    def finite(self) -> bool:
        return bool(torch.isfinite(self.given).all())


@dataclass
class Step:
    """What a step ended with, and the run that it was. inputs: what is not finite in inputs, parameters and buffers."""

    finals: list[Final]
    run: Run
    inputs: list[Event] = field(default_factory=list)


def step_of(
    model: torch.nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any], backward: bool, call: Callable[..., Any] | None = None
) -> Step:
    """Runs the model, or another call in its stead, on copies of the inputs. Buffers, gradients and the state of random numbers are as before afterwards."""
    try:
        return _step_of(model, args, kwargs, backward, call or model, accumulate=False)
    except RuntimeError as error:
        if not backward or "checkpoint" not in str(error).lower() or ".grad()" not in str(error):
            raise
        return _step_of(model, args, kwargs, backward, call or model, accumulate=True)


def _step_of(
    model: torch.nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any], backward: bool, call: Callable[..., Any], accumulate: bool
) -> Step:
    names = {id(part): path for path, part in model.named_modules()}
    run = Run(names, (_call.__code__, _differentiate.__code__))
    trained = [p for p in model.parameters() if p.requires_grad] if backward else []
    with warnings.catch_warnings(), _plain_kernels(), _kept(model), torch.random.fork_rng(devices=[]):
        given, leaves = _inputs(args, kwargs, backward, bool(trained))
        inputs = _not_finite_inputs(run, model, args, kwargs, given)
        with torch.set_grad_enabled(backward or torch.is_grad_enabled()):
            with run:
                output = _call(call, *given)
            results = {name: x for name, x in _named(output) if x.is_floating_point()}
            finals = [_final(run, "result", name, x) for name, x in results.items()]
            if backward:
                wanted = {**{n: p for n, p in model.named_parameters() if p.requires_grad}, **leaves}
                found = _gradients(run, _losses(output, results), list(wanted.values()), accumulate)
                finals += [_final(run, "gradient", n, g) for n, g in zip(wanted, found, strict=True) if is_float(g)]
        finals += [_final(run, "result", f"the new {n}", b.clone()) for n, b in _changed(run, model)]
    return Step(finals, run, inputs)


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


def _gradients(run: Run, losses: list[torch.Tensor], wanted: list[torch.Tensor], accumulate: bool) -> Sequence[torch.Tensor | None]:
    if not losses or not wanted:
        return [None] * len(wanted)
    kept = [(x, x.grad, x._post_accumulate_grad_hooks) for x in wanted] if accumulate else []
    for x, _, _ in kept:
        x.grad, x._post_accumulate_grad_hooks = None, None
    ones = [torch.ones_like(x) for x in losses]
    for record in map(run.memory.made, ones):
        if record is not None:
            record.state = State(backward=True)
    try:
        with run:
            return _differentiate(losses, ones, wanted, accumulate)
    finally:
        for x, gradient, hooks in kept:
            x.grad, x._post_accumulate_grad_hooks = gradient, hooks


def _losses(output: Any, results: Mapping[str, torch.Tensor]) -> list[torch.Tensor]:
    """What gradients are taken of: the result that is called `loss`, where there is one, else all results."""
    loss = output.get("loss") if isinstance(output, Mapping) else None
    if is_float(loss) and loss.requires_grad:
        return [loss]
    return [x for x in results.values() if x.requires_grad]


def _inputs(args: Sequence[Any], kwargs: Mapping[str, Any], backward: bool, trained: bool) -> tuple[Any, dict[str, torch.Tensor]]:
    """Copies of the inputs, and those of them whose gradients are wanted: all floating-point ones where nothing else requires one."""
    leaves: dict[str, torch.Tensor] = {}
    paths, structure = pytree.tree_flatten_with_path((tuple(args), dict(kwargs)))
    asked = backward and (trained or any(isinstance(x, torch.Tensor) and x.requires_grad for _, x in paths))
    copies: list[Any] = []
    for path, value in paths:
        if not isinstance(value, torch.Tensor):
            copies.append(value)
            continue
        copy = value.detach().clone()
        if value.requires_grad or (backward and not asked and value.is_floating_point()):
            leaves[f"input {pytree.keystr(path[1:])}"] = copy.requires_grad_()
            copy = copy.clone()
        copies.append(copy)
    return pytree.tree_unflatten(copies, structure), leaves


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
    return Final(kind, name, given.clone(), given.to(WIDE) if true is None else true.clone(), State() if record is None else record.state)


# inputs, parameters and buffers


def _not_finite_inputs(run: Run, model: torch.nn.Module, args: Any, kwargs: Any, given: Any) -> list[Event]:
    """Marks the inputs, parameters and buffers that are not finite."""
    found = []
    for kind, name, tensor in _sources(model, args, kwargs, given):
        if not is_float(tensor) or tensor.layout is not torch.strided or bool(torch.isfinite(tensor).all()):
            continue
        where = ~torch.isfinite(tensor.detach())
        index, what = first_index(where), kinds_of(tensor.detach())
        row = f", row {index[0]}" if len(index) > 1 else ""
        reason = f"the {kind} {name} has {what}{at(index)}{row}"
        event = Event("input", kind, name, "", (), Span.of(tensor), int(where.sum()), 0.0, reason, index=index, low_only=what == "-inf")
        record = run.memory.made(tensor)
        if record is not None:
            record.state = State(event=event, reach=frozenset((event,)))
        found.append(event)
    return found


def _sources(model: torch.nn.Module, args: Any, kwargs: Any, given: Any) -> Iterator[tuple[str, str, Any]]:
    names = _argument_names(model, args, kwargs)
    for (path, value), name in zip(pytree.tree_flatten_with_path(given)[0], names, strict=False):
        yield "input", name or pytree.keystr(path[1:]), value
    for name, value in model.named_parameters():
        yield "parameter", name, value
    for name, value in model.named_buffers():
        yield "buffer", name, value


def _argument_names(model: torch.nn.Module, args: Any, kwargs: Any) -> list[str]:
    """The names that `forward` gives to flattened inputs, as far as it names them."""
    import inspect

    try:
        parameters = list(inspect.signature(model.forward).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    positional = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    found = []
    for index, value in enumerate(args):
        name = positional[index] if index < len(positional) else str(index)
        found += [f"{name}{pytree.keystr(path)}" for path, _ in pytree.tree_flatten_with_path(value)[0]]
    for name in pytree.tree_flatten_with_path(dict(kwargs))[0]:
        found.append(pytree.keystr(name[0]).strip("[]'"))
    return found


def _changed(run: Run, model: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    for name, buffer in model.named_buffers():
        if is_float(buffer) and run.memory.record(buffer) is not None and not bool(torch.isfinite(buffer).all()):
            yield f"buffer {name}", buffer


# the model as it was


@contextlib.contextmanager
def _kept(model: torch.nn.Module) -> Iterator[None]:
    """Puts the buffers back, both the tensors and their values."""
    kept = [(part, dict(part._buffers)) for part in model.modules()]
    values = [(b, b.detach().clone()) for b in model.buffers()]
    try:
        yield
    finally:
        for part, buffers in kept:
            part._buffers.clear()
            part._buffers.update(buffers)
        with torch.no_grad():
            for buffer, value in values:
                if not _equal(buffer, value):
                    buffer.copy_(value)


def _equal(x: torch.Tensor, y: torch.Tensor) -> bool:
    return x.shape == y.shape and bool(((x == y) | ((x != x) & (y != y))).all())


@contextlib.contextmanager
def _plain_kernels() -> Iterator[None]:
    """Without fused kernels of recurrent and transformer layers, which hide many operations in one."""
    warnings.simplefilter("ignore")
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with torch.backends.mkldnn.flags(enabled=False):
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
