"""Hooks that leave no trace: copies of a watched model have dead ones, and `torch.autograd.backward` is its own again at the end."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch.nn.modules.module import _global_forward_hooks_with_kwargs, register_module_forward_hook


class Hook:
    """A hook on a model. A copy, as in a copy of the model or in a file, does nothing."""

    def __init__(self, function: Callable[..., Any] | None = None) -> None:
        self._function = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return None if self._function is None else self._function(*args, **kwargs)

    def __deepcopy__(self, memo: Any) -> Hook:
        return Hook()

    def __reduce__(self) -> tuple[Any, ...]:
        return Hook, ()


class ModuleCalls:
    """Calls of all modules while it is open: those between the result of a model and the backward pass may make the loss.

    notice: gets the module, its arguments and its result; None where some are compiled: torch warns of hooks on all modules then.
    """

    def __init__(self, notice: Callable[..., None] | None) -> None:
        self._notice = notice
        self._hook: Any = None

    def open(self) -> None:
        if self._hook is None and self._notice is not None:
            self._hook = register_module_forward_hook(self._notice, with_kwargs=True)

    def close(self) -> None:
        if self._hook is not None:
            self._hook.remove()
            _global_forward_hooks_with_kwargs.pop(self._hook.id, None)  # which torch 2.13 forgets
            self._hook = None


class FollowsBackward(Protocol):
    """Receiver of notices around each call of `torch.autograd.backward`."""

    def before_backward(self, tensors: Any) -> None: ...

    def after_backward(self) -> None: ...


_followers: list[FollowsBackward] = []
_changing = threading.Lock()
_plain = torch.autograd.backward


def _followed(tensors: Any, *args: Any, **kwargs: Any) -> Any:
    following = list(_followers)
    for follower in following:
        follower.before_backward(tensors)
    result = _plain(tensors, *args, **kwargs)
    for follower in following:
        follower.after_backward()
    return result


def follow_backward(follower: FollowsBackward) -> None:
    """Begins to notify it. The first follower puts our function in the place of torch's, the last to leave takes it away."""
    global _plain
    with _changing:
        if not _followers and torch.autograd.backward is not _followed:
            _plain = torch.autograd.backward
            torch.autograd.backward = _followed
        _followers.append(follower)


def leave_backward(follower: FollowsBackward) -> None:
    """Ends the notices."""
    with _changing:
        _followers.remove(follower)
        if not _followers and torch.autograd.backward is _followed:
            torch.autograd.backward = _plain
