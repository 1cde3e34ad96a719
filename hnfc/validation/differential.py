"""A function before and after a rewrite, beside each other: on samples, and on probes beyond them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

import numpy as np
from torch_mlir import ir
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Block, Operation, SSAValue

from hnfc.core.errors import ModelError
from hnfc.core.interpreter import WeightReader, evaluate
from hnfc.dialects.interval import ANYTHING, Interval
from hnfc.dialects.num.rounding import NUMPY_TYPES
from hnfc.dialects.torch import TorchType
from hnfc.dialects.types import DYNAMIC, ELEMENT_NAMES, FORMATS, format_of
from hnfc.validation.measurement import NO_DIGIT, Error, Leniency, Original, measure, regression, unnoticed, vanished, worst
from hnfc.validation.probes import Slot, probes
from hnfc.validation.tolerance import GROWTH_WITHOUT_DIGITS, TOLERATED_GROWTH, TOLERATED_ULPS

Array: TypeAlias = "np.ndarray[Any, Any]"
Function: TypeAlias = "Callable[[Sequence[Array]], list[Array]]"
Results: TypeAlias = "list[Array | None]"
MOST_ELEMENTS = 20_000_000
"""Elements of all values that the probes of a function may compute."""
_SIZE_OF_UNKNOWN = 4


class Rewritten(Protocol):
    """A model with rewrites, which `export` writes into the module that it was read from."""

    imported: Any
    replaced: dict[SSAValue, SSAValue]
    whole_rows: set[Operation]

    def export(self, native: bool = False) -> ir.Module: ...


class Runner(Protocol):
    """Runner of a model for its user."""

    name: str
    adapts: bool
    """True if a module is written anew for this runner where no rule changed it."""

    def rewritten(self, compiled: Rewritten, native: bool) -> Callable[[str], Function]:
        """Loader of the functions of a rewritten module. Raises ModelError."""

    def load(self, module: ir.Module, function: str) -> Function:
        """The function as one of arrays; later changes of the module do not reach it. Raises ModelError."""

    def wide(self, module: ir.Module, function: str) -> Function | None:
        """The function in float64, where the runner can do that."""


@dataclass
class Trial:
    """One function on samples and probes. truth: of each result over the reals, as far as it is known, NaN where there is none."""

    function: str
    samples: list[list[Array]]
    formats: list[Any]
    sample_truth: list[Results]
    is_body: bool = False
    """True for the body of a branch or a loop, which no runner has as a function."""
    is_counted: bool = False
    """True for a body that takes the number of its turn."""
    mixing: bool = False
    """True if results are sums over elements of the inputs."""
    probes: list[list[Array]] = field(default_factory=list)
    probe_names: list[str] = field(default_factory=list)
    negligible: list[float] = field(default_factory=list)
    """Of each probe: see `Probe.negligible`."""
    probe_truth: list[Results] = field(default_factory=list)
    old: list[Results] = field(default_factory=list)
    new: list[Results] = field(default_factory=list)
    """Results before and after: on the samples, then on the probes."""
    sensitivity: Callable[[int], list[Array | None]] = lambda place: []
    """Of each result on inputs (samples, then probes): its change as these move within a unit in their last place (see
    `Original.sensitivity`)."""
    error_near: Callable[[int], list[Array | None]] = lambda place: []
    """The largest error of each result before, on inputs next to those at a place (see `Original.error_near`)."""
    from_kept: Callable[[int], list[tuple[Array, Array] | None]] = lambda place: []
    """Each result over the reals, of what was computed before the first value that a rewrite made (see `Original.from_kept`), and how far
    it moves with that."""

    invented: Callable[[int, int, Array], bool] = lambda place, index, lost: False
    """True if elements of a result on inputs, which were NaN and are numbers, have no value (see `Original.invented`)."""

    def inputs(self) -> list[list[Array]]:
        return [*self.samples, *self.probes]

    def errors(self, results: Sequence[Results], index: int) -> Error | None:
        """The error of one result on the samples."""
        form = self.formats[index]
        found = []
        for result, truth in zip(results, self.sample_truth, strict=False):
            got, want = result[index], truth[index]
            if form is not None and got is not None and want is not None:
                found.append(measure(got, want, form))
        return worst(found) if found else None

    def is_rounding_of_inputs(self, index: int) -> bool:
        """Return whether a result may err more on the samples: it is finite on probes where it was not, and each error is one that
        inputs which are themselves rounded have in any form. Beside the largest element it has to be as small as before."""
        form, start = self.formats[index], len(self.samples)
        if form is None or not self._mends(index):
            return False
        for sample, (old, new, truth) in enumerate(zip(self.old[:start], self.new[:start], self.sample_truth, strict=False)):
            before, after, right = old[index], new[index], truth[index]
            if before is None or after is None or right is None:
                return False
            if not regression(before, after, right, form):
                continue
            if regression(before, after, right, form, Leniency(mixing=True)) or not self._is_inherent(sample, index, before, after, right):
                return False
        return True

    def _mends(self, index: int) -> bool:
        """Return whether a result is finite on probes where it was not."""
        start, form = len(self.samples), self.formats[index]
        probes = zip(self.old[start:], self.new[start:], self.probe_truth, strict=False)
        return any(_mended(old[index], new[index], truth[index], form) for old, new, truth in probes)

    def _is_inherent(self, place: int, index: int, before: Array, after: Array, right: Array) -> bool:
        """Return whether each error on the inputs at a place is one that these, rounded, have in any form."""
        form, allowed = self.formats[index], (self.sensitivity(place) or [None] * (index + 1))[index]
        if allowed is None:
            return False
        now, then, want = (array.astype(np.float64) for array in (after, before, right))
        with np.errstate(all="ignore"):
            units = 2 * TOLERATED_ULPS * (form.unit_roundoff * np.abs(want) + form.tiny)
            was = np.where(np.isfinite(then), np.abs(then - want), 0.0)
            limit = TOLERATED_GROWTH * np.maximum(was, allowed) + units
            return bool(np.all((np.abs(now - want) <= limit) | ~np.isfinite(want)))

    def regressions(self) -> Iterable[tuple[int, str]]:
        """The results that are worse on a probe, or are no number any more on a sample, with the reason."""
        start = len(self.samples)
        samples = zip(self.old[:start], self.new[:start], self.sample_truth, strict=False)
        for place, (old, new, truth) in enumerate(samples):
            for index, form in enumerate(self.formats):
                before, after, right = old[index], new[index], truth[index]
                if before is not None and after is None:
                    yield index, "there is no result any more"
                if form is None or before is None or after is None or right is None:
                    continue
                # other errors count on all samples together (see `errors`)
                if self._invents(place, index, before, after):
                    yield index, "on a sample a NaN became a number where there is no value"
                no_number = np.where(np.isfinite(before.astype(np.float64)), np.nan, right.astype(np.float64))
                rules = Leniency(self.mixing, unnoticed=unnoticed(form))
                if reason := vanished(before, after, right) or self._worse(place, index, (before, after, no_number), rules):
                    yield index, f"on a sample {reason}"
        rows = zip(self.probe_names, self.negligible, self.old[start:], self.new[start:], self.probe_truth, strict=False)
        for place, (name, negligible, old, new, truth) in enumerate(rows, start):
            for index, form in enumerate(self.formats):
                before, after, right = old[index], new[index], truth[index]
                if before is not None and after is None:
                    yield index, f"on a probe ({name}) there is no result any more"
                if form is None or before is None or after is None or right is None:
                    continue
                if self._invents(place, index, before, after):
                    yield index, f"on a probe ({name}) a NaN became a number where there is no value"
                rules = Leniency(self.mixing, negligible=negligible, unnoticed=unnoticed(form), unseen=True)
                if reason := self._worse(place, index, (before, after, right), rules):
                    yield index, f"on a probe ({name}) {reason}"

    def _invents(self, place: int, index: int, before: Array, after: Array) -> bool:
        lost = np.isnan(before.astype(np.float64)) & np.isfinite(after.astype(np.float64))
        return bool(lost.any()) and self.invented(place, index, lost)

    def _worse(self, place: int, index: int, arrays: tuple[Array, Array, Array], rules: Leniency) -> str:
        """The reason why a result is worse on the inputs at a place: one that neither rounded inputs nor what came before the rewrite
        explain."""
        before, after, right = arrays
        reason = regression(before, after, right, self.formats[index], rules)
        if reason and rules.unseen and self.mixing:
            after = self._without_luck(place, index, arrays)
            reason = regression(before, after, right, self.formats[index], rules)
        if reason and self.is_counted and self._was_broken(index, before, right):
            # a row of numbers whose scores are beyond their format has no value after, where some of its elements had none before
            after = np.where(np.isfinite(after.astype(np.float64)), after.astype(np.float64), before.astype(np.float64))
            reason = regression(before, after, right, self.formats[index], rules)
        # an element by itself, as the probability of one class, may lose what all of them together may
        if not reason or (self._mends(index) and self._is_inherent(place, index, before, after, right)):
            return ""
        return regression(before, after, self._instead_of_nothing(place, index, before, after, right), self.formats[index], rules)

    def _was_broken(self, index: int, before: Array, right: Array) -> bool:
        """Return whether elements were no numbers where they should be, as happens on other probes too, but after the rewrite not there."""
        return bool(np.any(~np.isfinite(before.astype(np.float64)) & np.isfinite(right.astype(np.float64)))) and self._mends(index)

    def _without_luck(self, place: int, index: int, arrays: tuple[Array, Array, Array]) -> Array:
        """The results after, right where they err as the results before do on inputs next to these: without a right digit, whatever they
        were here."""
        before, after, right = arrays
        near = (self.error_near(place) or [None] * (index + 1))[index]
        if near is None:
            return after
        now, want = after.astype(np.float64), right.astype(np.float64)
        with np.errstate(all="ignore"):
            lost = (near >= NO_DIGIT * np.abs(want)) & (np.abs(now - want) <= GROWTH_WITHOUT_DIGITS * near)
        return np.where(lost & np.isfinite(before.astype(np.float64)), want, now)

    def _instead_of_nothing(self, place: int, index: int, before: Array, after: Array, right: Array) -> Array:
        """The true values; where there was no number those of what was computed before the rewrite, which may have no digit left, as the
        scores of a softmax may."""
        kept = (self.from_kept(place) or [None] * (index + 1))[index]
        wide, now = right.astype(np.float64), after.astype(np.float64)
        if kept is None:
            return wide
        truth, spread = kept
        with np.errstate(all="ignore"):
            instead = np.where(np.abs(now - truth) <= TOLERATED_GROWTH * spread, now, truth)
            return np.where(~np.isfinite(before.astype(np.float64)) & np.isfinite(truth), instead, wide)


def _mended(old: Array | None, new: Array | None, truth: Array | None, form: Any) -> bool:
    if old is None or new is None or truth is None:
        return False
    before, after = measure(old, truth, form), measure(new, truth, form)
    return after.not_finite < before.not_finite


def slots_of(
    block: Block, sample: Mapping[SSAValue, Array], intervals: Mapping[SSAValue, Interval], fixed: frozenset[int], least_size: int
) -> list[Slot]:  # fmt: skip
    """The slots of a function's arguments; those at `fixed` are as in the sample. Empty where one cannot be filled."""
    found = []
    for index, argument in enumerate(block.args):
        kind = argument.type
        element = ELEMENT_NAMES.get(kind.element_type) if isinstance(kind, TensorType) else None
        array = sample.get(argument)
        if array is not None and isinstance(kind, TorchType) and kind.text.data == "!torch.int":  # the number of a turn
            found.append(Slot("si64", ANYTHING, array))
            continue
        if element is None or element not in NUMPY_TYPES or not isinstance(kind, TensorType):
            return []
        if array is None:
            if index in fixed or element not in FORMATS:
                return []
            shape = tuple(_SIZE_OF_UNKNOWN if size == DYNAMIC else size for size in kind.get_shape())
            array = np.random.default_rng(index).standard_normal(shape).astype(NUMPY_TYPES[element])
        interval = intervals.get(argument, ANYTHING)
        if index in fixed and element in FORMATS:
            wide = array.astype(np.float64)
            interval = Interval(float(wide.min(initial=0)), float(wide.max(initial=0)), bool(np.isnan(wide).any()))
        open_axes = tuple(axis for axis, size in enumerate(kind.get_shape()) if size == DYNAMIC)
        found.append(Slot(element, interval, array, open_axes, least_size))
    return found


