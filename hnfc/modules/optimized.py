"""The module that `hnfc.optimize` returns: the class and the tensors of the original, and a rewritten graph for each kind of call."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from types import FunctionType
from typing import Any, Protocol, TypeAlias

import torch
from torch.utils import _pytree as pytree

from hnfc.errors import ModelError, UsageError
from hnfc.modules.program import Program
from hnfc.rewriter import Settings

MOST_PROGRAMS = 16
"""Kinds of calls that are captured; the original answers further ones."""
Arguments: TypeAlias = tuple[tuple[Any, ...], dict[str, Any]]


class Answers(Protocol):
    """What answers the calls of a module."""

    def __call__(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any: ...

    def forget_others(self, module: Any) -> None:
        """Is told that the module's tensors are of another type or in another place."""


class Optimized:
    """What the class of an optimized module has before the class of the original.

    Its `__dict__` starts as that of the original, so parameters, buffers and submodules are the same objects under the same names.
    """

    _hnfc: Answers

    def __reduce_ex__(self, protocol: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return wrapped, (plain(self), self._hnfc)

    def _apply(self, function: Any, *args: Any, **kwargs: Any) -> Any:
        """Moves and casts what `to`, `cuda`, `half` … move and cast; graphs are captured anew where tensors are of another kind."""
        result = super()._apply(function, *args, **kwargs)  # type: ignore[misc]
        self._hnfc.forget_others(self)
        return result


def optimized(model: torch.nn.Module, sample: Any, settings: Settings) -> torch.nn.Module:
    """See `hnfc.optimize`. The first graph, for the sample and the mode that the model is in, is made now."""
    if isinstance(model, torch.jit.ScriptModule):
        raise UsageError("a TorchScript module has no Python to capture; give hnfc the nn.Module that it was scripted from")
    if not isinstance(model, torch.nn.Module):
        raise UsageError(f"hnfc.optimize takes an nn.Module, not {type(model).__name__}; wrap a function in a module's forward")
    if isinstance(model, Optimized):
        model = plain(model)
    args, kwargs = arguments_of(sample)
    _warn_of_hooks(model)
    programs = Programs(settings)
    programs.add(Program.of(model, args, kwargs, settings))
    return wrapped(model, programs)


def arguments_of(sample: Any) -> Arguments:
    """Positional and keyword arguments: of a tensor, a tuple or list of positional ones, or a mapping of keyword ones."""
    if isinstance(sample, Mapping):
        return (), {str(name): value for name, value in sample.items()}
    if isinstance(sample, tuple | list):
        return tuple(sample), {}
    return (sample,), {}


def wrapped(model: torch.nn.Module, programs: Answers) -> torch.nn.Module:
    """A module with the class and the tensors of `model` whose calls the programs answer."""
    kind: Any = type(model)
    result: Any = object.__new__(_class_for(kind))
    result.__dict__.update(model.__dict__)
    result.__dict__["_hnfc"] = programs
    return result  # type: ignore[no-any-return]


def _forward(self: Any, *args: Any, **kwargs: Any) -> Any:
    return self._hnfc(self, args, kwargs)


@cache
def _class_for(original: Any) -> type:
    # torch.compile counts recompilations by code object: each class has one of its own
    forward = FunctionType(_forward.__code__.replace(), _forward.__globals__, "forward")
    names = {"__module__": original.__module__, "__qualname__": original.__qualname__, "forward": forward}
    return type(original.__name__, (Optimized, original), names)


def plain(module: Any) -> torch.nn.Module:
    """The original behind an optimized module, on the same tensors."""
    original = next(cls for cls in type(module).__mro__[1:] if cls is not Optimized and not issubclass(cls, Optimized))
    result: Any = object.__new__(original)
    result.__dict__.update({name: value for name, value in module.__dict__.items() if name != "_hnfc"})
    return result  # type: ignore[no-any-return]


class Programs:
    """The graphs of a module, one for each kind of call that came so far."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.known: list[Program] = []
        self._refused: set[str] = set()

    def add(self, program: Program) -> None:
        self.known.append(program)

    def __call__(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        inputs, structure = pytree.tree_flatten((args, kwargs))
        for program in self.known:
            if program.accepts(module, inputs, structure):
                tensors = program.signature.gather(module, inputs)
                if program.fits_state(tensors):
                    return program.run(module, inputs, tensors)
        return self._new(module, args, kwargs)

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def _new(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Captures a kind of call that comes for the first time, and answers it; by the original, with a warning, where that fails."""
        original = plain(module)
        if len(self.known) >= MOST_PROGRAMS:
            self._refuse(f"more than {MOST_PROGRAMS} kinds of calls came; give `dynamic_shapes` to hnfc.optimize")
            return original(*args, **kwargs)
        reasons = []
        for settings in self._to_try(original, args, kwargs):
            try:
                program = Program.of(original, args, kwargs, settings)
            except (ModelError, UsageError) as error:
                reasons.append(str(error))
                continue
            self.add(program)
            leaves = pytree.tree_leaves((args, kwargs))
            return program.run(module, leaves, program.signature.gather(module, leaves))
        self._refuse(reasons[-1])
        return original(*args, **kwargs)

    def _to_try(self, original: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[Settings]:
        """The settings with those sizes dynamic that differ from the sizes of a call before; then as they are."""
        inputs, structure = pytree.tree_flatten((args, kwargs))
        for program in self.known if self.settings.dynamic_shapes is None else ():
            changed = program.changed_sizes(inputs, structure)
            if changed is not None:
                shapes = inspect.signature(original.forward).bind(*changed[0], **changed[1]).arguments
                yield replace(self.settings, dynamic_shapes=dict(shapes))
                break
        yield self.settings

    def _refuse(self, reason: str) -> None:
        if reason not in self._refused:
            self._refused.add(reason)
            warnings.warn(f"hnfc: this call runs the original model: {reason}", stacklevel=4)

    def forget_others(self, module: Any) -> None:
        """Drops graphs whose tensors the module no longer has in their type and place."""
        self.known = [program for program in self.known if program.fits_state(program.signature.state(module))]


def _warn_of_hooks(model: torch.nn.Module) -> None:
    for name, module in model.named_modules():
        if name and (module._forward_hooks or module._forward_pre_hooks or module._backward_hooks):
            warnings.warn(f"hnfc: hooks on submodules do not run in the optimized module: {name} has one", stacklevel=4)
            return


def programs_of(module: Any) -> Sequence[Program]:
    """The graphs of an optimized module. Raises UsageError for any other."""
    if not isinstance(module, Optimized) or not isinstance(module._hnfc, Programs):
        raise UsageError("this module does not come from hnfc.optimize")
    return module._hnfc.known
