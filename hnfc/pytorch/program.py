"""One graph of an optimized module: which calls it answers, and how it answers them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx
from torch.utils import _pytree as pytree

import hnfc.backend.opaque_on_torch  # noqa: F401  (the evaluation of what hnfc does not know)
from hnfc.analysis.ranges import interval_of_array
from hnfc.core.samples import lasting
from hnfc.core.tensors import to_numpy
from hnfc.dialects.interval import Interval
from hnfc.frontend.inlining import noticed
from hnfc.frontend.pytorch import Captured, capture
from hnfc.frontend.signature import Signature, State, tensor_of
from hnfc.pipeline.compiled import Compiled
from hnfc.pytorch.effects import unchanged
from hnfc.pytorch.guards import Guards, is_same
from hnfc.pytorch.joint import with_rewritten_gradients
from hnfc.pytorch.ones import does_the_same, is_like
from hnfc.pytorch.reads import Reading, Reads
from hnfc.pytorch.rewriting import Report, rewrite, seen
from hnfc.pytorch.settings import Settings
from hnfc.pytorch.shadow import in_this_thread, shadow
from hnfc.pytorch.sizes import Sizes


@dataclass(frozen=True)
class ArgumentKind:
    """Requirement on a flattened input: a tensor of this dtype on this device, or (dtype None) exactly `value`."""

    dtype: torch.dtype | None = None
    device: torch.device | None = None
    value: Any = None

    @staticmethod
    def of(given: Any) -> ArgumentKind:
        return ArgumentKind(given.dtype, given.device) if isinstance(given, torch.Tensor) else ArgumentKind(value=given)


@dataclass
class CapturedProgram:
    """A rewritten graph, and the calls that it answers."""

    graph: fx.GraphModule
    signature: Signature
    modes: tuple[bool, ...]
    """Of each submodule, whether it trains."""
    structure: pytree.TreeSpec
    output_structure: pytree.TreeSpec
    kinds: tuple[ArgumentKind, ...]
    sizes: Sizes
    state: tuple[tuple[torch.dtype, torch.device, torch.Size, bool] | None, ...]
    """Of each argument that is a parameter or buffer, its element type, device and shape, and whether it is sharded."""
    autocast: tuple[tuple[str, torch.dtype], ...]
    """Its casts are in the graph, which therefore runs without it."""
    report: Report
    settings: Settings
    guards: Guards | None = None
    """State that the graph took from the module besides tensors; None after a copy, whose module is looked at on its first call."""
    observed: tuple[tuple[str, Interval], ...] = ()
    """Parameters and buffers whose ranges conditions of rules were shown from."""
    other_gradients: str = ""
    """The reason why the original runs while gradients are enabled; empty if the graph does."""
    reads: Reads = field(default_factory=Reads)
    default_dtype: torch.dtype = torch.float32
    """The type of the numbers that the model made without one."""
    seen: tuple[Interval | None, ...] = ()
    """Ranges of the inputs that rewrites were probed in, if these are those of the sample."""
    exported: fx.GraphModule | None = None
    """The graph before it was rewritten, with open sizes and no side effects; None where sizes are fixed, and after a copy."""
    failed: str = ""
    """The reason why the original runs: what the graph raised at a call that the original answers; empty before."""
    _versions: list[int] = field(default_factory=list)
    _with_gradients: dict[Any, Callable[..., Any]] = field(default_factory=dict)

    @staticmethod
    def of(
        model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], settings: Settings, like: CapturedProgram | None = None
    ) -> CapturedProgram:  # fmt: skip
        """Captures a call of the model, rewrites it and raises it again. Raises ModelError; the model stays as it is.

        like: a program of the same model, whose comparison of old and new is relied on.
        """
        given, given_by_name = pytree.tree_map_only(torch.Tensor, _as_contiguous, (args, kwargs))
        reading = Reading()
        traced = shadow(model)
        with noticed() as reasons, unchanged(traced, reading), in_this_thread():
            # torch.export would take strides for granted, that differ with each slice
            captured = capture(traced, given, given_by_name, settings.dynamic_shapes)
        compiled, graph = rewrite(model, captured, args, kwargs, settings, like.report if like is not None else None)
        if settings.edit is not None:
            graph = settings.edit(graph)
        inputs, structure = pytree.tree_flatten((args, kwargs))
        states = captured.signature.state(model)
        return CapturedProgram(
            graph, captured.signature, modes_of(model), structure, captured.output_structure,
            tuple(map(ArgumentKind.of, inputs)), Sizes.of(captured, inputs),
            tuple(None if t is None else (t.dtype, t.device, t.shape, is_sharded(t)) for t in states), autocast_state(),
            Report.of(compiled, settings), settings, None, _observed(model, captured, compiled, settings),
            next(iter(reasons), ""), reading.found(model, inputs), torch.get_default_dtype(),
            tuple(map(seen, inputs)) if settings.observed and compiled.applied else (),
            captured.program.graph_module if settings.dynamic_shapes and captured.is_pure else None,
        )  # fmt: skip

    # which calls

    def accepts(self, module: Any, inputs: Sequence[Any], structure: pytree.TreeSpec) -> bool:
        return (
            module.training == self.training
            and structure == self.structure
            and autocast_state() == self.autocast
            and torch.get_default_dtype() == self.default_dtype
            and self._fits_inputs(inputs)
            and self.reads.hold(module, inputs)
            and (not self.seen or self.sees(inputs))
            and modes_of(module) == self.modes
            and self.holds_for(module)
        )

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def sees(self, inputs: Sequence[Any]) -> bool:
        """Return whether inputs lie in the ranges of the sample, where these count; a graph that is exported is for inputs like those."""
        pairs = zip(inputs, self.seen, strict=False)
        return torch.compiler.is_exporting() or all(interval is None or _lies_in(given, interval) for given, interval in pairs)

    def guard(self, module: Any) -> None:
        """Takes the module for what it is now as the one that was captured."""
        self.guards = Guards.of(module)

    def holds_for(self, module: Any) -> bool:
        """Return whether the module still holds what was captured, and its parameters lie where conditions need them."""
        if self.guards is None:
            self.guard(module)
        assert self.guards is not None
        return self.guards.hold(module) and (not self.observed or not self.left_range(module))

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def left_range(self, module: Any) -> str:
        """The first parameter or buffer that left the range which a rule relies on, in words; empty where all lie in theirs."""
        tensors = [tensor_of(module, name) for name, _ in self.observed]
        versions = [tensor._version for tensor in tensors]
        if versions == self._versions:
            return ""
        for (name, interval), tensor in zip(self.observed, tensors, strict=True):
            if not _lies_in(tensor, interval):
                return f'`{name}` left [{interval.lo:.6g}, {interval.hi:.6g}], which a rewrite relied on (ranges="sample")'
        self._versions = versions
        return ""

    @property
    def training(self) -> bool:
        return self.modes[0]

    def _fits_inputs(self, inputs: Sequence[Any]) -> bool:
        for kind, given in zip(self.kinds, inputs, strict=True):
            if kind.dtype is None:
                if not is_same(given, kind.value) and (isinstance(given, float | complex) or not _equal(given, kind.value)):
                    return False
            elif not isinstance(given, torch.Tensor) or given.dtype != kind.dtype or given.device != kind.device:
                return False
        return self.sizes.fit(inputs)

    def fits_state(self, tensors: Sequence[Any]) -> bool:
        """Return whether parameters and buffers among the arguments are such as the graph is for."""
        for kind, tensor in zip(self.state, tensors, strict=True):
            if kind is not None and tensor is None:
                return False
            if kind is not None and (tensor.dtype, tensor.device, tensor.shape, is_sharded(tensor)) != kind:
                return False
        return True

    def admits_ones(self, module: Any, original: torch.nn.Module, args: Any, kwargs: Any, *, wide: bool = False) -> bool:
        """Look whether the graph answers a call with sizes of 1 that torch.export left out, and remember it where it does.

        wide: the original is in the types that were captured, and the module in narrower ones: results are alike in shape and type only.
        """
        inputs, structure = pytree.tree_flatten((args, kwargs))
        ones = self.sizes.assumed_larger(inputs) if structure == self.structure else None
        if self.exported is None or not ones or ones in self.sizes.ones:
            return False
        self.sizes.ones[ones] = True
        if self.accepts(module, inputs, structure):
            tensors = self.signature.gather(module, inputs)
            if not self.fits_state(tensors):
                expected = None
            else:
                captured = self.signature.gather(original, inputs) if wide else tensors
                expected = does_the_same(original, args, kwargs, self.exported, captured, self.output_structure)
            if expected is not None and is_like(self.graph(*tensors), expected, only_kinds=wide):
                return True
        self.sizes.ones[ones] = False
        return False

    def changed_sizes(self, inputs: Sequence[Any], structure: pytree.TreeSpec) -> Any:
        """The axes on which a call differs from those before, in the structure of the inputs; None if it differs otherwise."""
        changed = self.sizes.changed(inputs) if structure == self.structure else []
        return pytree.tree_unflatten(changed, structure) if any(changed) else None

    # the answer

    def run(self, module: Any, inputs: Sequence[Any], tensors: list[Any]) -> Any:
        """Result of the model. tensors: the arguments of the graph, as `signature.gather` gives them."""
        with contextlib.ExitStack() as regions:
            for device, _ in self.autocast:
                regions.enter_context(torch.autocast(device, enabled=False))
            found = self._compute(tensors)
        return pytree.tree_unflatten(self.signature.scatter(module, inputs, found), self.output_structure)

    def _compute(self, tensors: list[Any]) -> Any:
        if not self.settings.backward or not torch.is_grad_enabled():
            return self.graph(*tensors)
        key = tuple((tuple(t.shape), t.requires_grad) if isinstance(t, torch.Tensor) else t for t in tensors)
        if key not in self._with_gradients:
            self._with_gradients[key] = with_rewritten_gradients(self.graph, self.settings)
        return self._with_gradients[key](*tensors)

    def __getstate__(self) -> dict[str, Any]:
        """Without what is made again when it is needed."""
        return {**self.__dict__, "_with_gradients": {}, "guards": None, "exported": None, "_versions": []}


def _lies_in(tensor: Any, interval: Interval) -> bool:
    if not isinstance(tensor, torch.Tensor) or not tensor.numel():
        return True
    least, greatest = (float(bound) for bound in tensor.detach().aminmax())
    return interval.lo <= least <= greatest <= interval.hi


def _equal(given: Any, before: Any) -> bool:
    return type(given) is type(before) and bool(given == before)


def _observed(model: torch.nn.Module, captured: Captured, compiled: Compiled, settings: Settings) -> tuple[tuple[str, Interval], ...]:
    """The ranges of parameters and buffers, where a condition was shown from the ranges of the sample."""
    if not settings.observed or not any(applied.given for applied in compiled.applied):
        return ()
    found = []
    for source in captured.signature.arguments:
        tensor = tensor_of(model, source.name) if isinstance(source, State) else None
        if isinstance(source, State) and tensor is not None and tensor.is_floating_point() and tensor.numel():
            found.append((source.name, lasting(interval_of_array(to_numpy(tensor)))))
    return tuple(found)


def is_sharded(tensor: torch.Tensor) -> bool:
    """Return whether it is a tensor that lies on several devices."""
    return hasattr(tensor, "placements")


def _as_contiguous(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor as an example for a capture."""
    if tensor.layout != torch.strided or tensor.is_contiguous():
        return tensor
    return tensor.detach().contiguous().requires_grad_(tensor.requires_grad)


def modes_of(module: torch.nn.Module) -> tuple[bool, ...]:
    """Of the module and each below it, whether it trains."""
    return tuple(part.training for part in module.modules())


def autocast_state() -> tuple[tuple[str, torch.dtype], ...]:
    """The devices on which autocast is on, with its dtype."""
    return tuple((device, torch.get_autocast_dtype(device)) for device in ("cpu", "cuda") if torch.is_autocast_enabled(device))
