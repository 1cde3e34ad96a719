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

from hnfc.core.errors import ModelError
from hnfc.pytorch.effects import unchanged
from hnfc.pytorch.reads import Reading, random_states
from hnfc.pytorch.shadow import shadow


class OperationRecord(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """The operations of a call: each with its operands, tensors numbered, those that are given first, and its shapes.

    Raises ModelError before a given tensor would be changed.
    """

    def __init__(self, given: Sequence[Any]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.operations: list[Any] = []
        self._numbers: dict[int, int] = {}
        self._next = count()
        self._kept: list[Any] = []
        tensors = [tensor for tensor in given if isinstance(tensor, torch.Tensor)]
        for tensor in tensors:
            self.number(tensor)
        self._given = {tensor.untyped_storage()._cdata for tensor in tensors}

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        given = pytree.tree_map_only(torch.Tensor, self.number, (args, kwargs))
        written = [t for t in _written(function, args, kwargs) if isinstance(t, torch.Tensor)]
        if any(tensor.untyped_storage()._cdata in self._given for tensor in written) or _writes_unsaid(function, args):
            raise ModelError("a given tensor changes")
        result = function(*args, **kwargs)
        if function is torch.ops.aten.empty.memory_format:
            pass  # room for what an operation writes, which a graph without side effects does not have
        elif function in _SAME_VALUE:
            self._numbers[id(result)] = self._numbers[id(args[0])]
            self._kept.append(result)
        else:
            shapes = [tuple(t.shape) for t in pytree.tree_leaves(result) if isinstance(t, torch.Tensor)]
            self.operations.append((*_without_effects(function, given), shapes))
            for tensor in written:
                self._numbers.pop(id(tensor), None)
        return result

    def number(self, tensor: torch.Tensor) -> str:
        if id(tensor) not in self._numbers:
            self._numbers[id(tensor)] = next(self._next)
            self._kept.append(tensor)  # its id stays its own
        return f"%{self._numbers[id(tensor)]}"

    def described(self, results: Any) -> list[Any]:
        """Description of what is returned: the number of each tensor, and whether gradients flow through it."""
        leaves = pytree.tree_leaves(results)
        return [(self.number(x), x.requires_grad) if isinstance(x, torch.Tensor) else x for x in leaves]


_SAME_VALUE = (torch.ops.aten.clone.default, torch.ops.aten.lift_fresh.default)
"""Operations that a capture writes, or leaves out, where there is nothing to compute."""


def _written(function: Any, args: Any, kwargs: Any) -> list[Any]:
    found = []
    for index, argument in enumerate(function._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            found += pytree.tree_leaves(args[index] if index < len(args) else kwargs.get(argument.name))
    return found


def _writes_unsaid(function: Any, args: Any) -> bool:
    """Return whether it is a batch norm that changes running statistics, which its signature does not say."""
    return "batch_norm" in function._schema.name and any(given is True for given in args)


def _without_effects(function: Any, given: Any) -> tuple[str, str, Any]:
    """Name, overload and operands of the operation that a graph without side effects has for it, whose result is another value."""
    operands, options = given
    if function is torch.ops.aten.native_batch_norm.default and not operands[5]:
        return "aten::_native_batch_norm_legit_no_training", "", ((*operands[:5], *operands[6:]), options)
    return function._schema.name.removesuffix("_"), function._schema.overload_name, given


def does_the_same(
    model: torch.nn.Module, args: Any, kwargs: Any, exported: fx.GraphModule, tensors: Sequence[Any], structure: pytree.TreeSpec
) -> list[Any] | None:
    """Results of the exported graph on these tensors, if it does, operation by operation, what the model does with its arguments, and
    returns the same in this structure."""
    # without gradients torch's own layers take other ways than in a capture
    with torch.random.fork_rng(), torch.enable_grad(), warnings.catch_warnings(), contextlib.suppress(Exception):
        warnings.simplefilter("ignore")  # of the model's operations: they come when it runs
        followed, drawn = shadow(model), random_states()
        with unchanged(followed, Reading()), OperationRecord(tensors) as of_model:
            returned = followed(*args, **kwargs)
        with OperationRecord(tensors) as of_graph:
            results = exported(*tensors)
        same = of_model.operations == of_graph.operations and pytree.tree_structure(returned) == structure
        if same and of_model.described(returned) == of_graph.described(results) and all(map(torch.equal, random_states(), drawn)):
            return list(results)
    return None


def is_like(found: Sequence[Any], expected: Sequence[Any], *, only_kinds: bool = False) -> bool:
    """Return whether results have the shapes and types that are expected, and finite ones about the same numbers.

    only_kinds: whatever their numbers.
    """
    return len(found) == len(expected) and all(_is_near(x, y, only_kinds) for x, y in zip(found, expected, strict=True))


def _is_near(found: Any, expected: Any, only_kinds: bool) -> bool:
    if not isinstance(expected, torch.Tensor):
        return bool(found == expected)
    if found.shape != expected.shape or found.dtype != expected.dtype:
        return False
    if only_kinds:
        return True
    if not expected.is_floating_point():
        return torch.equal(found, expected)
    finite = found.isfinite() & expected.isfinite()
    a, b = found.detach()[finite].double(), expected.detach()[finite].double()
    return not len(a) or bool((a - b).abs().max() <= _NEAR * b.abs().max())


_NEAR = 2.0**-6
"""Difference beside the largest number that rounding explains in any type."""
