"""Gradients of a graph before and after a rewrite, on the sample and on probes beyond it, by the rules that values are compared by."""

from __future__ import annotations

import contextlib
import copy
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
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
from hnfc.dialects.types import ELEMENT_NAMES, FORMATS
from hnfc.frontend.torch_mlir import import_module
from hnfc.pipeline.compiled import Compiled
from hnfc.pytorch.gradient_terms import separate_uses
from hnfc.pytorch.kept_values import WithKept
from hnfc.validation.differential import MOST_ELEMENTS, elements_of
from hnfc.validation.gradients import (
    BACKWARD,
    Arbiter,
    coarsest,
    leniency,
    next_to,
    only_the_first,
    rounding_noise,
    stops_gradients,
    weight_of,
    worse,
    worse_than_kept,
)
from hnfc.validation.invented import is_pointwise
from hnfc.validation.probes import Slot, probes
from hnfc.validation.tolerance import NEGLIGIBLE, TOLERATED_GROWTH

Array: TypeAlias = "np.ndarray[Any, Any]"
MOST_OPERATIONS, MOST_NUMBERS = 200, 100_000
"""Operations of a graph, and numbers that it takes, up to which gradients alone are a reason to change it."""
_REFUSALS = (RuntimeError, TypeError, ValueError, NotImplementedError)
"""Exceptions of torch for inputs that an operation does not take."""
_UNITS_OF_TERMS = 4
"""Units roundoff of the largest term of a gradient, by which one may be off that was no number before the rewrite."""


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
        wanted = [i for i, t in enumerate(tensors) if _is_differentiable(t) and (t.requires_grad or i not in self.fixed)]
        if not wanted:
            return
        if sum(t.numel() for t in tensors if isinstance(t, torch.Tensor)) > MOST_ELEMENTS:
            self.skipped = f"the model has more than {MOST_ELEMENTS:,} numbers"
            return
        imported = import_module(self.source)
        block = next(op for op in imported.module.ops if isinstance(op, FuncOp)).body.block
        limit = max(1, MOST_ELEMENTS // max(1, BACKWARD * elements_of(block)))
        wide = widened(_copied(self.before)), widened(_copied(self.after))
        mixing = not all(is_pointwise(op) for op in block.ops if op.results)
        stops = stops_gradients(block)
        for count, (name, negligible, inputs) in enumerate(self._inputs(tensors, intervals, block)):
            if count >= limit:
                return
            doubled = [t.double() if _is_differentiable(t) else t for t in inputs]
            found = _defined(wide, doubled, inputs)
            if found is None:
                if count:
                    continue  # a matrix, say, that has no factors
                self.skipped = "torch cannot compute the model in float64"
                return
            defined, size = found
            narrow = [_gradients(graph, inputs, wanted, self.returned, defined) for graph in (self.before, self.after)]
            exact = [_gradients(graph, doubled, wanted, self.returned, defined) for graph in wide]
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
                form = _format(inputs[index])
                largest = float(inputs[index].detach().abs().max()) if inputs[index].numel() else 0.0
                rules = leniency(form, mixing, size, largest, negligible, count == 0)
                reason = worse(arrays, form, arbiter.derivative, rules)
                if reason and mixing:
                    # sums of float64 that cancel leave its rounding, where sums of whole numbers may leave none
                    rest = NEGLIGIBLE * _largest_on_the_way(wide[0], doubled) / max(largest, form.tiny)
                    reason = worse(arrays, form, arbiter.derivative, replace(rules, noise=max(rules.noise, rest)))
                if reason and not np.isfinite(arrays[0].astype(np.float64)).all():
                    # what came before the rewrite may have no digit left, as the scores of a softmax; its gradient is right for those
                    kept = self._of_kept(wide[1], (inputs, doubled), index, defined)
                    reason = worse_than_kept(arrays, kept, form, arbiter.derivative, rules)
                    if reason:
                        allowed = _UNITS_OF_TERMS * form.unit_roundoff * self._largest_terms(wide[1], doubled, index, defined)
                        if mixing:
                            again = partial(self._next_to, inputs, index, defined, coarsest(block))
                            allowed = np.maximum(allowed, TOLERATED_GROWTH * rounding_noise(arrays[1], again))
                        loosened = replace(rules, unnoticed=allowed)
                        reason = worse(arrays, form, arbiter.derivative, loosened)
                        reason = reason and worse_than_kept(arrays, kept, form, arbiter.derivative, loosened)
                if reason:
                    yield f"the gradient by argument {index} {'on the sample' if count == 0 else f'on a probe ({name})'}: {reason}"

    def on_sample(self, tensors: Sequence[Any]) -> list[tuple[Array, Array, Any]]:
        """The gradients after the rewrite on the sample, beside those of the graph before in float64, with their formats; empty where torch
        has none of these, or where they would take long."""
        wanted = [i for i, t in enumerate(tensors) if _is_differentiable(t) and (t.requires_grad or i not in self.fixed)]
        operations = sum(node.op == "call_function" for node in self.before.graph.nodes)
        if not wanted or operations > MOST_OPERATIONS or sum(t.numel() for t in tensors if isinstance(t, torch.Tensor)) > MOST_NUMBERS:
            return []
        doubled, graph = [t.double() if _is_differentiable(t) else t for t in tensors], widened(_copied(self.before))
        found = _defined((graph, graph), doubled, tensors)
        if found is None:
            return []
        narrow, wide = (
            _gradients(each, inputs, wanted, self.returned, found[0]) for each, inputs in ((self.after, tensors), (graph, doubled))
        )
        if narrow is None or wide is None:
            return []
        return [(to_numpy(a), to_numpy(b), _format(tensors[i])) for a, b, i in zip(narrow, wide, wanted, strict=True)]

    def _of_kept(
        self, wide: fx.GraphModule, calls: tuple[Sequence[Any], Sequence[Any]], index: int, defined: Sequence[Any]
    ) -> Array | None:  # fmt: skip
        """The gradient in float64 from values that were computed in the model's types before the rewrite; None where torch has none.

        calls: the inputs in these types, and in float64.
        """
        inputs, doubled = calls
        graph = WithKept(self.before, self.after, wide)
        try:
            graph.record([_plain(value) for value in inputs])
        except _REFUSALS:
            return None
        found = _gradients(graph, doubled, [index], self.returned, defined)
        return to_numpy(found[0]) if found is not None else None

    def _next_to(
        self, inputs: Sequence[Any], index: int, defined: Sequence[Any], unit_roundoff: float, random: np.random.Generator
    ) -> Array | None:  # fmt: skip
        """The gradient after the rewrite on inputs some units in the last place away."""
        near = [
            torch.tensor(next_to(to_numpy(t), _OF_DTYPE[t.dtype], unit_roundoff, random), dtype=t.dtype) if _is_differentiable(t) else t
            for t in inputs
        ]
        found = _gradients(self.after, near, [index], self.returned, defined)
        return to_numpy(found[0]) if found is not None else None

    def _largest_terms(self, wide: fx.GraphModule, doubled: Sequence[Any], index: int, defined: Sequence[Any]) -> Array:
        """The size of the largest term of each element of a gradient, which is a sum over the uses of the argument; 0 for a single one:
        where terms cancel, their rounding is no fault of a form."""
        graph = _copied(wide)
        uses = separate_uses(graph, index)
        places = range(len(doubled), len(doubled) + uses)
        found = _gradients(graph, [*doubled, *[doubled[index]] * uses], places, self.returned, defined) if uses > 1 else None
        sizes = [np.nan_to_num(np.abs(to_numpy(term)), nan=0.0, posinf=0.0) for term in found or ()]
        return np.asarray(np.max(sizes, axis=0) if sizes else 0.0)

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


def _defined(graphs: Sequence[fx.GraphModule], inputs: Sequence[Any], narrow: Sequence[Any]) -> tuple[list[Any], float] | None:
    """Of each result the elements that have a derivative to compare, finite in float64 and no overflow in the model's own type; and
    the size of the largest of them. None where torch refuses the inputs."""
    types = [t.dtype for t in narrow if _is_differentiable(t)]
    largest = min((torch.finfo(dtype).max for dtype in types), default=math.inf)
    with torch.no_grad():
        found = []
        for graph in graphs:
            try:
                with trial_run(graph.graph):
                    found.append(graph(*map(_plain, inputs)))
            except _REFUSALS:
                return None
    masks: list[Any] = []
    size = 0.0
    for a, b in zip(*found, strict=True):
        if not _is_differentiable(a):
            masks.append(None)
            continue
        known = b.abs() <= largest
        masks.append(known)
        size = max(size, float(torch.where(known, b.abs(), torch.zeros_like(b)).max()) if b.numel() else 0.0)
    return masks, size


def _largest_on_the_way(graph: fx.GraphModule, inputs: Sequence[Any]) -> float:
    """The size of the largest finite number that a graph computes; 0 where torch refuses the inputs."""
    largest = 0.0

    class Looking(fx.Interpreter):
        def run_node(self, n: fx.Node) -> Any:
            nonlocal largest
            result = super().run_node(n)
            if _is_differentiable(result) and result.numel():
                largest = max(largest, float(torch.nan_to_num(result.detach(), nan=0.0, posinf=0.0, neginf=0.0).abs().max()))
            return result

    with torch.no_grad(), contextlib.suppress(*_REFUSALS):
        Looking(graph).run(*map(_plain, inputs))
    return largest


def _gradients(
    graph: fx.GraphModule | WithKept, inputs: Sequence[Any], wanted: Sequence[int], returned: Sequence[bool], defined: Sequence[Any]
) -> list[Any] | None:
    """The gradients of the weighted results by the wanted arguments."""
    leaves = [t.detach().clone().requires_grad_() if i in wanted else _plain(t) for i, t in enumerate(inputs)]
    try:
        with trial_run(graph.graph), torch.enable_grad():
            results = zip(graph(*leaves), returned, defined, strict=True)
            chosen_results = [(r, known) for r, is_returned, known in results if is_returned and _is_differentiable(r) and r.requires_grad]
            outputs = [r for r, _ in chosen_results]
            weights = [torch.from_numpy(weight_of(r.numel())).to(r.dtype).reshape(r.shape) * known for r, known in chosen_results]
            chosen = [leaves[i] for i in wanted]
            found = torch.autograd.grad(outputs, chosen, weights, allow_unused=True) if outputs else [None] * len(chosen)
    except _REFUSALS:
        return None
    return [torch.zeros_like(t) if g is None else g.detach() for t, g in zip(chosen, found, strict=True)]


def _plain(value: Any) -> Any:
    return value.detach().clone() if isinstance(value, torch.Tensor) else value


def _copied(graph: fx.GraphModule) -> fx.GraphModule:
    copied = fx.Graph()
    copied.output(copied.graph_copy(graph.graph, {}))
    root = torch.nn.Module()
    for name, buffer in graph.named_buffers():
        root.register_buffer(name, buffer.clone(), persistent=False)
    return fx.GraphModule(root, copied)


def _is_differentiable(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point()


_OF_DTYPE = {torch.float64: "f64", torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16"}


def _format(tensor: Any) -> Any:
    return FORMATS[_OF_DTYPE.get(tensor.dtype, "f32")]
