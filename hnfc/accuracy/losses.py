"""Places of a tensor program where digits are lost on samples, and how many: each value beside its value in float64.

An element near 0 loses digits by chance wherever numbers are added: of n elements the worst loses about log₂ n bits. Only what goes beyond
that is a fault of the formula.
"""

from __future__ import annotations

import math
from collections import ChainMap
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Block, Operation, SSAValue

from hnfc.accuracy.element_types import bits_lost
from hnfc.core.interpreter import EXACT_BUDGET, WeightReader, compute_into, evaluate_exactly, last_uses, upstream
from hnfc.core.samples import moved
from hnfc.dialects.facts import Access
from hnfc.dialects.num.base import NumOp
from hnfc.dialects.num.constant import ConstantOp
from hnfc.dialects.num.rounding import NUMPY_TYPES
from hnfc.dialects.types import ELEMENT_NAMES, FORMATS

Array: TypeAlias = "np.ndarray[Any, Any]"
Sample: TypeAlias = Mapping[SSAValue, Array]
OutputOfRun: TypeAlias = tuple[SSAValue, int]
LEAST_LOSS = 6.0
"""Bits beyond chance that a result must lose to count as inaccurate, and that one operation must lose of correctly rounded operands."""


def float_type(value: SSAValue) -> str:
    """The floating-point element type of a value that is computed with; empty for others."""
    name = ELEMENT_NAMES.get(value.type.element_type, "") if isinstance(value.type, TensorType) else ""
    return name if name in FORMATS and name in NUMPY_TYPES else ""


def beyond_chance(bits: Array) -> float:
    """Bits that elements lost beyond what so many of them lose by chance."""
    if not bits.size:
        return 0.0
    ordered = np.sort(bits, axis=None)[::-1]
    return float((ordered - np.log2(bits.size / np.arange(1, bits.size + 1))).max())


def least_loss(element: str) -> float:
    """LEAST_LOSS, or two fifths of the digits where the type has few."""
    return min(LEAST_LOSS, -math.log2(FORMATS[element].unit_roundoff) * 0.4)


def loss(computed: Array, true: Array, element: str, *, stored: bool) -> float:
    """Bits beyond chance between a value and its true one. stored: whether a true value beyond the format's range counts, as lost.

    Complex numbers lose nothing that is known here.
    """
    if np.iscomplexobj(computed) or np.iscomplexobj(true):
        return 0.0
    computed, true = np.broadcast_arrays(np.asarray(computed, np.float64), np.asarray(true, np.float64))
    with np.errstate(all="ignore"):
        counted = np.isfinite(true) & (stored | (np.abs(true) <= FORMATS[element].largest))
    return beyond_chance(bits_lost(computed[counted], true[counted], element))


