"""The module that `hnfc.optimize` returns: the class and the tensors of the original, and a rewritten graph for each kind of call."""

from __future__ import annotations

import contextlib
import inspect
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Any, Protocol, TypeAlias

import torch
from torch.utils import _pytree as pytree

from hnfc.core.arguments import check_kind
from hnfc.core.errors import ModelError, UsageError
from hnfc.frontend.pytorch import first_line
from hnfc.pytorch.locking import CAPTURES
from hnfc.pytorch.program import CapturedProgram, is_sharded
from hnfc.pytorch.saved_calls import saved_arguments
from hnfc.pytorch.settings import Settings
from hnfc.pytorch.untraced import untraced

_LARGE = 150
"""Operations of a model for which a capture takes longer than a caller wants to wait."""
MOST_PROGRAMS = 16
"""Kinds of calls that are captured; the original answers further ones."""
Arguments: TypeAlias = tuple[tuple[Any, ...], dict[str, Any]]


class Answers(Protocol):
    """Callable that answers the calls of a module."""

    def __call__(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any: ...

    def guard(self, module: Any) -> None:
        """Take the module for what it is now as the one that is called."""

    def forget_others(self, module: Any) -> None:
        """Handle a notice that the module's tensors are of another type or in another place."""


class Optimized:
    """Base of an optimized module's class, before the class of the original.

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
    check_kind(model, torch.nn.Module, "hnfc.optimize", advice="; wrap a function in a module's forward")
    if isinstance(model, Optimized):
        model = plain(model)
    args, kwargs = arguments_of(sample)
    _warn_of_hooks(model)
    programs = Programs(settings)
    with CAPTURES.capturing():
        program = CapturedProgram.of(model, args, kwargs, settings)
        result = wrapped(model, programs)
        program.guard(result)  # torch.export puts copies in the place of lists and dictionaries
        programs.add(program)
        programs.add_for_other_sizes(model, result, args, kwargs)
    return result


def arguments_of(sample: Any) -> Arguments:
    """Positional and keyword arguments: of a tensor, a tuple or list of positional ones, or a mapping of keyword ones; or those in the
    folder of a step that `hnfc.watch` saved, by its path."""
    if isinstance(sample, str | Path):
        return saved_arguments(Path(sample))
    if isinstance(sample, Mapping):
        return (), {str(name): value for name, value in sample.items()}
    if isinstance(sample, tuple | list):
        return tuple(sample), {}
    return (sample,), {}


_OWN_FORWARD = "_hnfc_forward"
"""The attribute that keeps a `forward` which was set on the original object itself; one that is set later is the caller's, around ours."""


def wrapped(model: torch.nn.Module, programs: Answers, same_call: bool = True) -> torch.nn.Module:
    """A module with the class and the tensors of `model` whose calls the programs answer. same_call: it is called as the model is."""
    kind: Any = type(model)
    result: Any = object.__new__(_class_for(kind, same_call))
    result.__dict__.update(model.__dict__)
    # as a deep copy has them: those of the original so far, and from now on its own
    result.__dict__.update({name: hooks.copy() for name, hooks in model.__dict__.items() if "hooks" in name and isinstance(hooks, dict)})
    if "forward" in result.__dict__:
        result.__dict__[_OWN_FORWARD] = result.__dict__.pop("forward")
    result.__dict__["_hnfc"] = programs
    programs.guard(result)
    return result  # type: ignore[no-any-return]


def _forward(self: Any, *args: Any, **kwargs: Any) -> Any:
    return self._hnfc(self, args, kwargs)


@cache
def _class_for(original: Any, same_call: bool) -> type:
    # torch.compile counts recompilations by code object: each class has one of its own
    forward = FunctionType(_forward.__code__.replace(), _forward.__globals__, "forward")
    with contextlib.suppress(TypeError, ValueError):
        # trainers look there for the names of inputs
        if same_call:
            forward.__signature__ = inspect.signature(original.forward)  # type: ignore[attr-defined]
    forward.__doc__ = original.forward.__doc__
    names = {"__module__": original.__module__, "__qualname__": original.__qualname__, "forward": forward, "_hnfc_original": original}
    return type(original.__name__, (Optimized, original), names)


def plain(module: Any) -> torch.nn.Module:
    """The original behind an optimized module, on the same tensors."""
    result: Any = object.__new__(type(module)._hnfc_original)
    result.__dict__.update({name: value for name, value in module.__dict__.items() if name not in ("_hnfc", "forward", _OWN_FORWARD)})
    if _OWN_FORWARD in module.__dict__:
        result.__dict__["forward"] = module.__dict__[_OWN_FORWARD]
    return result  # type: ignore[no-any-return]


class Programs:
    """The graphs of a module, one for each kind of call that came so far."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.known: list[CapturedProgram] = []
        self._refused: set[str] = set()

    def add(self, program: CapturedProgram) -> None:
        self.known.append(program)
        if self.settings.found is None:
            self.settings = replace(self.settings, found=program.report.found)

    def guard(self, module: Any) -> None:
        """Takes the module for what it is now, so that torch.compile does not trace how that is found out."""
        for program in self.known:
            program.guard(module)

    def add_for_other_sizes(self, model: torch.nn.Module, result: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Captures a larger model with its sizes open too, where torch.export can, so that no later call has to wait for it."""
        if self.known[0].report.data["operations"] >= _LARGE:
            self._add_with_open_sizes(model, result, args, kwargs)

    def _add_with_open_sizes(self, model: torch.nn.Module, result: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        first = self.known[0]
        if self.settings.dynamic_shapes is not None:
            return
        inputs, structure = pytree.tree_flatten((args, kwargs))
        axes = [_open_axes(given) for given in inputs]
        if not any(axes):
            return
        given = pytree.tree_unflatten(axes, structure)
        with contextlib.suppress(Exception):  # that sizes cannot be open is no fault: calls of other sizes are captured when they come
            shapes = dict(inspect.signature(model.forward).bind(*given[0], **given[1]).arguments)
            program = CapturedProgram.of(model, args, kwargs, replace(self.settings, dynamic_shapes=shapes), like=first)
            program.guard(result)
            self.add(program)

    def __call__(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        inputs, structure = pytree.tree_flatten((args, kwargs))
        # not `is_compiling`, which is true for all threads while one of them captures
        if torch.compiler.is_dynamo_compiling():
            found = self._answered(module, inputs, structure)
        else:
            with CAPTURES.running():
                found = self._answered(module, inputs, structure)
        return found[0] if found is not None else self._new(module, args, kwargs)

    def _answered(self, module: Any, inputs: list[Any], structure: Any) -> tuple[Any] | None:
        """The answer of the first graph that is for such a call, and still for such a module; None where there is none."""
        for program in self.known:
            with untraced():
                accepted = program.accepts(module, inputs, structure)
            if accepted:
                reason = program.failed or (program.other_gradients if torch.is_grad_enabled() else "")
                if reason:
                    return (self._original(module, inputs, structure, reason),)
                tensors = program.signature.gather(module, inputs)
                with untraced():
                    fits = program.fits_state(tensors)
                if fits:
                    return (self._run(program, module, inputs, structure, tensors),)
        return None

    def _run(self, program: CapturedProgram, module: Any, inputs: list[Any], structure: Any, tensors: list[Any]) -> Any:
        """The graph's answer; the original's, or what it raises, where the graph raises or would not see what it writes."""
        if program.signature.writes_shared(module, inputs):
            return self._original(module, inputs, structure, "it writes to a tensor that shares memory with another")
        if torch.compiler.is_compiling():
            return program.run(module, inputs, tensors)
        try:
            return program.run(module, inputs, tensors)
        except Exception as error:  # a call that the original can answer must not fail
            args, kwargs = pytree.tree_unflatten(inputs, structure)
            failure = error
        answer = plain(module).forward(*args, **kwargs)
        program.failed = f"its graph raises {first_line(failure)}"
        self._refuse(program.failed)
        return answer

    def _original(self, module: Any, inputs: list[Any], structure: Any, reason: str) -> Any:
        """The original's answer, which differs from that of the graph."""
        self._refuse(reason)
        args, kwargs = pytree.tree_unflatten(inputs, structure)
        return plain(module).forward(*args, **kwargs)

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def _new(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Captures a kind of call that comes for the first time, and answers it; by the original, with a warning, where that fails."""
        original = plain(module)
        if any(map(is_sharded, module.parameters())):
            self._refuse("parameters are sharded over devices")
            return original.forward(*args, **kwargs)
        with CAPTURES.capturing():
            inputs, structure = pytree.tree_flatten((args, kwargs))
            found = self._answered(module, inputs, structure)  # another thread may have captured it
            if found is not None:
                return found[0]
            with untraced():
                self._forget_stale(module)
                admitted = any(self._admits_ones(program, module, original, args, kwargs) for program in self.known)
            if admitted:
                found = self._answered(module, inputs, structure)
                if found is not None:
                    return found[0]
            if not all(program.reads.fit_layout(inputs) for program in self.known):
                self._refuse("it reads how its inputs lie in memory, and one of them is not contiguous")
                return original.forward(*args, **kwargs)
            with untraced():
                program = self._captured(module, original, args, kwargs)
                holds = program is not None and program.reads.hold(module, inputs)
            if program is not None and holds and not (program.other_gradients and torch.is_grad_enabled()):
                return self._run(program, module, inputs, structure, program.signature.gather(module, inputs))
            if program is not None and program.other_gradients:
                self._refuse(program.other_gradients)
        return original.forward(*args, **kwargs)

    def _admits_ones(self, program: CapturedProgram, module: Any, original: torch.nn.Module, args: Any, kwargs: Any) -> bool:
        return program.admits_ones(module, original, args, kwargs)

    def _captured(self, module: Any, original: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> CapturedProgram | None:
        if len(self.known) >= MOST_PROGRAMS:
            self._refuse(f"more than {MOST_PROGRAMS} kinds of calls came; give `dynamic_shapes` to hnfc.optimize")
            return None
        reason = ""
        for settings in self._to_try(original, args, kwargs):
            try:
                program = CapturedProgram.of(original, args, kwargs, settings)
            except (ModelError, UsageError) as error:
                reason = str(error)
            except Exception as error:  # a call that the original can answer must not fail
                reason = f"capturing it failed: {first_line(error)}"
            else:
                program.guard(module)
                self.add(program)
                return program
        self._refuse(reason)
        return None

    def _forget_stale(self, module: Any) -> None:
        """Drops graphs of a module that has changed since."""
        stale = [program for program in self.known if not program.holds_for(module)]
        if stale:
            self.known = [program for program in self.known if program not in stale]
            reason = next((text for program in stale if (text := program.left_range(module))), "")
            if reason:
                self._refuse(reason, "hnfc: the model is captured anew")

    def _to_try(self, original: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[Settings]:
        """The settings with those sizes dynamic that differ from the sizes of a call before; then as they are. Without the ranges of the
        sample where a call leaves them."""
        inputs, structure = pytree.tree_flatten((args, kwargs))
        beyond = self.settings.observed and not all(program.sees(inputs) for program in self.known)
        base = replace(self.settings, ranges=None, found=None) if beyond else self.settings
        for program in self.known if base.dynamic_shapes is None else ():
            changed = program.changed_sizes(inputs, structure)
            if changed is not None:
                shapes = inspect.signature(original.forward).bind(*changed[0], **changed[1]).arguments
                yield replace(base, dynamic_shapes=dict(shapes))
                break
        yield base

    def _refuse(self, reason: str, what: str = "hnfc: this call runs the original model") -> None:
        if reason not in self._refused:
            self._refused.add(reason)
            warnings.warn(f"{what}: {reason}", stacklevel=4)

    def forget_others(self, module: Any) -> None:
        """Drops graphs whose tensors the module no longer has in their type and place."""
        self.known = [program for program in self.known if program.fits_state(program.signature.state(module))]


def _open_axes(given: Any) -> dict[int, Any] | None:
    """The axes of a tensor that may have another size in another call; torch makes other graphs for sizes 0 and 1."""
    if not isinstance(given, torch.Tensor):
        return None
    return {axis: torch.export.Dim.AUTO for axis, size in enumerate(given.shape) if size > 1} or None


def _warn_of_hooks(model: torch.nn.Module) -> None:
    for name, module in model.named_modules():
        if name and (module._forward_hooks or module._forward_pre_hooks or module._backward_hooks):
            warnings.warn(f"hnfc: hooks on submodules do not run in the optimized module: {name} has one", stacklevel=4)
            return


def programs_of(module: Any) -> Sequence[CapturedProgram]:
    """The graphs of an optimized module. Raises UsageError for any other."""
    if not isinstance(module, Optimized) or not isinstance(module._hnfc, Programs):
        raise UsageError("this module does not come from hnfc.optimize")
    return module._hnfc.known
