"""State that a captured graph took from a module besides its tensors: numbers, flags, submodules, tensors that are no parameters.

Capturing reads them as they are. They are looked at again before the graph answers, so that a changed one means a new capture.
"""

from __future__ import annotations

import types
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import torch

_TORCH = str(Path(torch.__file__).parent)
_SIMPLE = (int, float, complex, bool, str, bytes, type(None), torch.dtype, torch.device)
_INTERNAL = frozenset((
    "training", "_parameters", "_buffers", "_modules", "_non_persistent_buffers_set", "_backward_pre_hooks", "_backward_hooks",
    "_is_full_backward_hook", "_forward_hooks", "_forward_hooks_with_kwargs", "_forward_hooks_always_called", "_forward_pre_hooks",
    "_forward_pre_hooks_with_kwargs", "_state_dict_hooks", "_state_dict_pre_hooks", "_load_state_dict_pre_hooks",
    "_load_state_dict_post_hooks", "_hnfc", "_compiled_call_impl", "call_super_init", "dump_patches",
))  # fmt: skip
_CONTAINERS = (dict, list, tuple, set, frozenset)
_MOST = 4_000
_DEPTH = 3
_MISSING = object()


_ROOT: dict[str, Any] = {}
"""Stands for the attributes of the module that is asked about: a copy of it has its own."""


@dataclass
class Guards:
    """Snapshot of entries of dictionaries, contents of containers, numbers of submodules, and names of one tensor."""

    entries: list[tuple[dict[str, Any], str, Any]] = field(default_factory=list)
    contents: list[tuple[dict[str, Any], str, Any]] = field(default_factory=list)
    sizes: list[tuple[dict[str, Any], int]] = field(default_factory=list)
    tied: list[tuple[str, str]] = field(default_factory=list)

    @staticmethod
    def of(module: torch.nn.Module) -> Guards:
        """Snapshot of the module."""
        found = Guards(tied=_ties(module))
        seen: set[int] = set()
        kinds: set[type] = set()
        for part in module.modules():
            found._children(part._modules)
            found._attributes(vars(part), seen, 0, _ROOT if part is module else vars(part))
            kinds.add(type(part))
        for kind in kinds:
            for values, names in _globals_of(kind):
                found.entries += [(values, name, values[name]) for name in names if isinstance(values.get(name, ...), _SIMPLE)]
        return found

    def _children(self, modules: dict[str, Any]) -> None:
        self.entries += [(modules, name, child) for name, child in modules.items()]
        self.sizes.append((modules, len(modules)))

    def _attributes(self, values: dict[str, Any], seen: set[int], depth: int, at: dict[str, Any]) -> None:
        if id(values) in seen or depth > _DEPTH or len(self.entries) > _MOST:
            return
        seen.add(id(values))
        for name, value in values.items():
            if name in _INTERNAL or isinstance(value, torch.nn.Module | types.ModuleType):
                continue
            if isinstance(value, _CONTAINERS):
                self.contents.append((at, name, _frozen(value)))
                self._objects(value, seen, depth)
                continue
            self.entries.append((at, name, value))
            self._object(value, seen, depth)

    def _object(self, value: Any, seen: set[int], depth: int) -> None:
        """The attributes of a plain object, as a configuration is one."""
        known = isinstance(value, (*_SIMPLE, torch.Tensor, torch.nn.Module, type, types.FunctionType, types.MethodType))
        if not known and isinstance(getattr(value, "__dict__", None), dict):
            self._attributes(vars(value), seen, depth + 1, vars(value))

    def _objects(self, container: Any, seen: set[int], depth: int) -> None:
        for item in container.values() if isinstance(container, dict) else container:
            self._object(item, seen, depth + 1)

    def hold(self, module: torch.nn.Module) -> bool:
        """Return whether all of it is as it was."""
        root = module.__dict__
        for values, name, value in self.entries:
            now = (root if values is _ROOT else values).get(name, _MISSING)
            if now is not value and not _same(now, value):
                return False
        for values, name, frozen in self.contents:
            now = (root if values is _ROOT else values).get(name, _MISSING)
            if not isinstance(now, _CONTAINERS) or _frozen(now) != frozen:
                return False
        return all(len(values) == size for values, size in self.sizes) and all(
            _tensor(module, a) is _tensor(module, b) for a, b in self.tied
        )


def _same(now: Any, before: Any) -> bool:
    """Return whether two values count as one: the same object, or equal numbers and strings of one type."""
    if type(now) is not type(before) or not isinstance(now, _SIMPLE):
        return False
    return bool(now == before) or (isinstance(now, float) and now != now and before != before)


def _frozen(value: Any, depth: int = 0) -> Any:
    """Comparable contents of a container: numbers and strings by value, the rest by identity. torch.export puts copies of containers
    in the place of those of a module."""
    if isinstance(value, _SIMPLE):
        return type(value), value
    if not isinstance(value, _CONTAINERS) or depth > _DEPTH:
        return id(value)
    if isinstance(value, dict):
        return tuple((name if isinstance(name, _SIMPLE) else id(name), _frozen(item, depth + 1)) for name, item in value.items())
    if isinstance(value, set | frozenset):
        return frozenset(_frozen(item, depth + 1) for item in value)
    return type(value), tuple(_frozen(item, depth + 1) for item in value)


def _ties(module: torch.nn.Module) -> list[tuple[str, str]]:
    first: dict[int, str] = {}
    pairs = []
    for name, tensor in _named_tensors(module):
        if id(tensor) in first:
            pairs.append((first[id(tensor)], name))
        else:
            first[id(tensor)] = name
    return pairs


def _named_tensors(module: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    yield from module.named_parameters(remove_duplicate=False)
    yield from module.named_buffers(remove_duplicate=False)


def _tensor(module: torch.nn.Module, name: str) -> Any:
    part: Any = module
    for step in name.split("."):
        part = getattr(part, step, None)
    return part


@cache
def _globals_of(kind: type) -> tuple[tuple[dict[str, Any], frozenset[str]], ...]:
    """The globals that methods of a class name, for classes that are not torch's own."""
    found = []
    for base in kind.__mro__:
        for value in vars(base).values():
            if isinstance(value, types.FunctionType) and not value.__code__.co_filename.startswith(_TORCH):
                names = frozenset(value.__code__.co_names) & value.__globals__.keys()
                if names:
                    found.append((value.__globals__, frozenset(names)))
    return tuple(found)
