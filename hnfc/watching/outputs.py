"""Results of calls, by identity: which call a tensor comes from, and which function made the loss of it. No result is kept alive."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

from hnfc.watching.calls import Criterion, ModelCall, float_results


@dataclass
class _Result:
    tensor: weakref.ref[torch.Tensor]
    call: ModelCall
    path: tuple[Any, ...]


@dataclass
class _Loss:
    tensor: weakref.ref[torch.Tensor]
    criterion: Criterion
    call: ModelCall


class CallResults:
    """Results of the calls of a step, and the losses made of them. touched: calls whose results got a gradient since it was emptied."""

    def __init__(self) -> None:
        self.touched: list[ModelCall] = []
        self._results: list[_Result] = []
        self._losses: list[_Loss] = []
        self._hooks: list[Any] = []

    def add(self, call: ModelCall, output: Any) -> None:
        """Notes the result of a call, and keeps the gradients that it will get."""
        for path, leaf in pytree.tree_flatten_with_path(output)[0]:
            if isinstance(leaf, torch.Tensor):
                self._results.append(_Result(weakref.ref(leaf), call, path))
        for index, part in enumerate(float_results(output)):
            if part.grad_fn is not None:  # a parameter that is returned outlives the step
                self._hooks.append(part.register_hook(self._keeper(call, index)))  # type: ignore[no-untyped-call]

    def _keeper(self, call: ModelCall, index: int) -> Callable[[torch.Tensor], None]:
        def keep(gradient: torch.Tensor) -> None:
            known = call.gradients.get(index)
            call.gradients[index] = gradient.detach() if known is None else known + gradient.detach()
            if not any(call is each for each in self.touched):
                self.touched.append(call)

        return keep

    def made(self, loss: Any, function: Callable[..., Any], args: Sequence[Any], kwargs: Any) -> None:
        """Notes a loss that a function made of a result."""
        if not isinstance(loss, torch.Tensor) or loss.numel() != 1:
            return
        for place, given in enumerate(args):
            found = self._origin(given)
            if found is not None:
                criterion = Criterion.of(function, args, kwargs, place, found.path)
                self._losses.append(_Loss(weakref.ref(loss), criterion, found.call))
                return

    def _origin(self, given: Any) -> _Result | None:
        if isinstance(given, torch.Tensor):
            return next((result for result in reversed(self._results) if result.tensor() is given), None)
        leaves = [leaf for leaf in pytree.tree_leaves(given) if isinstance(leaf, torch.Tensor)]
        found = self._origin(leaves[0]) if leaves else None
        return None if found is None else _Result(found.tensor, found.call, ())

    def settle(self, loss: torch.Tensor) -> None:
        """Gives the call of a loss that is differentiated the function that made it: of it itself, or of what a scaler made of it."""
        for each in self._losses:
            made = each.tensor()
            scaled = made is not None and made.grad_fn is not None and loss.grad_fn is not None
            if made is loss or (scaled and any(node is made.grad_fn for node, _ in loss.grad_fn.next_functions)):  # type: ignore[union-attr]
                each.call.criterion = each.criterion

    def clear(self) -> None:
        for hook in self._hooks:
            hook.remove()
        self.touched, self._results, self._losses, self._hooks = [], [], [], []
