"""From the inputs of a model to the arguments of its captured function, and from that function's results to the model's."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch


@dataclass(frozen=True)
class State:
    """An argument that is a parameter or buffer of the model, by its name in it."""

    name: str


@dataclass(frozen=True)
class Given:
    """An argument that the caller gives: its place among the flattened inputs, and what it is called."""

    index: int
    name: str


@dataclass(frozen=True, eq=False)
class TensorConstant:
    """An argument that is a tensor of the model which no name leads to."""

    tensor: torch.Tensor


Source: TypeAlias = State | Given | TensorConstant


@dataclass(frozen=True)
class Mutation:
    """A result that is the new value of a buffer or of an input."""

    target: State | Given


@dataclass(frozen=True)
class Returned:
    """A result that the model returns."""


@dataclass(frozen=True)
class FixedResult:
    """Something that the model returns and that is the same on every call: a number, a string, None."""

    value: Any


@dataclass(frozen=True)
class Gradient:
    """A result that is the gradient of the loss with respect to a parameter or an input."""

    of: State | Given


Sink: TypeAlias = Mutation | Returned | FixedResult | Gradient


@dataclass(frozen=True)
class Signature:
    """One source for each argument of the function; one sink for each of its results, with fixed ones between them."""

    arguments: tuple[Source, ...]
    results: tuple[Sink, ...]

    def gather(self, module: Any, inputs: Sequence[Any]) -> list[Any]:
        """The arguments for flattened inputs of `module`. What will be written over is copied where autograd may keep it."""
        changing = {sink.target for sink in self.results if isinstance(sink, Mutation)} if torch.is_grad_enabled() else set()
        found = [self.argument(module, inputs, source) for source in self.arguments]
        return [t.clone() if s in changing else t for s, t in zip(self.arguments, found, strict=True)] if changing else found

    def state(self, module: Any) -> list[Any]:
        """The parameters and buffers among the arguments; None for the others."""
        return [tensor_of(module, source.name) if isinstance(source, State) else None for source in self.arguments]

    def argument(self, module: Any, inputs: Sequence[Any], source: Source) -> Any:
        if isinstance(source, State):
            return tensor_of(module, source.name)
        return inputs[source.index] if isinstance(source, Given) else source.tensor

    def writes_shared(self, module: Any, inputs: Sequence[Any]) -> bool:
        """Return whether a tensor that is written over shares memory with another argument, which a graph would not see change."""
        targets = {sink.target for sink in self.results if isinstance(sink, Mutation)}
        if not targets:
            return False
        if not any(isinstance(target, Given) for target in targets):
            # the memory of parameters and buffers was apart when the graph was captured; inputs may be any of it
            given = {memory_of(inputs[source.index]) for source in self.arguments if isinstance(source, Given)}
            changing = (memory_of(self.argument(module, inputs, target)) for target in targets)
            if not torch.compiler.is_compiling() and given.isdisjoint(changing):
                return False
        found = [(self.argument(module, inputs, source), source in targets) for source in self.arguments]
        if torch.compiler.is_compiling():
            # Dynamo cannot trace addresses
            return any(a is b for i, (a, written) in enumerate(found) for b, too in found[:i] if written or too)
        extents = sorted((*extent, written) for tensor, written in found if (extent := _extent(tensor)))
        end, written_end = 0, 0
        for start, stop, written in extents:
            if start < (end if written else written_end):
                return True
            end = max(end, stop)
            written_end = max(written_end, stop) if written else written_end
        return False

    def scatter(self, module: Any, inputs: Sequence[Any], results: Iterable[Any]) -> list[Any]:
        """Results of the model, flattened; new values of buffers and inputs are written to them, and returned as these."""
        found = iter(results)
        returned: list[Any] = []
        written: dict[int, tuple[Any, Any]] = {}  # both live on, so that no identity is given again
        for sink in self.results:
            if isinstance(sink, FixedResult):
                returned.append(sink.value)
            elif isinstance(sink, Mutation):
                value = next(found)
                target = self.argument(module, inputs, sink.target)
                with torch.set_grad_enabled(torch.is_grad_enabled() and value.requires_grad):
                    target.copy_(value)
                written[id(value)] = value, target
            else:
                result = next(found)
                returned.append(written.get(id(result), (result, result))[1])
        return returned


def memory_of(tensor: Any) -> int:
    """The address of a tensor's storage; of the object, where it has none of its own."""
    try:
        return int(tensor.untyped_storage()._cdata) if isinstance(tensor, torch.Tensor) else id(tensor)
    except (RuntimeError, NotImplementedError):
        return id(tensor)


def _extent(tensor: Any) -> tuple[int, int] | None:
    """The addresses between which a tensor lies; None for one without memory of its own, as those of torch.func and sparse ones."""
    try:
        start = tensor.data_ptr() if isinstance(tensor, torch.Tensor) and tensor.numel() else 0
        last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True)) if start else 0
    except (RuntimeError, NotImplementedError):
        return None
    return (start, start + (last + 1) * tensor.element_size()) if start else None


def tensor_of(module: Any, name: str) -> Any:
    """The parameter or buffer of that name; looked up where modules keep them, which is much faster than as attributes."""
    *path, last = name.split(".")
    for part in path:
        module = module._modules[part] if part in module._modules else getattr(module, part)
    if last in module._parameters:
        return module._parameters[last]
    return module._buffers[last] if last in module._buffers else getattr(module, last)
