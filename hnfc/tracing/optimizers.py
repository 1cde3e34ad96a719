"""Copies of an optimizer on other parameters, that run without the hooks of a training loop."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import torch


def copied_optimizer(optimizer: torch.optim.Optimizer, parameters: Mapping[int, torch.Tensor]) -> torch.optim.Optimizer:
    """A copy with settings and state of its own. parameters: those that it changes, by the identity of those of the optimizer.

    Like a file, the copy has no hooks, and no attributes beside settings and state.
    """
    state = {parameters[id(p)]: _copied(value, parameters[id(p)]) for p, value in optimizer.state.items() if id(p) in parameters}
    groups = [
        {**copy.deepcopy({key: value for key, value in group.items() if key != "params"}), "params": _those(group["params"], parameters)}
        for group in optimizer.param_groups
    ]
    made: torch.optim.Optimizer = type(optimizer).__new__(type(optimizer))
    made.__setstate__({"defaults": dict(optimizer.defaults), "state": _empty_like(optimizer, state), "param_groups": groups})
    return made


def _those(given: list[torch.Tensor], parameters: Mapping[int, torch.Tensor]) -> list[torch.Tensor]:
    return [parameters[id(p)] for p in given if id(p) in parameters]


def _empty_like(optimizer: torch.optim.Optimizer, state: dict[Any, Any]) -> Any:
    """The state in a dictionary of the optimizer's own kind, which makes entries on demand."""
    made = copy.copy(optimizer.state)
    made.clear()
    made.update(state)
    return made


def _copied(value: Any, p: torch.Tensor) -> Any:
    """The state of a parameter; tensors of its shape in its type."""
    if isinstance(value, dict):
        return {key: _copied(part, p) for key, part in value.items()}
    if not isinstance(value, torch.Tensor):
        return copy.deepcopy(value)
    if hasattr(value, "full_tensor") and not hasattr(p, "full_tensor"):  # all ranks take part
        value = value.full_tensor()
    if value.is_floating_point() and value.dim() and value.shape == p.shape and value.dtype != p.dtype:
        return value.detach().to(p.dtype)
    return value.detach().clone()


def update(optimizer: torch.optim.Optimizer) -> None:
    """A step of the optimizer that no hook sees."""
    step = type(optimizer).step
    plain = getattr(step, "__wrapped__", step) if getattr(step, "hooked", False) else step
    plain(optimizer)