def add_probes(
    trial: Trial, original: Original, block: Block, outputs: Sequence[SSAValue], now: Sequence[SSAValue], slots: Sequence[Slot],
    weights: WeightReader | None, fixed: frozenset[int],
) -> None:  # fmt: skip
    """Fills in probes, and what the function gave on them before and gives now, in hnfc's own evaluation and over the reals."""
    limit = MOST_ELEMENTS // max(1, elements_of(block))
    for probe in probes(slots):
        if len(trial.probes) >= limit:
            break
        if probe.name == "the sample" or any(i in fixed and not np.array_equal(probe.arrays[i], slots[i].sample) for i in fixed):
            continue
        sample: dict[SSAValue, Array] = dict(zip(block.args, probe.arrays, strict=True))
        reference = original.reference([sample], weights, outputs)
        if not reference.truth:
            return
        found = evaluate(block, sample, weights, keep=list(now))
        trial.probes.append(list(probe.arrays))
        trial.probe_names.append(probe.name)
        trial.negligible.append(probe.negligible)
        trial.old.append([reference.observed[0].get(value) for value in outputs])
        trial.new.append([found.get(value) for value in now])
        truth: Results = [reference.truth[0].get(value) for value in outputs]
        if reference.kind != "exact":
            wide = evaluate(block, sample, weights, wide=True, keep=list(now))
            truth = [agreed(old, wide.get(value), format_of(value.type)) for old, value in zip(truth, now, strict=True)]
        trial.probe_truth.append(truth)


