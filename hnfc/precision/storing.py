"""A module whose parameters and buffers lie in their formats, and its graphs, which take them so."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.utils import _pytree as pytree

from hnfc.core.errors import ModelError
from hnfc.formats.observers import Stored
from hnfc.formats.packed import PackedTensor, is_packable, packed, packed_codes
from hnfc.formats.scaled import ceiling, split
from hnfc.frontend.signature import Mutation, State, tensor_of
from hnfc.precision.cast_insertion import DTYPES, Casts, is_plain_dtype
from hnfc.precision.compensation import compensated_codes
from hnfc.pytorch.optimized import Programs, arguments_of, plain, wrapped
from hnfc.pytorch.program import CapturedProgram
from hnfc.pytorch.settings import Settings


@dataclass(frozen=True)
class StoredState:
    """Formats of the parameters and buffers that a graph reads, and does not write, by their names; and the types that they had."""

    formats: Mapping[str, str]
    dtypes: Mapping[str, torch.dtype]
    places: tuple[int, ...]
    """Of their arguments among the nodes of the graph."""

    @staticmethod
    def of(model: torch.nn.Module, program: CapturedProgram, formats: Mapping[int, str]) -> StoredState:
        """formats: by the places of nodes, of which the first are the arguments. What has two names, and is read in two formats, stays."""
        written = {sink.target for sink in program.signature.results if isinstance(sink, Mutation)}
        nodes = list(program.graph.graph.nodes)
        arguments = [
            (place, source.name, tensor_of(model, source.name)) for place, source in enumerate(program.signature.arguments)
            if isinstance(source, State)
        ]  # fmt: skip
        wanted: dict[int, set[str | None]] = {}
        for place, name, tensor in arguments:
            if nodes[place].users or State(name) in written:
                wanted.setdefault(id(tensor), set()).add(None if State(name) in written else formats.get(place))
        found: dict[str, str] = {}
        places: list[int] = []
        for place, name, tensor in arguments:
            forms = wanted.get(id(tensor), set())
            form = next(iter(forms)) if len(forms) == 1 else None
            if form is not None and _fits(tensor, form):
                found[name] = form
                places.append(place)
        return StoredState(found, {name: tensor_of(model, name).dtype for name in found}, tuple(places))

    def stored(self, model: torch.nn.Module, samples: Sequence[Any] = ()) -> torch.nn.Module:
        """A copy of the model with these tensors in their formats. samples: for those that compensate errors."""
        codes = compensated_codes(model, self.formats, samples)
        made = {
            name: _stored(tensor_of(model, name), form) if name not in codes else _of_codes(tensor_of(model, name), form, codes[name])
            for name, form in self.formats.items()
        }
        return _with_tensors(model, made, {})

    def widened(self, module: torch.nn.Module) -> torch.nn.Module:
        """The reverse: a copy with these tensors in the types that they had; the others are shared."""
        shared = {id(t): t for t in (*module.parameters(), *module.buffers())}
        return _with_tensors(module, {name: _wide(tensor_of(module, name), dtype) for name, dtype in self.dtypes.items()}, shared)

    def dtype_of(self, name: str) -> torch.dtype:
        """Type that torch sees."""
        form = self.formats[name]
        return DTYPES[split(form)[0]] if is_plain_dtype(form) else self.dtypes[name]


class StoredPrograms(Programs):
    """Graphs of a module that `StoredState` made. A call that no graph can answer is refused: the original cannot run on these tensors."""

    def __init__(self, settings: Settings, state: StoredState) -> None:
        super().__init__(settings)
        self.state = state

    def add(self, program: CapturedProgram) -> None:
        arguments = zip(program.signature.arguments, program.state, strict=True)
        kinds = (
            (self.state.dtype_of(source.name), *kind[1:])
            if kind is not None and isinstance(source, State) and source.name in self.state.formats else kind
            for source, kind in arguments
        )  # fmt: skip
        super().add(replace(program, state=tuple(kinds)))

    def add_for_other_sizes(self, model: torch.nn.Module, result: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Captures the model, however small, with its sizes open too: whoever stores one in its formats calls it with other batches."""
        self._add_with_open_sizes(model, result, args, kwargs)

    def _admits_ones(self, program: CapturedProgram, module: Any, original: torch.nn.Module, args: Any, kwargs: Any) -> bool:
        inputs, structure = pytree.tree_flatten((args, kwargs))
        if structure != program.structure or not program.sizes.assumed_larger(inputs):
            return False
        return program.admits_ones(module, self.state.widened(original), args, kwargs, wide=True)

    def _captured(self, module: Any, original: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> CapturedProgram | None:
        before = len(self.known)
        super()._captured(module, self.state.widened(original), args, kwargs)
        return self.known[-1] if len(self.known) > before else None

    def _refuse(self, reason: str, what: str = "") -> None:
        raise ModelError(
            f"the formats that were found do not hold for this call: {reason}; analyze a sample like it, or use apply(train=True), which "
            "runs the original model then"
        )


def in_formats(
    model: torch.nn.Module, program: CapturedProgram, casts: Casts, settings: Settings, samples: Sequence[Any]
) -> torch.nn.Module:
    """The model with its tensors in their formats. program: a graph of the model without casts, on the tensors as they were, for a call
    with the first sample; calls of other sizes are answered by a graph with open sizes, where torch.export can make one."""
    state = StoredState.of(model, program, casts.formats)
    edit = replace(casts, stored=state.places)
    programs = StoredPrograms(replace(settings, edit=edit), state)
    programs.add(replace(program, graph=edit(program.graph), settings=programs.settings))
    args, kwargs = arguments_of(samples[0])
    result = wrapped(state.stored(model, samples), programs)
    programs.add_for_other_sizes(model, result, args, kwargs)
    return result


def _fits(tensor: torch.Tensor, form: str) -> bool:
    finite = bool(tensor.isfinite().all())
    return tensor.is_floating_point() and (is_plain_dtype(form) or (finite and is_packable(form)))


def _stored(tensor: torch.Tensor, form: str) -> torch.Tensor:
    with torch.no_grad():
        most = ceiling(form)
        values = tensor if most is None else tensor.clamp(-most, most)
        made = values.to(DTYPES[split(form)[0]], copy=True) if is_plain_dtype(form) else packed(tensor, form)
    return _as(tensor, made)


def _of_codes(tensor: torch.Tensor, form: str, codes: Stored) -> torch.Tensor:
    with torch.no_grad():
        return _as(tensor, packed_codes(codes, form, tensor.shape, tensor.dtype))


def _wide(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return _as(tensor, tensor.dense().to(dtype) if isinstance(tensor, PackedTensor) else tensor.detach().to(dtype))


def _as(before: torch.Tensor, made: torch.Tensor) -> torch.Tensor:
    return torch.nn.Parameter(made, before.requires_grad) if isinstance(before, torch.nn.Parameter) else made


def _with_tensors(model: torch.nn.Module, tensors: Mapping[str, torch.Tensor], shared: dict[int, Any]) -> torch.nn.Module:
    """A copy of the model that has these tensors. shared: those that are not copied, by identity."""
    memo = shared | {id(tensor_of(model, name)): tensor for name, tensor in tensors.items()}
    return copy.deepcopy(plain(model) if hasattr(model, "_hnfc") else model, memo)
