"""Results of torch beside each other: their differences, and whose are nearer to float64."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree


def difference(found: Any, wanted: Any) -> str:
    """Description of the first difference beyond torch's tolerances for a type; empty where there is none."""
    found_leaves, found_tree = pytree.tree_flatten(found)
    wanted_leaves, wanted_tree = pytree.tree_flatten(wanted)
    if len(found_leaves) != len(wanted_leaves):
        return f"{found_tree} instead of {wanted_tree}"
    for index, (one, other) in enumerate(zip(found_leaves, wanted_leaves, strict=True)):
        if type(one) is not type(other):
            return f"output {index}: {type(one).__name__} instead of {type(other).__name__}"
        if isinstance(one, torch.Tensor) and (one.dtype, one.layout) == (other.dtype, other.layout) and _is_same(one, other):
            continue  # much faster than a comparison with a tolerance
        try:
            torch.testing.assert_close(one, other, equal_nan=True, check_stride=False)
        except AssertionError as error:
            return f"output {index}: {' '.join(str(error).split())}"
    return ""


def _is_same(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Return whether two tensors are equal and have no NaN; of those that torch cannot compare False."""
    try:
        return bool(torch.equal(one, other))
    except (RuntimeError, NotImplementedError):
        return False


def is_nearer(found: Any, wanted: Any, exactly: Callable[[Any], Any], inputs: Sequence[torch.Tensor]) -> bool:
    """Return whether no result is further from the same in float64 than the operation's own furthest."""
    wide = [tensor.detach().double() if tensor.is_floating_point() else tensor for tensor in inputs]
    for tensor, given in zip(wide, inputs, strict=True):
        tensor.requires_grad_(given.requires_grad)
    try:
        true = exactly(wide)
    except Exception:
        return False
    triples = list(zip(*map(pytree.tree_leaves, (found, wanted, true)), strict=True))
    same_kind = all((one.dtype, one.shape) == (other.dtype, other.shape) for one, other, _ in triples)
    return same_kind and all(_furthest(one, exact) <= _furthest(other, exact) for one, other, exact in triples)


def _furthest(found: torch.Tensor, exact: torch.Tensor) -> float:
    """The largest distance of an element from the true one; 0 of its rounding to the type, infinities too, and infinite of a NaN."""
    found, exact = found.detach(), exact.detach()
    away = (found.double() - exact).abs().nan_to_num(nan=float("inf"))
    return float(away.where(found != exact.to(found.dtype), torch.zeros_like(away)).max())


def copied(tensors: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    """Copies with the same strides; of sparse ones, which `deepcopy` refuses, plain copies."""
    return tuple(copy.deepcopy(tensor) if tensor.layout is torch.strided else tensor.clone() for tensor in tensors)
