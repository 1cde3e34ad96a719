"""Sizes of 1 in a graph with open sizes: torch.export assumes 2 or more, so such a call is first looked at operation by operation."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Sequence
from itertools import count
from typing import Any

import torch
from torch import fx
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from hnfc.pytorch.effects import unchanged
from hnfc.pytorch.reads import Reading
from hnfc.pytorch.shadow import shadow


class OperationRecord(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """The operations of a call: each with its operands, tensors numbered in the order in which they come, and its shapes."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.operations: list[Any] = []
        self._numbers: dict[int, int] = {}
        self._next = count()
        self._kept: list[Any] = []

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = pytree.tree_map_only(torch.Tensor, self._number, (args, kwargs or {}))
        result = function(*args, **(kwargs or {}))
        if function is torch.ops.aten.empty.memory_format:
            pass  # room for what an operation writes, which a graph without side effects does not have
        elif function in _SAME_VALUE:
            self._numbers[id(result)] = self._numbers[id(args[0])]
            self._kept.append(result)
        else:
            shapes = [tuple(t.shape) for t in pytree.tree_leaves(result) if isinstance(t, torch.Tensor)]
            self.operations.append((*_without_effects(function, given), shapes))
            if function._schema.is_mutable and args:
                self._numbers.pop(id(args[0]), None)
        return result

    def _number(self, tensor: torch.Tensor) -> str:
        if id(tensor) not in self._numbers:
            self._numbers[id(tensor)] = next(self._next)
            self._kept.append(tensor)  # its id stays its own
        return f"%{self._numbers[id(tensor)]}"


_SAME_VALUE = (torch.ops.aten.clone.default, torch.ops.aten.detach.default, torch.ops.aten.lift_fresh.default)
"""Operations that a capture writes, or leaves out, where there is nothing to compute."""


def _without_effects(function: Any, given: Any) -> tuple[str, str, Any]:
    """Name, overload and operands of the operation that a graph without side effects has for it, whose result is another value."""
    operands, options = given
    if function is torch.ops.aten.native_batch_norm.default and not operands[5]:
        return "aten::_native_batch_norm_legit_no_training", "", ((*operands[:5], *operands[6:]), options)
    return function._schema.name.removesuffix("_"), function._schema.overload_name, given


def does_the_same(model: torch.nn.Module, args: Any, kwargs: Any, exported: fx.GraphModule, tensors: Sequence[Any]) -> list[Any] | None:
    """Results of the exported graph on these tensors, if it does, operation by operation, what the model does with its arguments."""
    # without gradients torch's own layers take other ways than in a capture
    with torch.random.fork_rng(), torch.enable_grad(), warnings.catch_warnings(), contextlib.suppress(Exception):
        warnings.simplefilter("ignore")  # of the model's operations: they come when it runs
        followed, drawn = shadow(model), _random_states()
        with unchanged(followed, Reading()), OperationRecord() as of_model:
            followed(*args, **kwargs)
        with OperationRecord() as of_graph:
            results = exported(*tensors)
        if of_model.operations == of_graph.operations and all(map(torch.equal, _random_states(), drawn)):
            return list(results)
    return None


def _random_states() -> list[torch.Tensor]:
    return [torch.get_rng_state(), *(torch.cuda.get_rng_state_all() if torch.cuda.is_available() else ())]


def is_like(found: Sequence[Any], expected: Sequence[Any]) -> bool:
    """Return whether results have the shapes and types that are expected, and finite ones about the same numbers."""
    return len(found) == len(expected) and all(map(_is_near, found, expected))


def _is_near(found: Any, expected: Any) -> bool:
    if not isinstance(expected, torch.Tensor):
        return bool(found == expected)
    if found.shape != expected.shape or found.dtype != expected.dtype:
        return False
    if not expected.is_floating_point():
        return torch.equal(found, expected)
    finite = found.isfinite() & expected.isfinite()
    a, b = found.detach()[finite].double(), expected.detach()[finite].double()
    return not len(a) or bool((a - b).abs().max() <= _NEAR * b.abs().max())


_NEAR = 2.0**-6
"""Difference beside the largest number that rounding explains in any type."""
