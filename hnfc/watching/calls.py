"""One call of a model in training with all that its result depends on, so that it can be made again."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils import _pytree as pytree


@dataclass
class Criterion:
    """The function that made the loss: of what the model returned at `place` among the arguments, and of the others."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    place: int
    """Among the arguments, of what the model returned."""
    path: tuple[Any, ...] = ()
    """From what the model returned to the argument, if it returned several things."""

    def __call__(self, output: Any) -> Any:
        given = list(self.args)
        given[self.place] = _part(output, self.path)
        return self.function(*given, **self.kwargs)


@dataclass
class Conditions:
    """State that a call reads besides its arguments: buffers before it, random states, autocast and the modes of modules."""

    buffers: dict[str, torch.Tensor]
    random: list[torch.Tensor]
    autocast: dict[str, torch.dtype]
    training: list[bool]

    @staticmethod
    def now(model: torch.nn.Module) -> Conditions:
        return Conditions(
            {name: buffer.detach().clone() for name, buffer in model.named_buffers()},
            [torch.get_rng_state(), *(torch.cuda.get_rng_state_all() if torch.cuda.is_available() else ())],
            {device: torch.get_autocast_dtype(device) for device in ("cpu", "cuda") if torch.is_autocast_enabled(device)},
            [part.training for part in model.modules()],
        )

    @contextlib.contextmanager
    def restored(self, model: torch.nn.Module) -> Iterator[None]:
        """Gives the model and torch this state, and their own back afterwards."""
        before = Conditions.now(model)
        with torch.random.fork_rng(), contextlib.ExitStack() as stack:
            for device in ("cpu", "cuda"):
                stack.enter_context(torch.autocast(device, self.autocast.get(device), enabled=device in self.autocast))
            self.put_into(model)
            try:
                yield
            finally:
                before.put_into(model)

    def put_into(self, model: torch.nn.Module) -> None:
        with torch.no_grad():
            for name, buffer in model.named_buffers():
                if name in self.buffers:
                    buffer.copy_(self.buffers[name])
        for part, training in zip(model.modules(), self.training, strict=False):
            part.training = training
        torch.set_rng_state(self.random[0].cpu())
        if torch.cuda.is_available() and len(self.random) > 1:
            torch.cuda.set_rng_state_all([state.cpu() for state in self.random[1:]])


@dataclass
class ModelCall:
    """A call of the model. gradients: those of the loss by what the model returned, where nothing is known of the loss."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    conditions: Conditions
    criterion: Criterion | None = None
    gradients: dict[int, torch.Tensor] = field(default_factory=dict)
    scale: float = 1.0
    """The factor of the loss before its gradients are taken."""
    versions: list[int] = field(default_factory=list)

    @staticmethod
    def now(model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> ModelCall:
        call = ModelCall(args, kwargs, Conditions.now(model))
        call.versions = [tensor._version for tensor in call.tensors()]
        return call

    def tensors(self) -> list[torch.Tensor]:
        return [leaf for leaf in pytree.tree_leaves((self.args, self.kwargs)) if isinstance(leaf, torch.Tensor)]

    @property
    def is_as_it_was(self) -> bool:
        """Return whether no argument was changed in place since the call."""
        return [tensor._version for tensor in self.tensors()] == self.versions


class Step(torch.nn.Module):
    """A call as a module of its tensors: its result is the loss, or what stands for it."""

    def __init__(self, model: torch.nn.Module, call: ModelCall) -> None:
        super().__init__()
        self.model = model
        self._call = call
        leaves, self._structure = pytree.tree_flatten((call.args, call.kwargs))
        self._places = [index for index, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
        self._leaves = [None if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        self.input_names = _input_names(model, call)

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
    """The loss of what a model returned: by the criterion, the result called `loss`, a single number, or the sum that has its gradients."""
    if call.criterion is not None:
        loss = call.criterion(output)
    else:
        loss = named_loss(output)
    if loss is not None:
        return loss * call.scale if call.scale != 1 else loss
    parts = float_results(output)
    if not call.gradients:
        return output
    weighted = [(part * call.gradients[index]).sum() for index, part in enumerate(parts) if index in call.gradients]
    return torch.stack([part.float() for part in weighted]).sum()


def named_loss(output: Any) -> torch.Tensor | None:
    """The loss among what a model returns, if it computes one."""
    loss = output.get("loss") if hasattr(output, "get") else None
    if isinstance(loss, torch.Tensor):
        return loss
    return output if isinstance(output, torch.Tensor) and output.dim() == 0 else None


def float_results(output: Any) -> list[torch.Tensor]:
    """The floating-point tensors of a result, in the order in which torch flattens it."""
    return [leaf for leaf in pytree.tree_leaves(output) if isinstance(leaf, torch.Tensor) and leaf.is_floating_point()]


def path_to(output: Any, wanted: Any) -> tuple[Any, ...] | None:
    """Path in a result to this very tensor; None if it is not there."""
    if output is wanted:
        return ()
    return next((path for path, leaf in pytree.tree_flatten_with_path(output)[0] if leaf is wanted), None)


def _part(output: Any, path: Sequence[Any]) -> Any:
    for key in path:
        output = key.get(output)
    return output
