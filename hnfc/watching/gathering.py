"""A sharded model as a whole one on this rank, by a gathering that all ranks take part in."""

from __future__ import annotations

from typing import Any

import torch

from hnfc.pytorch.shadow import shadow
from hnfc.tracing.optimizers import copied_optimizer

_MOST = 2**32
"""Bytes of parameters up to which a rank takes all of them."""
_OF_SHARDS = "torch.distributed"
"""Module of hooks that gather and free shards."""
_STATE = "__composable_api"
"""Start of the names of attributes that hold the states of such modules."""
_HOOKS = ("_forward_hooks", "_forward_pre_hooks")
_MARKS = ("_forward_hooks_with_kwargs", "_forward_hooks_always_called", "_forward_pre_hooks_with_kwargs")


def is_sharded_model(model: torch.nn.Module) -> bool:
    """Return whether a parameter is a part of one that lies on several ranks."""
    return any(hasattr(p, "placements") for p in model.parameters())


@torch.no_grad()
def gathered(
    model: torch.nn.Module, optimizer: torch.optim.Optimizer | None
) -> tuple[torch.nn.Module, torch.optim.Optimizer | None]:  # fmt: skip
    """The model and its optimizer with whole parameters, moments and buffers. All ranks call it together. Raises ValueError where they are
    too large for one rank, on all of them."""
    size = sum(p.numel() * p.element_size() for p in model.parameters())
    if size > _MOST:
        raise ValueError(f"its parameters take {size / 1e9:.1f} GB, too much for one rank")
    whole: dict[int, torch.Tensor] = {
        id(p): torch.nn.Parameter(whole_of(p.detach()).clone(), requires_grad=p.requires_grad) for p in model.parameters()
    }
    whole |= {id(b): whole_of(b.detach()) for b in model.buffers() if hasattr(b, "placements")}
    made = shadow(model, whole)
    for part in made.modules():
        _without_shards(part)
    return made, None if optimizer is None else copied_optimizer(optimizer, whole)


def whole_of(tensor: torch.Tensor) -> torch.Tensor:
    gather: Any = getattr(tensor, "full_tensor", None)
    return tensor if gather is None else gather()


def _without_shards(part: torch.nn.Module) -> None:
    """Gives a module the class that it had, and takes hooks that gather from it."""
    place = getattr(type(part), "_orig_cls_mro_index", None)
    if place is not None:
        part.__class__ = type(part).__mro__[place]
    for name in [name for name in part.__dict__ if name.startswith(_STATE)]:
        del part.__dict__[name]
    for name in _HOOKS:
        hooks = part.__dict__[name]
        kept = {key: hook for key, hook in hooks.items() if not _gathers(hook)}
        part.__dict__[name] = type(hooks)(kept)
    for name in _MARKS:
        marks = part.__dict__[name]
        hooks = part.__dict__["_forward_pre_hooks" if "pre" in name else "_forward_hooks"]
        part.__dict__[name] = type(marks)((key, mark) for key, mark in marks.items() if key in hooks)


def _gathers(hook: Any) -> bool:
    inside = getattr(hook, "__wrapped__", hook)
    return str(getattr(inside, "__module__", "")).startswith(_OF_SHARDS)
