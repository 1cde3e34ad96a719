"""Samples that formats are measured on: given one by one, or as the batches of a loader."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import torch
from torch.utils import _pytree as pytree
from torch.utils.data import DataLoader

from hnfc.core.errors import UsageError

Samples: TypeAlias = tuple[Any, ...]


def samples_of(model: torch.nn.Module, sample: Any, more: Samples) -> Samples:
    """The samples; the batches of a loader or an iterator, without labels that the model does not take, and without those of other shapes
    than the first, as the last of a loader often is. Raises UsageError where there are none."""
    if not isinstance(sample, DataLoader | Iterator):
        return (sample, *more)
    if more:
        raise UsageError("a loader gives all samples: leave out the others")
    batches = [_taken(model, batch) for batch in sample]
    if not batches:
        raise UsageError("the loader has no batches, and formats are measured on some: give one at least")
    return tuple(batch for batch in batches if _shapes(batch) == _shapes(batches[0]))


def _taken(model: torch.nn.Module, batch: Any) -> Any:
    """The parts of a batch that the model takes: the first of a list."""
    if isinstance(batch, Mapping) or not isinstance(batch, tuple | list):
        return batch
    kinds = [p.kind for p in inspect.signature(model.forward).parameters.values()]
    if inspect.Parameter.VAR_POSITIONAL in kinds:
        return batch
    return batch[: sum(kind in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD) for kind in kinds)]


def _shapes(batch: Any) -> list[Any]:
    return [tuple(t.shape) if isinstance(t, torch.Tensor) else None for t in pytree.tree_leaves(batch)]
