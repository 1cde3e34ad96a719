"""One call of a model in training with all that its result depends on, so that it can be made again."""

from __future__ import annotations

import contextlib
import inspect
import random
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

from hnfc.pytorch.reads import random_states
from hnfc.pytorch.shadow import shadow


@dataclass
class Criterion:
    """The function that made the loss: of what the model returned, at `place` among the arguments, and of the others.

    path: from what the model returned to the argument, if it returned several things.
    """

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    place: int
    path: tuple[Any, ...] = ()

    @staticmethod
    def of(function: Callable[..., Any], args: Sequence[Any], kwargs: Any, place: int, path: tuple[Any, ...]) -> Criterion:
        """One whose other arguments are values, without the graph that they come from."""
        plain = pytree.tree_map_only(torch.Tensor, torch.Tensor.detach, [None if i == place else x for i, x in enumerate(args)])
        return Criterion(function, tuple(plain), pytree.tree_map_only(torch.Tensor, torch.Tensor.detach, dict(kwargs)), place, path)

    def __call__(self, output: Any) -> Any:
        given = list(self.args)
        for key in self.path:
            output = key.get(output)
        given[self.place] = output
        return self.function(*given, **self.kwargs)


@dataclass
class Conditions:
    """State that a call reads besides its arguments: buffers before it, random states, autocast and the modes of modules."""

    buffers: dict[str, torch.Tensor]
    random: list[torch.Tensor]
    autocast: dict[str, torch.dtype]
    training: list[bool]

    @staticmethod
    def now(model: torch.nn.Module, steady: Collection[str] = (), named: Mapping[str, torch.Tensor] | None = None) -> Conditions:
        """The present state. steady: names of buffers that calls do not change, which are not copied. named: the buffers, if known."""
        known = dict(model.named_buffers()) if named is None else named
        buffers = {name: b.detach() if name in steady else b.detach().clone() for name, b in known.items()}
        autocast = {device: torch.get_autocast_dtype(device) for device in ("cpu", "cuda") if torch.is_autocast_enabled(device)}
        return Conditions(buffers, random_states(), autocast, [part.training for part in model.modules()])

    @contextlib.contextmanager
    def applied(self, model: torch.nn.Module) -> Iterator[torch.nn.Module]:
        """The model in this state: other modules on the same parameters. The model, torch and Python stay as they are."""
        copied = shadow(model)
        for name, buffer in self.buffers.items():
            path, _, last = name.rpartition(".")
            part = copied.get_submodule(path)
            if last in part._buffers:
                part._buffers[last] = buffer.detach().clone()
        for part, training in zip(copied.modules(), self.training, strict=False):
            part.training = training
        python, arrays = random.getstate(), np.random.get_state()
        with torch.random.fork_rng(), contextlib.ExitStack() as stack:
            for device in ("cpu", "cuda"):
                stack.enter_context(torch.autocast(device, self.autocast.get(device), enabled=device in self.autocast))
            torch.set_rng_state(self.random[0].cpu())
            if torch.cuda.is_available() and len(self.random) > 1:
                torch.cuda.set_rng_state_all([state.cpu() for state in self.random[1:]])
            try:
                yield copied
            finally:
                random.setstate(python)
                np.random.set_state(arrays)


