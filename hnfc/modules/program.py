"""One graph of an optimized module: which calls it answers, and how it answers them."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import torch
from torch import fx
from torch._subclasses import FakeTensor
from torch.utils import _pytree as pytree

from hnfc.backend.fx import raise_function
from hnfc.compile import Compiled, Request, compile_module
from hnfc.frontend.pytorch import Captured, capture
from hnfc.modules.signature import Given, Signature
from hnfc.modules.tensors import to_numpy
from hnfc.report.text import json_report, text_report
from hnfc.rewriter import Settings

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
    """A rewritten graph, and the calls that it answers."""

    graph: fx.GraphModule
    signature: Signature
    modes: tuple[bool, ...]
    """Of each submodule, whether it trains."""
    structure: pytree.TreeSpec
    output_structure: pytree.TreeSpec
    kinds: tuple[Kind, ...]
    bounds: dict[str, tuple[int, int]]
    state: tuple[tuple[torch.dtype, torch.device] | None, ...]
    """Of each argument that is a parameter or buffer, its type and place."""
    autocast: tuple[tuple[str, torch.dtype], ...]
    """Its casts are in the graph, which therefore runs without it."""
    report: Report
    settings: Settings
    _with_gradients: dict[Any, Callable[..., Any]] = field(default_factory=dict)

    @staticmethod
    def of(model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], settings: Settings) -> Program:
        """Captures a call of the model, rewrites it and raises it again. Raises ModelError; the model stays as it is."""
        captured = capture(model, args, kwargs, settings.dynamic_shapes)
        compiled = rewrite(model, captured, args, kwargs, settings)
        graph = raise_function(compiled.export())
        inputs, structure = pytree.tree_flatten((args, kwargs))
        kinds, bounds = _kinds(captured, inputs)
        states = captured.signature.state(model)
        return Program(
            graph, captured.signature, modes_of(model), structure, captured.output_structure,
            kinds, bounds, tuple(None if t is None else (t.dtype, t.device) for t in states), autocast_state(),
            Report.of(compiled, captured, settings), settings,
        )  # fmt: skip

    # which calls

    def accepts(self, module: Any, inputs: Sequence[Any], structure: pytree.TreeSpec) -> bool:
        return (
            module.training == self.training
            and structure == self.structure
            and autocast_state() == self.autocast
            and self._fits_inputs(inputs)
            and modes_of(module) == self.modes
        )

    @property
    def training(self) -> bool:
        return self.modes[0]

    def _fits_inputs(self, inputs: Sequence[Any]) -> bool:
        sizes: dict[str, int] = {}
        for kind, given in zip(self.kinds, inputs, strict=True):
            if kind.shape is None:
                if type(given) is not type(kind.value) or given != kind.value:
                    return False
            elif (
                not isinstance(given, torch.Tensor)
                or given.dtype != kind.dtype
                or given.device != kind.device
                or not self._fits_shape(kind.shape, given.shape, sizes)
            ):
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

    def fits_state(self, tensors: Sequence[Any]) -> bool:
        """Whether parameters and buffers among the arguments are of the type and in the place that the graph is for."""
        for kind, tensor in zip(self.state, tensors, strict=True):
            if kind is not None and (tensor.dtype, tensor.device) != kind:
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

    def run(self, module: Any, inputs: Sequence[Any], tensors: list[Any]) -> Any:
        """What the model returns. tensors: the arguments of the graph, as `signature.gather` gives them."""
        with contextlib.ExitStack() as regions:
            for device, _ in self.autocast:
                regions.enter_context(torch.autocast(device, enabled=False))
            found = self._compute(tensors)
        return pytree.tree_unflatten(self.signature.scatter(module, inputs, found), self.output_structure)

    def _compute(self, tensors: list[Any]) -> Any:
        if not self.settings.backward or not torch.is_grad_enabled():
            return self.graph(*tensors)
        key = tuple((tuple(t.shape), t.requires_grad) for t in tensors)
        if key not in self._with_gradients:
            from hnfc.modules.joint import with_rewritten_gradients

            self._with_gradients[key] = with_rewritten_gradients(self.graph, self.settings)
        return self._with_gradients[key](*tensors)

    def __getstate__(self) -> dict[str, Any]:
        """Without what is made again when it is needed."""
        return {**self.__dict__, "_with_gradients": {}}


def rewrite(model: torch.nn.Module, captured: Captured, args: Any, kwargs: Any, settings: Settings) -> Compiled:
    """The rules of the settings on a captured model, with the call as the sample."""
    inputs = pytree.tree_leaves((args, kwargs))

    given = [captured.signature.argument(model, inputs, source) for source in captured.signature.arguments]
    samples = [] if any(isinstance(tensor, FakeTensor) for tensor in given) else [[to_numpy(tensor) for tensor in given]]
    request = Request(
        phases=settings.rules.allowed(), ranges=settings.intervals(captured.names), samples=samples,
        observed=settings.observed, assume=settings.assume, validate=settings.validate,
    )  # fmt: skip
    return compile_module(captured.module, request)


def _kinds(captured: Captured, inputs: Sequence[Any]) -> tuple[tuple[Kind, ...], dict[str, tuple[int, int]]]:
    """What each flattened input must be, and the bounds of dynamic sizes."""
    values = {node.name: node.meta.get("val") for node in captured.program.graph.nodes if node.op == "placeholder"}
    given = {a.index: a.name for a in captured.signature.arguments if isinstance(a, Given)}
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


def modes_of(module: torch.nn.Module) -> tuple[bool, ...]:
    """Of the module and each below it, whether it trains."""
    return tuple(part.training for part in module.modules())


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
