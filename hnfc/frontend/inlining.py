"""Detection of what torch.export puts in line and forgets: activation checkpointing, and the backward of a custom function."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any
from unittest import mock

import torch
import torch.utils.checkpoint as torch_checkpoint

CHECKPOINTED = "it checkpoints activations, which a rewritten graph would keep"


@contextlib.contextmanager
def noticed() -> Iterator[list[str]]:
    """Gives the reasons why gradients of a graph captured meanwhile are not those of the model; none in the usual case."""
    found: list[str] = []
    generator: Any = torch_checkpoint._checkpoint_without_reentrant_generator
    function: Any = torch_checkpoint.CheckpointFunction.apply
    custom: Any = torch.autograd.Function.apply.__func__  # type: ignore[attr-defined]

    def without_reentry(*args: object, **kwargs: object) -> object:
        found.append(CHECKPOINTED)
        return generator(*args, **kwargs)

    def with_reentry(*args: object) -> object:
        found.append(CHECKPOINTED)
        return function(*args)

    def applied(kind: type, /, *args: object, **kwargs: object) -> object:
        # operations of torch.library are functions of torch, and stay operations
        if not kind.__module__.startswith("torch."):
            found.append(f"the backward of {kind.__name__} is its own, which torch.export leaves out")
        return custom(kind, *args, **kwargs)

    with (
        mock.patch.object(torch_checkpoint, "_checkpoint_without_reentrant_generator", without_reentry),
        mock.patch.object(torch_checkpoint.CheckpointFunction, "apply", with_reentry),
        mock.patch.object(torch.autograd.Function, "apply", classmethod(applied)),
    ):
        yield found
