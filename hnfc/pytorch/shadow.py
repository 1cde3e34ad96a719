"""A second tree of modules on the same tensors: torch.export swaps parameters and hooks of what it traces, which other threads may run."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from types import CellType, FunctionType, MethodType
from typing import Any
from unittest import mock

import torch
from torch.fx import _symbolic_trace

_HOOKS = (
    "_forward_hooks", "_forward_hooks_with_kwargs", "_forward_hooks_always_called", "_forward_pre_hooks",
    "_forward_pre_hooks_with_kwargs", "_backward_hooks", "_backward_pre_hooks",
)  # fmt: skip


def shadow(model: torch.nn.Module, tensors: Mapping[int, torch.Tensor] | None = None) -> torch.nn.Module:
    """The model as other objects, submodules too, with the same parameters, buffers and attributes. Hooks on the model itself are left out:
    they run around a graph, not in it. tensors: others in the place of some, by the identity of these."""
    copied: torch.nn.Module = _Copies(model, tensors or {}).of(model)
    for name in _HOOKS:
        copied.__dict__[name] = type(copied.__dict__[name])()
    return copied


class _Copies:
    """Copies of the modules of a tree, and of what refers to them: containers, methods, partial calls and closures."""

    def __init__(self, model: torch.nn.Module, tensors: Mapping[int, torch.Tensor]) -> None:
        self._known: dict[int, Any] = dict(tensors)
        self._kept: list[Any] = []
        modules = [module for module in model.modules() if not isinstance(module, torch.jit.ScriptModule)]
        for module in modules:
            self._known[id(module)] = object.__new__(type(module))
        for module in modules:
            self._known[id(module)].__dict__.update({name: self.of(value) for name, value in module.__dict__.items()})

    def of(self, value: Any) -> Any:
        found = self._known.get(id(value))
        if found is not None:
            return found
        made = self._made(value)
        if made is not value:
            self._known[id(value)] = made
            self._kept.append(value)  # its id stays its own
        return made

    def _made(self, value: Any) -> Any:
        if type(value) is list:
            items = self._known[id(value)] = list[Any]()
            items += map(self.of, value)
            return items
        if isinstance(value, dict):
            entries = self._known[id(value)] = value.copy()
            entries.update({name: self.of(item) for name, item in value.items()})
            return entries
        if type(value) is tuple:
            parts = tuple(map(self.of, value))
            return value if all(a is b for a, b in zip(parts, value, strict=True)) else parts
        if isinstance(value, MethodType):
            owner = self.of(value.__self__) if id(value.__self__) in self._known else value.__self__
            return value if owner is value.__self__ else MethodType(value.__func__, owner)
        if type(value) is partial:
            arguments = self.of(value.args)
            function = self.of(value.func)
            return value if arguments is value.args and function is value.func else partial(function, *arguments, **value.keywords)
        if isinstance(value, FunctionType) and value.__closure__:
            return self._function(value)
        return value

    def _function(self, function: FunctionType) -> FunctionType:
        self._known[id(function)] = function  # one that names itself
        try:
            contents = [cell.cell_contents for cell in function.__closure__ or ()]
        except ValueError:
            return function
        cells = tuple(map(self.of, contents))
        if all(a is b or isinstance(b, list | dict) for a, b in zip(cells, contents, strict=True)):
            return function
        made = FunctionType(function.__code__, function.__globals__, function.__name__, function.__defaults__, tuple(map(CellType, cells)))
        made.__kwdefaults__ = function.__kwdefaults__
        made.__dict__.update(function.__dict__)
        return made


@contextlib.contextmanager
def in_this_thread() -> Iterator[None]:
    """Keeps what torch.fx does to the classes of modules while it traces from the calls of other threads."""
    me, patch = threading.get_ident(), _symbolic_trace._Patcher.patch_method

    def patched(self: Any, cls: type, name: str, new: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        old = getattr(cls, name)

        def called(*given: Any, **named: Any) -> Any:
            return (new if threading.get_ident() == me else old)(*given, **named)

        called.__dict__.update(new.__dict__)
        return patch(self, cls, name, called, *args, **kwargs)

    with mock.patch.object(_symbolic_trace._Patcher, "patch_method", patched):
        yield
