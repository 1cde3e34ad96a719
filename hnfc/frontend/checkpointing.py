"""Detection of activation checkpointing during a capture: torch.export puts what is checkpointed in line and forgets it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any
from unittest import mock

import torch.utils.checkpoint as torch_checkpoint


@contextlib.contextmanager
def noticed() -> Iterator[list[bool]]:
    """Gives a list that is not empty after a capture in which something was checkpointed."""
    found: list[bool] = []
    generator: Any = torch_checkpoint._checkpoint_without_reentrant_generator
    function: Any = torch_checkpoint.CheckpointFunction.apply

    def without_reentry(*args: object, **kwargs: object) -> object:
        found.append(True)
        return generator(*args, **kwargs)

    def with_reentry(*args: object) -> object:
        found.append(True)
        return function(*args)

    with (
        mock.patch.object(torch_checkpoint, "_checkpoint_without_reentrant_generator", without_reentry),
        mock.patch.object(torch_checkpoint.CheckpointFunction, "apply", with_reentry),
    ):
        yield found
