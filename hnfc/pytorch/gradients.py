"""Gradients of a graph before and after a rewrite, on the sample and on probes beyond it, by the rules that values are compared by."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import fx
from torch_mlir import ir
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block

from hnfc.backend.gradients import ignore_unused
from hnfc.backend.on_torch import trial_run, widened
from hnfc.core.tensors import to_numpy, to_torch
from hnfc.dialects.interval import ANYTHING, Interval
from hnfc.dialects.types import ELEMENT_NAMES
from hnfc.frontend.torch_mlir import import_module
from hnfc.pipeline.compiled import Compiled
from hnfc.pytorch.differentiation import REFUSALS, copied, detached, format_of_tensor, gradients_of, is_differentiable
from hnfc.pytorch.gradient_case import GradientCase
from hnfc.validation.differential import MOST_ELEMENTS, elements_of
from hnfc.validation.gradients import BACKWARD, Arbiter, coarsest, leniency, only_the_first, stops_gradients, weight_of
from hnfc.validation.invented import is_pointwise
from hnfc.validation.probes import Slot, probes

Array: TypeAlias = "np.ndarray[Any, Any]"
MOST_OPERATIONS, MOST_NUMBERS = 200, 100_000
"""Operations of a graph, and numbers that it takes, up to which gradients alone are a reason to change it."""


@dataclass
class GradientTrial:
    """A graph before and after. returned: of each result whether the model returns it. fixed: arguments that probes leave alone."""

    before: fx.GraphModule
    after: fx.GraphModule
    returned: Sequence[bool]
    fixed: frozenset[int]
    source: ir.Module
    """The graph before as a function of the torch dialect."""
    skipped: str = ""
    """The reason why gradients were not compared, on the sample at least."""

    def regressions(self, tensors: Sequence[Any], intervals: Sequence[Interval | None]) -> Iterator[str]:
        """Reasons why a gradient is worse, one for each argument and input on which it is. None of the largest models, whose
        gradients would take several times the memory of their parameters."""
        wanted = [i for i, t in enumerate(tensors) if is_differentiable(t) and (t.requires_grad or i not in self.fixed)]
        if not wanted:
            return
        if sum(t.numel() for t in tensors if isinstance(t, torch.Tensor)) > MOST_ELEMENTS:
            self.skipped = f"the model has more than {MOST_ELEMENTS:,} numbers"
            return
        imported = import_module(self.source)
        block = next(op for op in imported.module.ops if isinstance(op, FuncOp)).body.block
        limit = max(1, MOST_ELEMENTS // max(1, BACKWARD * elements_of(block)))
        wide = widened(copied(self.before)), widened(copied(self.after))
        mixing = not all(is_pointwise(op) for op in block.ops if op.results)
        stops = stops_gradients(block)
        for count, (name, negligible, inputs) in enumerate(self._inputs(tensors, intervals, block)):
            if count >= limit:
                return
            doubled = [t.double() if is_differentiable(t) else t for t in inputs]
            defined = _defined(wide, doubled, inputs)
            if defined is None:
                if count:
                    continue  # a matrix, say, that has no factors
                self.skipped = "torch cannot compute the model in float64"
                return
            narrow = [gradients_of(graph, inputs, wanted, self.returned, defined) for graph in (self.before, self.after)]
            exact = [gradients_of(graph, doubled, wanted, self.returned, defined) for graph in wide]
            if any(each is None for each in (*narrow, *exact)):
                if count:
                    continue
                self.skipped = "torch cannot compute them, or not in float64"
                return
            gradients = [list(map(to_numpy, each)) for each in (*narrow, *exact) if each is not None]
            if stops:
                gradients = only_the_first(gradients)
            for position, index in enumerate(wanted):
                arrays = [each[position] for each in gradients]
                arbiter = Arbiter(block, list(map(to_numpy, inputs)), index, self._weights(defined), imported.weight)
                case = GradientCase(
                    (self.before, self.after), wide, inputs, doubled, index, self.returned, defined, coarsest(block)
                )  # fmt: skip
                reason = case.reason(arrays, arbiter.derivative, leniency(mixing, negligible, count == 0))
                if reason:
                    yield f"the gradient by argument {index} {'on the sample' if count == 0 else f'on a probe ({name})'}: {reason}"

    def on_sample(self, tensors: Sequence[Any]) -> list[tuple[Array, Array, Any]]:
        """The gradients after the rewrite on the sample, beside those of the graph before in float64, with their formats; empty where torch
        has none of these, or where they would take long."""
        wanted = [i for i, t in enumerate(tensors) if is_differentiable(t) and (t.requires_grad or i not in self.fixed)]
        operations = sum(node.op == "call_function" for node in self.before.graph.nodes)
        if not wanted or operations > MOST_OPERATIONS or sum(t.numel() for t in tensors if isinstance(t, torch.Tensor)) > MOST_NUMBERS:
            return []
        doubled, graph = [t.double() if is_differentiable(t) else t for t in tensors], widened(copied(self.before))
        defined = _defined((graph, graph), doubled, tensors)
        if defined is None:
            return []
        narrow, wide = (
            gradients_of(each, inputs, wanted, self.returned, defined) for each, inputs in ((self.after, tensors), (graph, doubled))
        )
        if narrow is None or wide is None:
            return []
        return [(to_numpy(a), to_numpy(b), format_of_tensor(tensors[i])) for a, b, i in zip(narrow, wide, wanted, strict=True)]

    def _weights(self, defined: Sequence[Any]) -> list[Array | None]:
        """The weights of each result, 0 where it has no derivative; None of one that is not returned, or no number."""
        counted = [known if is_returned else None for is_returned, known in zip(self.returned, defined, strict=True)]
        return [weight_of(known.numel()) * known.numpy().ravel() if known is not None else None for known in counted]

    def _inputs(
        self, tensors: Sequence[Any], intervals: Sequence[Interval | None], block: Block
    ) -> Iterator[tuple[str, float, list[Any]]]:  # fmt: skip
        """The sample, and probes that change only what a caller gives."""
        yield "the sample", 0.0, list(tensors)
        moving = [i for i, t in enumerate(tensors) if isinstance(t, torch.Tensor) and t.is_floating_point() and i not in self.fixed]
        slots = []
        for index in moving:
            element = ELEMENT_NAMES.get(block.args[index].type.element_type, "")  # type: ignore[attr-defined]
            slots.append(Slot(element, intervals[index] or ANYTHING, to_numpy(tensors[index])))
        for probe in probes(slots):
            if probe.name == "the sample" or any(not np.isfinite(a.astype(np.float64)).all() for a in probe.arrays):
                continue
            changed = list(tensors)
            for index, array in zip(moving, probe.arrays, strict=True):
                changed[index] = to_torch(array)
            yield probe.name, probe.negligible, changed


def ignoring_unused(compiled: Compiled, graph: fx.GraphModule) -> tuple[Compiled, fx.GraphModule]:
    """The same, where elements that a caller does not use, such as those outside a domain, add nothing to gradients."""
    calmed = fx.GraphModule(graph, copy.deepcopy(graph.graph))
    mended = ignore_unused(calmed.graph)
    calmed.recompile()
    return replace(compiled, mended_gradients=compiled.mended_gradients + mended, ignores_unused=True), calmed


def _defined(graphs: Sequence[fx.GraphModule], inputs: Sequence[Any], narrow: Sequence[Any]) -> list[Any] | None:
    """Of each result the elements that have a derivative to compare, finite in float64 and no overflow in the model's own type. None where
    torch refuses the inputs."""
    types = [t.dtype for t in narrow if is_differentiable(t)]
    largest = min((torch.finfo(dtype).max for dtype in types), default=math.inf)
    with torch.no_grad():
        found = []
        for graph in graphs:
            try:
                with trial_run(graph.graph):
                    found.append(graph(*map(detached, inputs)))
            except REFUSALS:
                return None
    return [b.abs() <= largest if is_differentiable(a) else None for a, b in zip(*found, strict=True)]
