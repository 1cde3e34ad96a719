"""State that a captured graph took from a module besides its tensors: numbers, flags, submodules, tensors that are no parameters.

Capturing reads them as they are. They are looked at again before the graph answers, so that a changed one means a new capture.
"""

from __future__ import annotations

import dis
import sys
import types
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Protocol

import torch

from hnfc.frontend.places import is_own

_SIMPLE = (int, float, complex, bool, str, bytes, type(None), torch.dtype, torch.device)
INTERNAL = frozenset((
    "training", "_parameters", "_buffers", "_modules", "_non_persistent_buffers_set", "_backward_pre_hooks", "_backward_hooks",
    "_is_full_backward_hook", "_forward_hooks", "_forward_hooks_with_kwargs", "_forward_hooks_always_called", "_forward_pre_hooks",
    "_forward_pre_hooks_with_kwargs", "_state_dict_hooks", "_state_dict_pre_hooks", "_load_state_dict_pre_hooks",
    "_load_state_dict_post_hooks", "_hnfc", "_compiled_call_impl", "call_super_init", "dump_patches",
))  # fmt: skip
CONTAINERS = (dict, list, tuple, set, frozenset)
_MOST = 4_000
_MOST_GLOBAL = 256
"""Elements of a container outside the instances that is looked at on every call."""
_DEPTH = 3
_MISSING = object()
_FOREIGN = sys.stdlib_module_names | {"torch", "hnfc"}
"""Packages whose classes hold nothing of a model's own."""


class Names(Protocol):
    """Values by name."""

    def get(self, name: str, default: Any = None, /) -> Any: ...


_ROOT: dict[str, Any] = {}
"""Placeholder for the attributes of the module in question: a copy of it has its own."""


@dataclass
class Guards:
    """Snapshot of entries of dictionaries, contents of containers, numbers of submodules, and names of one tensor."""

    entries: list[tuple[Names, str, Any]] = field(default_factory=list)
    contents: list[tuple[Names, str, Any]] = field(default_factory=list)
    sizes: list[tuple[Mapping[Any, Any], int]] = field(default_factory=list)
    tied: list[tuple[str, str]] = field(default_factory=list)

    @staticmethod
    def of(module: torch.nn.Module) -> Guards:
        """Snapshot of the module."""
        found = Guards(tied=_ties(module))
        seen: set[int] = set()
        read = _Reading()
        for part in module.modules():
            found._children(part._modules)
            for tensors in (part._parameters, part._buffers):
                found.sizes.append((tensors, len(tensors)))
                found.entries += [(tensors, name, None) for name, tensor in tensors.items() if tensor is None]
            for hooks in (part._forward_pre_hooks, part._forward_hooks) if part is not module else ():
                found.sizes.append((hooks, len(hooks)))
            found._attributes(vars(part), seen, 0, _ROOT if part is module else vars(part))
            read.of_class(type(part))
            for value in vars(part).values():
                read.of_function(getattr(value, "__func__", value))
        for values, names in read.found:
            found._attributes({name: values.get(name) for name in names if _is_state(values.get(name))}, seen, _DEPTH - 1, values)
        return found

    def _children(self, modules: dict[str, Any]) -> None:
        self.entries += [(modules, name, child) for name, child in modules.items()]
        self.sizes.append((modules, len(modules)))

    def _attributes(self, values: dict[str, Any], seen: set[int], depth: int, at: Names) -> None:
        if id(at) in seen or depth > _DEPTH or len(self.entries) > _MOST:
            return
        if at is not _ROOT:
            seen.add(id(at))
        for name, value in values.items():
            if name in INTERNAL or isinstance(value, torch.nn.Module | types.ModuleType):
                continue
            if isinstance(value, CONTAINERS):
                self.contents.append((at, name, frozen(value)))
                self._objects(value, seen, depth)
                continue
            self.entries.append((at, name, value))
            self._object(value, seen, depth)

    def _object(self, value: Any, seen: set[int], depth: int) -> None:
        """The attributes of a plain object, as a configuration is one."""
        known = isinstance(value, (*_SIMPLE, torch.Tensor, torch.nn.Module, type, types.FunctionType, types.MethodType))
        if not known and isinstance(getattr(value, "__dict__", None), dict):
            self._attributes(vars(value), seen, depth + 1, vars(value))
        slots = [] if known else [name for base in type(value).__mro__ for name in _slots(base) if hasattr(value, name)]
        if slots:
            self._attributes({name: getattr(value, name) for name in slots}, seen, depth + 1, _Slots(value))

    def _objects(self, container: Any, seen: set[int], depth: int) -> None:
        for item in container.values() if isinstance(container, dict) else container:
            self._object(item, seen, depth + 1)

    def hold(self, module: torch.nn.Module) -> bool:
        """Return whether all of it is as it was."""
        root = module.__dict__
        for values, name, value in self.entries:
            now = (root if values is _ROOT else values).get(name, _MISSING)
            if not is_same(now, value):
                return False
        for values, name, contents in self.contents:
            now = (root if values is _ROOT else values).get(name, _MISSING)
            if not isinstance(now, CONTAINERS) or frozen(now) != contents:
                return False
        return all(len(values) == size for values, size in self.sizes) and all(
            _tensor(module, a) is _tensor(module, b) for a, b in self.tied
        )


