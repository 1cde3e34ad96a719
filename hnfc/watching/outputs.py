"""Results of calls, by identity: which call a tensor comes from, and which function made the loss of it. No result is kept alive."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.utils import _pytree as pytree

from hnfc.watching.calls import Criterion, ModelCall, float_results


@dataclass
class _Result:
    """place: among the floating-point results of the call. node: the number of its function of autograd, if it has one."""

    tensor: weakref.ref[torch.Tensor]
    call: ModelCall
    path: tuple[Any, ...]
    place: int
    node: int | None


_MOST_NODES = 100_000


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
        self._roots: list[Any] = []

    def add(self, call: ModelCall, output: Any) -> None:
        """Notes the result of a call, and keeps the gradients that it will get."""
        paths = {id(leaf): path for path, leaf in pytree.tree_flatten_with_path(output)[0] if isinstance(leaf, torch.Tensor)}
        for index, part in enumerate(float_results(output)):
            node = None if part.grad_fn is None else part.grad_fn._sequence_nr()
            self._results.append(_Result(weakref.ref(part), call, paths.get(id(part), ()), index, node))
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
        return None if found is None else replace(found, path=())

    def settle(self, loss: torch.Tensor) -> None:
        """Gives the call of a loss that is differentiated the function that made it: of it itself, or of what a scaler made of it."""
        if loss.grad_fn is not None:
            self._roots.append(loss.grad_fn)
        for each in self._losses:
            made = each.tensor()
            scaled = made is not None and made.grad_fn is not None and loss.grad_fn is not None
            if made is loss or (scaled and any(node is made.grad_fn for node, _ in loss.grad_fn.next_functions)):  # type: ignore[union-attr]
                each.call.criterion = each.criterion

    def leave_outside(self, call: ModelCall) -> None:
        """Takes from a call the gradients by results that others of its results are computed from: those came from inside the model."""
        places = {result.node: result.place for result in self._results if result.call is call and result.node is not None}
        results = [node for node in _below(self._roots) if node._sequence_nr() in places]
        inner = (below for node in results for below in _below([n for n, _ in node.next_functions if n is not None]))
        for number in {below._sequence_nr() for below in inner} & places.keys():
            call.gradients.pop(places[number], None)

    def clear(self) -> None:
        for hook in self._hooks:
            hook.remove()
        self.touched, self._results, self._losses, self._hooks, self._roots = [], [], [], [], []


def _below(roots: Sequence[Any]) -> list[Any]:
    """These functions of autograd and all that they took values from."""
    found: dict[Any, None] = {}
    waiting = list(roots)
    while waiting and len(found) < _MOST_NODES:
        node = waiting.pop()
        if node not in found:
            found[node] = None
            waiting += [below for below, _ in node.next_functions if below is not None]
    return list(found)
