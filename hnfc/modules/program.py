"""One graph of an optimized module: which calls it answers, and how it answers them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx
from torch._subclasses import FakeTensor
from torch.utils import _pytree as pytree

from hnfc.backend.fx import raise_function
from hnfc.compile import Compiled, Request, compile_module
from hnfc.frontend.pytorch import Captured, capture
from hnfc.modules.signature import Signature
from hnfc.modules.sizes import Sizes
from hnfc.modules.tensors import to_numpy
from hnfc.report.text import report_data, text_report
from hnfc.rewriter import Settings


@dataclass(frozen=True)
class Kind:
    """What a flattened input must be: a tensor of this dtype on this device, or (dtype None) exactly `value`."""

    dtype: torch.dtype | None = None
    device: torch.device | None = None
    value: Any = None

    @staticmethod
    def of(given: Any) -> Kind:
        return Kind(given.dtype, given.device) if isinstance(given, torch.Tensor) else Kind(value=given)


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
    sizes: Sizes
    state: tuple[tuple[torch.dtype, torch.device, torch.Size] | None, ...]
    """Of each argument that is a parameter or buffer, its type, place and shape."""
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
        graph = raise_function(compiled.export(native=True))
        if settings.edit is not None:
            graph = settings.edit(graph)
        inputs, structure = pytree.tree_flatten((args, kwargs))
        states = captured.signature.state(model)
        return Program(
            graph, captured.signature, modes_of(model), structure, captured.output_structure,
            tuple(map(Kind.of, inputs)), Sizes.of(captured, inputs),
            tuple(None if t is None else (t.dtype, t.device, t.shape) for t in states), autocast_state(),
            Report.of(compiled, settings), settings,
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
        for kind, given in zip(self.kinds, inputs, strict=True):
            if kind.dtype is None:
                if type(given) is not type(kind.value) or given != kind.value:
                    return False
            elif not isinstance(given, torch.Tensor) or given.dtype != kind.dtype or given.device != kind.device:
                return False
        return self.sizes.fit(inputs)

    def fits_state(self, tensors: Sequence[Any]) -> bool:
        """Whether parameters and buffers among the arguments are such as the graph is for."""
        for kind, tensor in zip(self.state, tensors, strict=True):
            if kind is not None and (tensor.dtype, tensor.device, tensor.shape) != kind:
                return False
        return True

    def changed_sizes(self, inputs: Sequence[Any], structure: pytree.TreeSpec) -> Any:
        """The axes on which a call differs from those before, in the structure of the inputs; None if it differs otherwise."""
        changed = self.sizes.changed(inputs) if structure == self.structure else []
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
        key = tuple((tuple(t.shape), t.requires_grad) if isinstance(t, torch.Tensor) else t for t in tensors)
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
        observed=settings.observed, assume=settings.assume, validate=settings.validate, search=settings.search,
    )  # fmt: skip
    return compile_module(captured.module, request)


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
    def of(compiled: Compiled, settings: Settings) -> Report:
        verdicts = settings.rules.verdicts
        return Report(text_report(compiled, verdicts, settings.rules.withheld, 100), report_data(compiled, verdicts))