class MixedRun:
    """A program on one sample with some operations in a wider type and all others in their own; values that nothing needs are dropped."""

    def __init__(self, block: Block, sample: Sample, weights: WeightReader | None, kept: Collection[SSAValue]) -> None:
        self.block, self.sample, self.weights, self.kept = block, sample, weights, frozenset(kept)
        self._last = last_uses(block)

    def outputs(self, wide: Collection[Operation] = (), element: str = "f64") -> dict[SSAValue, Array]:
        """The kept values, in their own types. wide: the operations that compute in `element`."""
        found: dict[SSAValue, Array] = dict(self.sample)
        exact: dict[SSAValue, Array] = {}
        for operation in self.block.ops:
            # a constant has more of its digits where it is used in a wider type
            if operation in wide or isinstance(operation, ConstantOp):
                compute_wide(operation, found, exact, self.weights)
                for result in operation.results if element != "f64" else ():
                    if result in exact and float_type(result):
                        exact[result] = stored(exact[result], element)
            else:
                compute_into(found, operation, self.weights)
            self.forget(operation, found, exact)
        return {value: found[value] for value in self.kept if value in found}

    def true_outputs(self, budget: int) -> dict[SSAValue, Array]:
        """The kept values over the reals, or in float64 where that takes too long or the model itself rounds to a narrower type."""
        if not any(map(is_narrowing, self.block.ops)):
            wanted = [value for value in self.kept if float_type(value)]
            found = evaluate_exactly(self.block, self.sample, wanted, self.weights, budget=budget)
            if all(value in found for value in wanted):
                return found
        return self.wide_outputs()

    def inherent_losses(self, true: Sample, counted: Mapping[SSAValue, str], budget: int) -> dict[SSAValue, float]:
        """The bits beyond chance that each output loses over the reals as each input moves within a unit in its last place."""
        worst = {value: 0.0 for value in counted if value in true}
        random = np.random.default_rng(0)
        for _ in range(_DRAWS):
            sample = {argument: self.sample[argument] for argument in self.block.args}
            near: Sample = {a: stored(moved(x, float_type(a), 1, random), float_type(a)) if float_type(a) else x for a, x in sample.items()}
            found = MixedRun(self.block, near, self.weights, self.kept).true_outputs(budget)
            for value in worst:
                if value in found:
                    worst[value] = max(worst[value], loss(found[value], true[value], counted[value], stored=False))
        return worst

    def wide_outputs(self) -> dict[SSAValue, Array]:
        """The kept values in float64, except for what the model itself casts to a narrower type."""
        found: dict[SSAValue, Array] = dict(self.sample)
        exact: dict[SSAValue, Array] = {}
        for operation in self.block.ops:
            compute_exact(operation, found, exact, self.weights)
            self.forget(operation, found, exact)
        return {value: exact[value] if value in exact else found[value] for value in self.kept if value in found}

    def losses(self, budget: int) -> list[Operation]:
        """The operations that lose digits of correctly rounded operands. budget: elementary steps for true values of float64."""
        lost = []
        found: dict[SSAValue, Array] = dict(self.sample)
        exact: dict[SSAValue, Array] = {}
        true = self._true_in_float64(budget)
        for operation in self.block.ops:
            rounded: dict[SSAValue, Array] = {}
            if any(map(float_type, operation.results)) and not is_narrowing(operation):
                compute_into(ChainMap(rounded, found), operation, self.weights)
            compute_exact(operation, found, exact, self.weights)
            for result in (result for result in operation.results if result in true and result in exact):
                known = np.broadcast_to(true[result], exact[result].shape)
                found[result] = exact[result] = np.where(np.isnan(known), exact[result], known)
            if any(self._loses(operation, result, rounded, exact) for result in operation.results):
                lost.append(operation)
            self.forget(operation, found, exact)
        return lost

    def _true_in_float64(self, budget: int) -> Mapping[SSAValue, Array]:
        """The true values of all results in float64, which computing in float64 does not give; none where that takes too long."""
        wanted = [result for op in self.block.ops for result in op.results if float_type(result) == "f64"]
        if not wanted or any(map(is_narrowing, self.block.ops)):
            return {}
        return evaluate_exactly(self.block, self.sample, wanted, self.weights, budget=budget)

    @staticmethod
    def _loses(operation: Operation, result: SSAValue, rounded: Mapping[SSAValue, Array], exact: Mapping[SSAValue, Array]) -> bool:
        element = float_type(result)
        if not element or result not in rounded or result not in exact:
            return False
        return loss(rounded[result], exact[result], element, stored=True) - _expected(operation) >= least_loss(element)

    def forget(self, operation: Operation, *found: dict[SSAValue, Array]) -> None:
        for value in (*operation.operands, *operation.results):
            if self._last.get(value, operation) is operation and value not in self.kept:
                for each in found:
                    each.pop(value, None)


@dataclass(frozen=True)
class Losses:
    """Losses on samples: the outputs that are inaccurate, and the operations upstream of them that lose digits.

    counted: the type whose digits count, of each output. now: the bits beyond chance that it loses on each sample. runs, truth: runs of the
    program, and its outputs in float64.
    """

    inaccurate: Sequence[SSAValue]
    lost: frozenset[Operation]
    counted: Mapping[SSAValue, str]
    now: Mapping[OutputOfRun, float]
    runs: Sequence[MixedRun]
    truth: Sequence[Mapping[SSAValue, Array]]

    def on_inaccurate_samples(self) -> Losses:
        """The same of those samples alone on which an output is inaccurate."""
        kept = sorted({run for (value, run), bits in self.now.items() if bits >= least_loss(self.counted[value])})
        now = {(value, kept.index(run)): bits for (value, run), bits in self.now.items() if run in kept}
        return replace(self, now=now, runs=[self.runs[run] for run in kept], truth=[self.truth[run] for run in kept])


