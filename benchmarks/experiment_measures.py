"""What can be said of a program on one sample, before it is run in float32 and afterwards: measures of its error, and the error."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import fx
from xdsl.ir import Block, SSAValue

from hnfc.analysis.calibrated import calibrate, rounds
from hnfc.analysis.certified import certified
from hnfc.analysis.curvature import curvatures
from hnfc.analysis.nodes import TapeNode
from hnfc.analysis.reading import read_function
from hnfc.analysis.tape import Tape
from hnfc.analysis.taylor import Forms, Recorder, running_error
from hnfc.backend.fx import raise_function
from hnfc.core.interpreter import evaluate, evaluate_exactly
from hnfc.dialects.interval_arrays import IntervalArray
from hnfc.frontend.pytorch import Captured, capture
from hnfc.frontend.torch_mlir import Imported
from hnfc.pytorch.rewriting import rewrite_values
from hnfc.pytorch.settings import Settings

Array: TypeAlias = "np.ndarray[Any, Any]"
UNIT = 2.0**-24
"""The unit roundoff of float32."""
BUDGET = 1_000_000
"""Elementary steps of the reference in ball arithmetic."""


@dataclass
class Function:
    """A captured program as a function of `num`, with what its arguments are on the sample."""

    imported: Imported
    block: Block
    inputs: dict[SSAValue, Array]
    tensors: list[torch.Tensor]

    @staticmethod
    def of(captured: Captured, tensors: Sequence[torch.Tensor]) -> Function:
        imported, function = read_function(captured.module)
        block = function.body.block
        return Function(imported, block, {v: t.numpy() for v, t in zip(block.args, tensors, strict=True)}, list(tensors))

    @property
    def output(self) -> SSAValue:
        assert self.block.last_op is not None
        return self.block.last_op.operands[0]

    def run(self) -> Array:
        """The output as torch computes it, in the formats of the program."""
        graph = raise_function(self.imported.torch)
        with torch.no_grad():
            return np.asarray(graph(*self.tensors)[0].double())

    def exact(self) -> Array | None:
        """The output over the reals; None where ball arithmetic does not decide it."""
        found = evaluate_exactly(self.block, self.inputs, [self.output], self.imported.weight, budget=BUDGET)
        return found.get(self.output)

    def wide(self) -> dict[SSAValue, Array]:
        return evaluate(self.block, self.inputs, self.imported.weight, wide=True)


def both(model: torch.nn.Module, inputs: Sequence[torch.Tensor], settings: Settings, look: Callable[[Function], Any]) -> Pair:
    """What `look` sees of a program before and after its rewriting, and the rules that ran."""
    captured = capture(model, inputs, {})
    before = look(Function.of(captured, inputs))
    compiled = rewrite_values(model, captured, tuple(inputs), {}, settings)
    captured.module = compiled.export()
    rules = [applied.rule.name for applied in compiled.applied]
    return Pair(before, look(Function.of(captured, inputs)) if rules else before, rules, list(compiled.rolled_back), compiled.operations)


@dataclass
class Pair:
    before: Any
    after: Any
    rules: list[str]
    taken_back: list[str]
    operations: int


def largest_relative(found: Array, truth: Array, least: float = 0.0) -> float:
    """max |found - truth| / |truth|, or / least where the truth is smaller; infinite where something is not finite that ought to be."""
    with np.errstate(all="ignore"):
        each = np.where(found == truth, 0.0, np.abs(found - truth) / np.maximum(np.abs(truth), least))
    return float(np.max(np.where(np.isfinite(found) & ~np.isnan(each), each, np.inf), initial=0.0))


def curvature(function: Function) -> float:
    """Σκ over the operations, κ by the formulas of the sources."""
    return sum(curvatures(function.block, function.wide()).values())


def curvature_by_diameter(function: Function) -> float:
    """ΣκD², D being the diameter of what the operation is given: what the sources take for the bits that are needed."""
    values = function.wide()
    return sum(k * float(np.ptp(values[op.operands[0]])) ** 2 for op, k in curvatures(function.block, values).items())


def relative_curvature(function: Function) -> float:
    """Σκx²/|f|, x and f being the largest operand and result: the second-order term of a relative error."""
    values = function.wide()
    total = 0.0
    for op, k in curvatures(function.block, values).items():
        result = float(np.abs(values[op.results[0]]).max())
        total += k * float(np.abs(values[op.operands[0]]).max()) ** 2 / result if result else 0.0
    return total


def worst_condition(function: Function) -> float:
    """The largest condition number of an operation on the sample: by how much it makes a relative error larger."""
    found = certified(function.block, _boxes(function), function.imported.weight)
    owners = {result for op in function.block.ops for result in op.results}
    return max(
        (bound.condition for value, bound in found.bounds.items() if value in owners and math.isfinite(bound.condition)), default=1.0
    )


def certified_bound(function: Function) -> float:
    """The largest relative error that is possible in an element of the output, by intervals and first-order forms."""
    forms, true = Forms(Tape(recording=False)), Forms(Tape(recording=False))
    recorder, unrounded = Recorder(forms, function.imported.weight), Recorder(true, function.imported.weight, rounding=False)
    with np.errstate(all="ignore"):
        for value, box in _boxes(function).items():
            forms.known[value], true.known[value] = forms.tape.input(box), true.tape.input(box)
        for operation in function.block.ops:
            recorder.record(operation)
            unrounded.record(operation)
        node, exact = forms.known.get(function.output), true.known.get(function.output)
        if not isinstance(node, TapeNode) or not isinstance(exact, TapeNode):
            return math.inf
        each = running_error(node) / exact.value.smallest
    return float(np.max(np.where(np.isnan(each), np.inf, each), initial=0.0))


def first_order(function: Function) -> float:
    """The calibrated estimate: each value's rounding to float32 times its derivative, in float64, squares added up, relative by element.

    Infinite where a value that an operation gives does not fit float32.
    """
    given = [tensor.double() for tensor in function.tensors]
    found = calibrate(function.imported, [given], probes=PROBES, formats=("fp32",), elementwise=True)
    return math.sqrt(sum(observed.moved.get("fp32", 0.0) ** 2 for value, observed in found.values.items() if rounds(value)))


PROBES = 4
"""Backward passes with random signs."""


def each_alone(function: Function) -> float:
    """Every result rounded to float32 by itself, all else in float64: how far that moves an element, squares added up.

    Where a derivative describes the move it is the first order again; it also sees what an overflow or an underflow does further on.
    """
    replay = _Replay(function)
    truth = replay.result_with(None)
    squares = np.zeros(truth.shape)
    with np.errstate(all="ignore"):
        for node in replay.rounded:
            squares += ((replay.result_with(node) - truth) / truth) ** 2
    return math.sqrt(float(np.max(np.where(np.isnan(squares), np.inf, squares))))


class _Replay(fx.Interpreter):
    """A function in float64, in which one node can be rounded."""

    def __init__(self, function: Function) -> None:
        nodes: dict[Any, Any] = {}
        super().__init__(raise_function(function.imported.torch, "main", nodes))
        values = function.imported.values
        self.rounded = [nodes[made] for value, made in values.items() if rounds(value) and isinstance(nodes.get(made), fx.Node)]
        self.given = [tensor.double() for tensor in function.tensors]
        self.chosen: fx.Node | None = None

    def result_with(self, chosen: fx.Node | None) -> Array:
        self.chosen = chosen
        with torch.no_grad():
            return np.asarray(self.run(*self.given)[0].double())

    def run_node(self, n: fx.Node) -> Any:
        result = super().run_node(n)
        return result.float().to(result.dtype) if n is self.chosen else result


def _boxes(function: Function) -> Mapping[SSAValue, IntervalArray]:
    return {value: IntervalArray.of(array.astype(np.float64)[None]) for value, array in function.inputs.items()}


MEASURES: dict[str, tuple[str, Callable[[Function], float]]] = {
    "curvature": ("curvature Σκ, the sources' formulas", curvature),
    "diameter": ("curvature with diameters, ΣκD²", curvature_by_diameter),
    "relative": ("relative curvature, Σκx²/abs(f)", relative_curvature),
    "condition": ("largest condition number of an operation", worst_condition),
    "certified": ("certified bound", certified_bound),
    "first_order": ("calibrated estimate, first order", first_order),
    "each_alone": ("each rounding alone, replayed", each_alone),
}
"""By name: what it is called in tables, and how it is found. None of them runs the program in float32."""