def agreed(old: Array | None, new: Array | None, form: Any) -> Array | None:
    """Values over the reals, from the function before and after in float64: where both agree, or only the second is finite; else NaN."""
    if old is None or new is None or form is None:
        return None
    first, second = np.broadcast_arrays(old.astype(np.float64), new.astype(np.float64))
    with np.errstate(all="ignore"):
        close = np.abs(first - second) <= form.unit_roundoff * np.abs(first) + form.tiny
        # float64 may have dropped digits before, without which the new form is not finite: that says nothing
        mended = ~np.isfinite(first) & np.isfinite(second)
        return np.where(close | (first == second), first, np.where(mended, second, np.nan))


def elements_of(block: Block) -> int:
    """Elements of all values of a function, an unknown size counting as 1."""
    kinds = [result.type for op in block.ops for result in op.results if isinstance(result.type, TensorType)]
    return sum(math.prod(max(int(size), 1) for size in kind.get_shape()) for kind in kinds)


def run_on(function: Function, inputs: Sequence[Sequence[Array]], count: int) -> list[Results]:
    """The results of each call; None in place of those that the function cannot compute."""
    found: list[Results] = []
    for arrays in inputs:
        try:
            found.append(list(function(arrays)))
        except ModelError:
            found.append([None] * count)
    return found


def cloned(module: ir.Module) -> ir.Module:
    """A copy of the module in the same context; its weights are there once."""
    with module.context, ir.Location.unknown():
        copy = ir.Module.create(loc=module.operation.location)
        for operation in module.body.operations:
            copy.body.append(operation.operation.clone())
        for named in module.operation.attributes:
            copy.operation.attributes[named] = module.operation.attributes[named]
    return copy
