"""One graph of an optimized module: which calls it answers, and how it answers them."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import fx
from torch.utils import _pytree as pytree

from hnfc.backend.fx import raise_function
from hnfc.compile import Compiled, Request, compile_module
from hnfc.frontend.pytorch import Captured, Fixed, Given, Mutation, Returned, Sink, Source, State, capture
from hnfc.report.text import json_report, text_report
from hnfc.rewriter import Settings
from hnfc.tensors import to_numpy

Size: TypeAlias = "int | str"
"""A number, or the name of one that differs from call to call."""
_LARGEST = 2**62


@dataclass(frozen=True)
class Kind:
    """What a flattened input must be: a tensor of this shape, dtype and device, or (shape None) exactly `value`."""

    shape: tuple[Size, ...] | None
    dtype: torch.dtype | None = None
    device: torch.device | None = None
    value: Any = None


@dataclass
class Program:
    """A rewritten graph. It takes tensors in the order of `arguments` and gives results in the order of `results`."""

    graph: fx.GraphModule
    arguments: tuple[Source, ...]
    results: tuple[Sink, ...]
    training: bool
    structure: pytree.TreeSpec
    output_structure: pytree.TreeSpec
    kinds: tuple[Kind, ...]
    bounds: dict[str, tuple[int, int]]
    state: tuple[tuple[str, torch.dtype, torch.device], ...]
    autocast: tuple[tuple[str, torch.dtype], ...]
    """Its casts are in the graph, which therefore runs without it."""
    report: Report
    _changing: frozenset[Source] = frozenset()

    def __post_init__(self) -> None:
        self._changing = frozenset(sink.target for sink in self.results if isinstance(sink, Mutation))

    @staticmethod
    def of(model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], settings: Settings) -> Program:
        """Captures a call of the model, rewrites it and raises it again. Raises ModelError; the model stays as it is."""
        captured = capture(model, args, kwargs, settings.dynamic_shapes)
        compiled = rewrite(model, captured, args, kwargs, settings)
        graph = raise_function(compiled.export())
        inputs, structure = pytree.tree_flatten((args, kwargs))
        kinds, bounds = _kinds(captured, inputs)
        states = sorted({a.name for a in captured.arguments if isinstance(a, State)})
        tensors = [(name, tensor_of(model, name)) for name in states]
        return Program(
            graph, tuple(captured.arguments), tuple(captured.results), model.training, structure, captured.output_structure,
            kinds, bounds, tuple((name, t.dtype, t.device) for name, t in tensors),
            autocast_state(), Report.of(compiled, captured, settings),
        )  # fmt: skip

    # which calls

    def accepts(self, module: Any, inputs: Sequence[Any], structure: pytree.TreeSpec) -> bool:
        return (
            module.training == self.training
            and structure == self.structure
            and autocast_state() == self.autocast
            and self._fits_inputs(inputs)
            and self.fits_state(module)
        )

    def _fits_inputs(self, inputs: Sequence[Any]) -> bool:
        sizes: dict[str, int] = {}
        for kind, given in zip(self.kinds, inputs, strict=True):
            if kind.shape is None:
                if type(given) is not type(kind.value) or given != kind.value:
                    return False
            elif not isinstance(given, torch.Tensor) or given.dtype != kind.dtype or given.device != kind.device:
                return False
            elif not self._fits_shape(kind.shape, given.shape, sizes):
                return False
        return True

    def _fits_shape(self, wanted: tuple[Size, ...], found: Sequence[int], sizes: dict[str, int]) -> bool:
        if len(wanted) != len(found):
            return False
        for size, actual in zip(wanted, found, strict=True):
            if isinstance(size, int):
                if size != actual:
                    return False
            else:
                low, high = self.bounds.get(size, (0, _LARGEST))
                if not low <= actual <= high or sizes.setdefault(size, actual) != actual:
                    return False
        return True

    def fits_state(self, module: Any) -> bool:
        for name, dtype, device in self.state:
            tensor = tensor_of(module, name)
            if tensor.dtype != dtype or tensor.device != device:
                return False
        return True

    def changed_sizes(self, inputs: Sequence[Any], structure: pytree.TreeSpec) -> Any:
        """The axes on which a call differs from those before, as torch.export names them, in the structure of the inputs.

        None if it differs otherwise. Sizes 0 and 1 are left fixed: torch makes other graphs for them.
        """
        if structure != self.structure:
            return None
        changed: list[Any] = []
        for kind, given in zip(self.kinds, inputs, strict=True):
            if kind.shape is None or not isinstance(given, torch.Tensor) or len(kind.shape) != given.dim():
                changed.append(None)
                continue
            axes = {i: torch.export.Dim.AUTO for i, (a, b) in enumerate(zip(kind.shape, given.shape, strict=True)) if a != b and b > 1}
            changed.append(axes or None)
        return pytree.tree_unflatten(changed, structure) if any(changed) else None

    # the answer

    def run(self, module: Any, inputs: Sequence[Any]) -> Any:
        tensors = [self._argument(module, inputs, source) for source in self.arguments]
        if torch.is_grad_enabled():
            # autograd keeps what the graph read; the new value is written over the original afterwards
            changing = self._changing
            tensors = [t.clone() if s in changing else t for s, t in zip(self.arguments, tensors, strict=True)]
        with contextlib.ExitStack() as regions:
            for device, _ in self.autocast:
                regions.enter_context(torch.autocast(device, enabled=False))
            found = iter(self.graph(*tensors))
        returned = []
        for sink in self.results:
            if isinstance(sink, Fixed):
                returned.append(sink.value)
            elif isinstance(sink, Returned):
                returned.append(next(found))
            else:
                self._store(module, inputs, sink.target, next(found))
        return pytree.tree_unflatten(returned, self.output_structure)

    def _argument(self, module: Any, inputs: Sequence[Any], source: Source) -> Any:
        if isinstance(source, State):
            return tensor_of(module, source.name)
        return inputs[source.index] if isinstance(source, Given) else source.tensor

    def _store(self, module: Any, inputs: Sequence[Any], target: State | Given, value: torch.Tensor) -> None:
        if isinstance(target, Given):
            inputs[target.index].copy_(value)
        else:
            with torch.no_grad():
                tensor_of(module, target.name).copy_(value)


def tensor_of(module: Any, name: str) -> torch.Tensor:
    """The parameter or buffer of that name."""
    for part in name.split("."):
        module = getattr(module, part)
    return module  # type: ignore[no-any-return]


def rewrite(model: torch.nn.Module, captured: Captured, args: Any, kwargs: Any, settings: Settings) -> Compiled:
    """The rules of the settings on a captured model, with the call as the sample."""
    inputs = pytree.tree_leaves((args, kwargs))

    def array(source: Source) -> Any:
        if isinstance(source, State):
            return to_numpy(tensor_of(model, source.name))
        return to_numpy(inputs[source.index] if isinstance(source, Given) else source.tensor)

    request = Request(
        phases=settings.rules.allowed(), ranges=settings.intervals(captured.names), samples=[[array(s) for s in captured.arguments]],
        observed=settings.observed, assume=settings.assume, validate=settings.validate,
    )  # fmt: skip
    return compile_module(captured.module, request)


def _kinds(captured: Captured, inputs: Sequence[Any]) -> tuple[tuple[Kind, ...], dict[str, tuple[int, int]]]:
    """What each flattened input must be, and the bounds of dynamic sizes."""
    values = {node.name: node.meta.get("val") for node in captured.program.graph.nodes if node.op == "placeholder"}
    given = {a.index: a.name for a in captured.arguments if isinstance(a, Given)}
    kinds = []
    for index, actual in enumerate(inputs):
        if not isinstance(actual, torch.Tensor):
            kinds.append(Kind(None, value=actual))
            continue
        traced = values.get(given.get(index, ""), actual)
        shape = tuple(size if isinstance(size, int) else str(size) for size in traced.shape)
        kinds.append(Kind(shape, actual.dtype, actual.device))
    sizes = {size for kind in kinds for size in kind.shape or () if isinstance(size, str)}
    bounds = {
        str(symbol): (int(interval.lower), _LARGEST if interval.upper > _LARGEST else int(interval.upper))
        for symbol, interval in captured.program.range_constraints.items()
        if str(symbol) in sizes
    }
    return tuple(kinds), bounds


def autocast_state() -> tuple[tuple[str, torch.dtype], ...]:
    """The devices on which autocast is on, with its dtype."""
    return tuple((device, torch.get_autocast_dtype(device)) for device in ("cpu", "cuda") if torch.is_autocast_enabled(device))


@dataclass(frozen=True)
class Report:
    """What was done to a graph, free of anything of MLIR."""

    text: str
    data: dict[str, Any]

    @staticmethod
    def of(compiled: Compiled, captured: Captured, settings: Settings) -> Report:
        verdicts = dict(settings.rules.verdicts)
        return Report(text_report(compiled, verdicts, settings.rules.withheld, 100), json.loads(json_report(compiled, verdicts)))

