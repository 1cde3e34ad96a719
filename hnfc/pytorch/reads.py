"""State of torch and of tensors that a forward reads while it is captured, and that its graph is therefore for."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from unittest import mock

import torch
from torch.overrides import TorchFunctionMode

from hnfc.frontend.places import HNFC, TORCH

_STATE = (
    "is_grad_enabled", "is_inference_mode_enabled", "are_deterministic_algorithms_enabled", "get_default_device",
    "is_autocast_enabled", "is_autocast_cpu_enabled", "get_autocast_dtype",
)  # fmt: skip
"""Functions of torch that tell of the thread or the process, by their names in `torch`."""
_GRADIENTS = (*(getattr(torch.Tensor, name).__get__ for name in ("requires_grad", "is_leaf", "grad_fn")), torch.Tensor.is_inference)
_LAYOUT = (
    *(getattr(torch.Tensor, name) for name in ("is_contiguous", "stride", "storage_offset", "dim_order", "as_strided", "as_strided_")),
    torch.as_strided, torch.as_strided_scatter, torch.Tensor.as_strided_scatter, torch.Tensor.fill_diagonal_,
)  # fmt: skip


@dataclass(frozen=True)
class Reads:
    """State that a graph is for.

    state: calls of functions of torch, with their results. gradients: what autograd holds of each parameter and input; None if that was
    not read. layout: whether strides were read, so that inputs must be contiguous from their first element.
    """

    state: tuple[tuple[str, tuple[Any, ...], Any], ...] = ()
    gradients: tuple[tuple[bool, ...], ...] | None = None
    layout: bool = False

    def hold(self, module: torch.nn.Module, inputs: Sequence[Any]) -> bool:
        """Return whether a call would read the same."""
        return (
            all(getattr(torch, name)(*args) == value for name, args, value in self.state)
            and (self.gradients is None or self.gradients == _held(module, inputs))
            and self.fit_layout(inputs)
        )

    def fit_layout(self, inputs: Sequence[Any]) -> bool:
        """Return whether inputs lie in memory as the graph takes them to."""
        # Dynamo cannot trace offsets
        tensors = [x for x in inputs if isinstance(x, torch.Tensor)] if self.layout else ()
        return all(x.is_contiguous() and (torch.compiler.is_compiling() or not x.storage_offset()) for x in tensors)


def _held(module: torch.nn.Module, inputs: Sequence[Any]) -> tuple[tuple[bool, ...], ...]:
    tensors = (*module.parameters(), *(x for x in inputs if isinstance(x, torch.Tensor)))
    return tuple((tensor.requires_grad, tensor.is_leaf, tensor.is_inference()) for tensor in tensors)


class Reading(TorchFunctionMode):
    """Notes what the model's own code reads while the mode is on."""

    def __init__(self) -> None:
        super().__init__()
        self._state: dict[tuple[str, tuple[Any, ...]], None] = {}
        self._gradients = self._layout = False
        self._thread = threading.get_ident()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        # torch.cond and its kin have Dynamo trace this too, which knows no frames
        if not torch.compiler.is_dynamo_compiling() and _is_of_model(sys._getframe(1).f_code.co_filename):
            if func in _GRADIENTS:
                self._gradients = True
                self._state |= dict.fromkeys((("is_grad_enabled", ()), ("is_inference_mode_enabled", ())))
            self._layout |= func in _LAYOUT
        return func(*args, **(kwargs or {}))

    @contextlib.contextmanager
    def of_state(self) -> Iterator[None]:
        """Notes calls of the functions that tell of torch's state."""
        with contextlib.ExitStack() as patches:
            for name in _STATE:
                patches.enter_context(mock.patch.object(torch, name, self._noting(name, getattr(torch, name))))
            yield

    def _noting(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def noting(*args: Any) -> Any:
            traced = torch.compiler.is_dynamo_compiling()
            if not traced and threading.get_ident() == self._thread and _is_of_model(sys._getframe(1).f_code.co_filename):
                self._state[name, args] = None
            return function(*args)

        return noting

    def found(self, module: torch.nn.Module, inputs: Sequence[Any]) -> Reads:
        """Reads of the forward, with their results for this call."""
        state = tuple((name, args, getattr(torch, name)(*args)) for name, args in self._state)
        return Reads(state, _held(module, inputs) if self._gradients else None, self._layout)


def _is_of_model(file: str) -> bool:
    return not file.startswith((TORCH, HNFC))


def random_states() -> list[torch.Tensor]:
    """States of torch's generators: that of the CPU, then those of CUDA devices."""
    return [torch.get_rng_state(), *(torch.cuda.get_rng_state_all() if torch.cuda.is_available() else ())]