@dataclass
class ModelCall:
    """A call of the model. gradients: of what was differentiated, by the floating-point results of the model, by their places."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    conditions: Conditions
    criterion: Criterion | None = None
    gradients: dict[int, torch.Tensor] = field(default_factory=dict)
    scale: float = 1.0
    """The factor of the criterion's loss before its gradients are taken."""
    versions: list[int] = field(default_factory=list)

    @staticmethod
    def now(
        model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], steady: Collection[str] = (),
        named: Mapping[str, torch.Tensor] | None = None,
    ) -> ModelCall:  # fmt: skip
        call = ModelCall(args, kwargs, Conditions.now(model, steady, named))
        call.versions = call.versions_now()
        return call

    def tensors(self) -> list[torch.Tensor]:
        return [leaf for leaf in pytree.tree_leaves((self.args, self.kwargs)) if isinstance(leaf, torch.Tensor)]

    def versions_now(self) -> list[int]:
        """Counts of changes in place, by argument."""
        return [0 if tensor.is_inference() else tensor._version for tensor in self.tensors()]

    @property
    def is_as_it_was(self) -> bool:
        """Return whether no argument was changed in place since the call."""
        return self.versions_now() == self.versions

    @property
    def has_loss(self) -> bool:
        """Return whether it is known how the loss depends on parameters: by a criterion, or since the model returned it."""
        one = len(self.gradients) == 1 and all(gradient.numel() == 1 for gradient in self.gradients.values())
        return self.criterion is not None or one

    @property
    def has_finite_gradients(self) -> bool:
        """Return whether the loss has finite gradients by what the model returned."""
        return all(bool(gradient.isfinite().all()) for gradient in self.gradients.values())


class Step(torch.nn.Module):
    """A call as a module of its tensors: its result is the loss, or what stands for it."""

    def __init__(self, model: torch.nn.Module, call: ModelCall) -> None:
        super().__init__()
        self.model = model
        self.training = model.training
        self._call = call
        leaves, self._structure = pytree.tree_flatten((call.args, call.kwargs))
        self._places = [index for index, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
        self._leaves = [None if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        self.input_names = _input_names(model, call)

    @property
    def has_loss_beside(self) -> bool:
        """Return whether the loss is computed outside the model."""
        return self._call.criterion is not None

    @property
    def sample(self) -> tuple[torch.Tensor, ...]:
        """The arguments of `forward`."""
        return tuple(self._call.tensors())

    def forward(self, *tensors: torch.Tensor) -> Any:
        leaves = list(self._leaves)
        for place, tensor in zip(self._places, tensors, strict=True):
            leaves[place] = tensor
        args, kwargs = pytree.tree_unflatten(leaves, self._structure)
        return loss_of(self.model(*args, **kwargs), self._call)


def _input_names(model: torch.nn.Module, call: ModelCall) -> list[str]:
    """Names of the tensors of a call, as the model's `forward` calls them."""
    try:
        bound = dict(inspect.signature(model.forward).bind(*call.args, **call.kwargs).arguments)
    except (TypeError, ValueError):
        bound = {str(index): value for index, value in enumerate(call.args)} | call.kwargs
    paths = [(name, path, leaf) for name, value in bound.items() for path, leaf in pytree.tree_flatten_with_path(value)[0]]
    names = [f"{name}{pytree.keystr(path)}" for name, path, leaf in paths if isinstance(leaf, torch.Tensor)]
    return names if len(names) == len(call.tensors()) else [str(index) for index in range(len(call.tensors()))]


def loss_of(output: Any, call: ModelCall) -> Any:
    """The loss of what a model returned: by its criterion; else the sum that has the gradients which the step had; else the output."""
    if call.criterion is not None:
        loss = call.criterion(output)
        return loss * call.scale if call.scale != 1 else loss
    parts = float_results(output)
    weighted = [(parts[index] * gradient).sum() for index, gradient in call.gradients.items() if index < len(parts)]
    if not weighted:
        return output
    return weighted[0] if len(weighted) == 1 else torch.stack([part.to(weighted[0].dtype) for part in weighted]).sum()


def float_results(output: Any) -> list[torch.Tensor]:
    """The floating-point tensors of a result, in the order in which torch flattens it; of an object, those of its attributes."""
    leaves = pytree.tree_leaves(output)
    if not any(isinstance(leaf, torch.Tensor) for leaf in leaves):
        leaves = [part for leaf in leaves if hasattr(leaf, "__dict__") for part in pytree.tree_leaves(dict(vars(leaf)))]
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.is_floating_point()]