def is_same(now: Any, before: Any) -> bool:
    """Return whether two values count as one: the same object, or equal numbers and strings of one type. 0 and -0 are two."""
    if now is before:
        return True
    if type(now) is not type(before) or not isinstance(now, _SIMPLE):
        return False
    return repr(now) == repr(before) if isinstance(now, float | complex) else bool(now == before)


def frozen(value: Any, depth: int = 0) -> Any:
    """Comparable contents of a container: numbers and strings by value, the rest by identity. torch.export puts copies of containers
    in the place of those of a module."""
    if isinstance(value, _SIMPLE):
        return type(value), repr(value) if isinstance(value, float | complex) else value
    if not isinstance(value, CONTAINERS) or depth > _DEPTH:
        return id(value)
    if isinstance(value, dict):
        return tuple((name if isinstance(name, _SIMPLE) else id(name), frozen(item, depth + 1)) for name, item in value.items())
    if isinstance(value, set | frozenset):
        return frozenset(frozen(item, depth + 1) for item in value)
    return type(value), tuple(frozen(item, depth + 1) for item in value)


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


def _slots(kind: type) -> tuple[str, ...]:
    """The slots that a class of the model's own declares."""
    declared = vars(kind).get("__slots__", ()) if kind.__module__.split(".")[0] not in _FOREIGN else ()
    names = (declared,) if isinstance(declared, str) else tuple(declared)
    return tuple(name for name in names if not name.startswith("__"))


class _Slots:
    """The slots of an object."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def get(self, name: str, default: Any = None, /) -> Any:
        return getattr(self.value, name, default)


class _Cells:
    """The variables of outer functions that a function names."""

    def __init__(self, function: types.FunctionType) -> None:
        self.cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))

    def get(self, name: str, default: Any = None, /) -> Any:
        try:
            return self.cells[name].cell_contents
        except (KeyError, ValueError):
            return default


class _Reading:
    """The names outside the instances that own code reads: attributes of classes, globals, and variables of outer functions."""

    def __init__(self) -> None:
        self.found: list[tuple[Names, frozenset[str]]] = []
        self._seen: set[int] = set()

    def of_class(self, kind: type) -> None:
        for base in kind.__mro__:
            if id(base) in self._seen or base.__module__.split(".")[0] in _FOREIGN:
                continue
            self._seen.add(id(base))
            self.found.append((_View(vars(base)), frozenset(name for name in vars(base) if not name.startswith("__"))))
            for value in vars(base).values():
                for part in (value.fget, value.fset) if isinstance(value, property) else (getattr(value, "__func__", value),):
                    self.of_function(part)

    def of_function(self, function: Any) -> None:
        """Reads of a function, and of the functions that it names."""
        if not isinstance(function, types.FunctionType) or id(function) in self._seen or len(self._seen) > _MOST:
            return
        self._seen.add(id(function))
        if not is_own(function.__code__.co_filename):
            return
        cells = _Cells(function)
        outside = _View(function.__globals__)
        read: list[tuple[Names, Collection[str]]] = [
            (outside, _named(function.__code__) & function.__globals__.keys()), (cells, cells.cells.keys()),
        ]  # fmt: skip
        for values, names in read:
            if names:
                self.found.append((values, frozenset(names)))
            for name in names:
                self.of_function(values.get(name))


class _View:
    """Access to names of a dictionary."""

    def __init__(self, values: Any) -> None:
        self.values = values

    def get(self, name: str, default: Any = None, /) -> Any:
        return self.values.get(name, default)


@cache
def _named(code: types.CodeType) -> frozenset[str]:
    """The globals that a function and those written inside it name; attributes are none of them."""
    inner = (_named(part) for part in code.co_consts if isinstance(part, types.CodeType))
    return frozenset(step.argval for step in dis.get_instructions(code) if step.opname in ("LOAD_GLOBAL", "LOAD_NAME")).union(*inner)


def _is_state(value: Any) -> bool:
    """Return whether a value outside the instances may be what an answer depends on: a number, a tensor, a small container, or an object
    of a class of the model's own."""
    if isinstance(value, CONTAINERS):
        return len(value) <= _MOST_GLOBAL
    if isinstance(value, (*_SIMPLE, torch.Tensor, types.FunctionType)):
        return True
    home = type(value).__module__.split(".")[0]
    return hasattr(value, "__dict__") and not isinstance(value, type) and home not in _FOREIGN