def lossy_operations(
    block: Block, outputs: Sequence[SSAValue], samples: Sequence[Sample], weights: WeightReader | None, variations: int = 0
) -> Losses | None:
    """The losses of a program; None where all outputs are accurate on the samples. variations: see `Observations`."""
    runs = [MixedRun(block, sample, weights, outputs) for sample in samples]
    if not runs or not any(map(float_type, outputs)):
        return None
    before = [run.outputs() for run in runs]
    truth = [dict(run.true_outputs(EXACT_BUDGET // len(runs))) for run in runs]
    computed_in = narrowest(block)
    counted = {value: computed_in.get(value, float_type(value)) for value in outputs if float_type(value)}
    now = losses_by_run(counted, before, truth)
    for at in range(len(runs) - variations, len(runs)):
        if any(bits >= least_loss(counted[value]) for (value, run), bits in now.items() if run == at):
            for value, bits in runs[at].inherent_losses(truth[at], counted, EXACT_BUDGET // len(runs)).items():
                if now.get((value, at), 0.0) <= bits + _INHERENT_SLACK:
                    del now[value, at], truth[at][value]
    inaccurate = {of: bits for of, bits in now.items() if bits >= least_loss(counted[of[0]])}
    if not inaccurate:
        return None
    values = list(dict.fromkeys(value for value, _ in inaccurate))
    behind = upstream(values)
    lossy = [runs[at] for at in sorted({at for _, at in inaccurate})]
    lost = frozenset(op for run in lossy for op in run.losses(EXACT_BUDGET // len(runs)) if op in behind)
    return Losses(values, lost, counted, now, runs, truth)


_INHERENT_SLACK = 2.0
_DRAWS = 3


def is_narrowing(operation: Operation) -> bool:
    """Return whether the model itself rounds here: a cast to a type of fewer digits, or a rounding to a format."""
    if not isinstance(operation, NumOp) or not operation.operands:
        return False
    before, after = float_type(operation.operands[0]), float_type(operation.results[0]) if operation.results else ""
    if before and after and FORMATS[after].unit_roundoff > FORMATS[before].unit_roundoff:
        return True
    return bool(operation.properties.keys() & {"format", "accumulate"})


def compute_exact(operation: Operation, found: dict[SSAValue, Array], exact: dict[SSAValue, Array], weights: WeightReader | None) -> None:
    """Adds the results of an operation in float64 to `exact`, but for what the model rounds, and as they are stored to `found`."""
    if is_narrowing(operation):
        compute_into(found, operation, weights)
    else:
        compute_wide(operation, found, exact, weights)


def compute_wide(operation: Operation, found: dict[SSAValue, Array], exact: dict[SSAValue, Array], weights: WeightReader | None) -> None:
    """Adds the results of an operation in float64 to `exact`, and as they are stored to `found`."""
    compute_into(ChainMap(exact, found), operation, weights, wide=True)
    for result in operation.results:
        if result in exact:
            element = float_type(result)
            found[result] = stored(exact[result], element) if element else exact[result]


def is_normal(array: Array, element: str) -> bool:
    """Return whether all elements are normal numbers of the type: neither 0 nor so small that they lose digits, and finite."""
    form = FORMATS[element]
    sizes = np.abs(np.asarray(array, np.float64))
    return bool(np.isfinite(sizes).all() and (sizes >= form.smallest_normal).all())


def stored(array: Array, element: str) -> Array:
    if np.iscomplexobj(array):
        return array
    with np.errstate(all="ignore"):
        return np.asarray(array).astype(NUMPY_TYPES[element])


def _expected(operation: Operation) -> float:
    """Bits that sums over many terms lose by rounding alone."""
    if not isinstance(operation, NumOp) or operation.FACTS.access in (Access.ELEMENTWISE, Access.MOVEMENT, Access.LOOKUP, Access.SOURCE):
        return 0.0
    sizes = [math.prod(abs(s) for s in v.type.get_shape()) for v in operation.operands if isinstance(v.type, TensorType)]
    return 2.0 + 0.5 * math.log2(max(1.0, max(sizes, default=1)))


def narrowest(block: Block) -> dict[SSAValue, str]:
    """The element type with the fewest digits among those that each floating-point value is computed in."""
    found: dict[SSAValue, str] = {}
    for operation in block.ops:
        behind = [found[operand] for operand in operation.operands if operand in found]
        for result in operation.results:
            elements = [*behind, *filter(None, [float_type(result)])]
            if elements:
                found[result] = max(elements, key=lambda e: FORMATS[e].unit_roundoff)
    return found


def losses_by_run(
    outputs: Mapping[SSAValue, str], computed: Sequence[Mapping[SSAValue, Array]], true: Sequence[Mapping[SSAValue, Array]]
) -> dict[OutputOfRun, float]:
    """Bits beyond chance that each output loses on each sample. outputs: each with the type whose digits count."""
    found = {}
    for value, element in outputs.items():
        for run, (got, want) in enumerate(zip(computed, true, strict=True)):
            if element and value in want:
                found[value, run] = loss(got[value], want[value], element, stored=False) if value in got else math.inf
    return found


def total_loss(losses: Mapping[OutputOfRun, float]) -> float:
    """The bits that all outputs lose together on all samples, one of each not counted."""
    return math.fsum(max(0.0, bits - 1.0) for bits in losses.values())
