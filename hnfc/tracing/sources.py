"""Start of a step: copies of its inputs, and which inputs, parameters and buffers are not finite."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from hnfc.tracing.events import Event, ValueRange
from hnfc.tracing.memory import StorageState, is_float
from hnfc.tracing.run import Run
from hnfc.tracing.words import at, first_index, kinds_of


def inputs_of(args: Sequence[Any], kwargs: Mapping[str, Any], backward: bool, trained: bool) -> tuple[Any, dict[str, torch.Tensor]]:
    """Copies of the inputs, and those of them whose gradients are wanted: all floating-point ones where nothing else requires one."""
    leaves: dict[str, torch.Tensor] = {}
    paths, structure = pytree.tree_flatten_with_path((tuple(args), dict(kwargs)))
    required = backward and (trained or any(isinstance(x, torch.Tensor) and x.requires_grad for _, x in paths))
    copies: list[Any] = []
    for path, value in paths:
        if not isinstance(value, torch.Tensor):
            copies.append(value)
            continue
        copy = value.detach().clone()
        if value.requires_grad or (backward and not required and value.is_floating_point()):
            leaves[f"input {pytree.keystr(path[1:])}"] = copy.requires_grad_()
            copy = copy.clone()
        copies.append(copy)
    return pytree.tree_unflatten(copies, structure), leaves


def not_finite_inputs(run: Run, model: torch.nn.Module, args: Any, kwargs: Any, given: Any) -> list[Event]:
    """Marks the inputs, parameters and buffers that are not finite."""
    found = []
    for kind, name, tensor in _sources(model, args, kwargs, given):
        if not is_float(tensor) or tensor.layout is not torch.strided or bool(torch.isfinite(tensor).all()):
            continue
        where = ~torch.isfinite(tensor.detach())
        index, what = first_index(where), kinds_of(tensor.detach())
        row = f", row {index[0]}" if len(index) > 1 else ""
        reason = f"the {kind} {name} has {what}{at(index)}{row}"
        event = Event(
            "input", kind, name, "", (), ValueRange.of(tensor), int(where.sum()), 0.0, reason, index=index, low_only=what == "-inf"
        )
        record = run.memory.made(tensor)
        if record is not None:
            record.state = StorageState(event=event, reach=frozenset((event,)))
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
    """The names that `forward` gives to flattened inputs, as far as it names them; those that a module names itself."""
    named: list[str] | None = getattr(model, "input_names", None)
    if named is not None:
        return named
    try:
        parameters = list(inspect.signature(model.forward).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    positional = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    found = []
    for index, value in enumerate(args):
        name = positional[index] if index < len(positional) else str(index)
        found += [f"{name}{pytree.keystr(path)}" for path, _ in pytree.tree_flatten_with_path(value)[0]]
    found += [pytree.keystr(path).strip("[]'") for path, _ in pytree.tree_flatten_with_path(dict(kwargs))[0]]
    return found
