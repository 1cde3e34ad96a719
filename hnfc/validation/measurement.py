"""Old against new on samples, both in the model's own precision, beside the values over the reals."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Block, Operation, Region, SSAValue

from hnfc.core.interpreter import EXACT_BUDGET, WeightReader, evaluate, evaluate_exactly
from hnfc.core.samples import moved
from hnfc.core.value_numbering import Numbering
from hnfc.dialects.types import ELEMENT_NAMES, FORMATS
from hnfc.validation.invented import invented, selects
from hnfc.validation.tolerance import GROWTH_WITHOUT_DIGITS, NEGLIGIBLE, TOLERATED_GROWTH, TOLERATED_ULPS
from hnfc.validation.tolerance import TOLERANCE as TOLERANCE

Array: TypeAlias = "np.ndarray[Any, Any]"
MAX_RESIDENT = 100_000_000
"""Elements of all values on all samples together; fewer samples are taken of larger functions, and none of the largest."""
_MOST_STEPS = 5_000_000
"""Elements that a second look at a probe may compute."""
NO_DIGIT = 0.5
"""A relative error from which no digit of a number is right."""


@dataclass(frozen=True)
class Error:
    """Error of values against the true ones: elements that are not finite where the truth is, and the largest relative
    error of the others (measured against the smallest normal number where the truth is smaller).

    common: the relative error that one element in a hundred exceeds. scaled: the largest error beside the largest value.
    undefined: elements that have no true value, and are therefore in none of the other numbers.
    """

    not_finite: int
    relative: float
    elements: int
    common: float
    scaled: float
    undefined: int = 0

    def __str__(self) -> str:
        beside = f" ({self.undefined} of {self.elements} undefined)" if self.undefined else ""
        if self.not_finite:
            return f"{self.not_finite} of {self.elements} not finite{beside}"
        if self.undefined == self.elements and self.elements:
            return f"undefined in all {self.elements}"
        # of elements beside which others are far larger, as log-probabilities near 0 are
        small = f" ({self.scaled:.0e} of the largest)" if self.relative >= NO_DIGIT and self.scaled <= NO_DIGIT / 100 else ""
        return ("exact" if self.relative == 0 else f"{self.relative:.1e}") + small + beside

    def worse_than(self, other: Error, unit_roundoff: float) -> bool:
        if self.not_finite != other.not_finite:
            return self.not_finite > other.not_finite
        # of many elements some lie near 0 by chance, and the largest relative error is theirs
        return _grew(self.relative, other.relative, unit_roundoff) and (
            _grew(self.common, other.common, unit_roundoff) or _grew(self.scaled, other.scaled, unit_roundoff)
        )


def _grew(now: float, before: float, unit_roundoff: float) -> bool:
    return now > max(TOLERATED_GROWTH * before, 2 * TOLERATED_ULPS * unit_roundoff)


@dataclass(frozen=True)
class Leniency:
    """Rules for the comparison of results.

    mixing: elements are sums over others, so that errors count beside the largest one. noise: differences up to it are rounding of numbers
    that cancel. negligible: a NaN, or a number without a right digit, may
    become a number that is off by no more, as where a difference of logarithms is 0. unnoticed: the same for a NaN or infinity alone, of
    each element or of all. unseen: the input is no sample; where no digit was right an error may grow to GROWTH_WITHOUT_DIGITS times what
    it was.
    """

    mixing: bool = False
    noise: float = 0.0
    negligible: float = 0.0
    unnoticed: float | Array = 0.0
    unseen: bool = False


STRICT = Leniency()


def unnoticed(format: Any) -> float:
    """The error of a probability that is next to 1 and its logarithm 0, where before there was no number: in float32 the square of u."""
    return float(min(format.unit_roundoff**2, NEGLIGIBLE))


def regression(old: Array, new: Array, truth: Array, format: Any, leniency: Leniency = STRICT) -> str:
    """Description of what became worse from `old` to `new` beside the true values (NaN where there is none); empty if nothing did.

    Worse is a finite element that is no longer finite, a NaN or infinity that became a number without a right digit (one that is far
    below the format's largest where the true value is beyond it), and an error that grew by more than the tolerance.
    """
    before, after, want = np.broadcast_arrays(*(np.asarray(a).astype(np.float64) for a in (old, new, truth)))
    with np.errstate(all="ignore"):
        meant = np.isfinite(want) & (np.abs(want) <= format.largest)
        after = np.where(meant & (np.abs(after - want) <= leniency.noise), want, after)
        lost = meant & np.isfinite(before) & ~np.isfinite(after)
        floor = format.tiny / format.unit_roundoff
        if leniency.mixing and meant.any():
            # exponents of such sums are rounded too: in bfloat16 the best form of an attention errs by a twentieth of the largest element
            floor = max(floor, 64 * format.unit_roundoff * float(np.abs(want[meant]).max()))
        wrong = np.abs(after - want) > NO_DIGIT * np.maximum(np.abs(want), floor)
        swallowed = meant & ~np.isfinite(before) & np.isfinite(after) & wrong
        swallowed &= np.abs(after - want) > np.maximum(leniency.negligible, leniency.unnoticed)
        beyond = _hides_overflow(before, after, want, format)
    for at in np.flatnonzero(lost | swallowed | beyond)[:1]:
        return f"{before.flat[at]:.4g} became {after.flat[at]:.4g}, and {want.flat[at]:.4g} is right"
    both = np.isfinite(before) & np.isfinite(after)
    if not (both & meant).any():
        return ""
    if math.isfinite(leniency.negligible):
        with np.errstate(all="ignore"):
            without_digit = both & meant & (np.abs(before - want) > NO_DIGIT * np.abs(want))
            after = np.where(without_digit & (np.abs(after - want) <= leniency.negligible), before, after)
    known = np.where(both, want, np.nan)
    first, second = measure(before, known, format), measure(after, known, format)
    unit = format.unit_roundoff
    grew = second.worse_than(first, unit) and not (leniency.mixing and not _grew(second.scaled, first.scaled, unit))
    now, then = (second.scaled, first.scaled) if leniency.mixing else (second.relative, first.relative)
    grew = grew and not (leniency.unseen and then >= NO_DIGIT and now <= GROWTH_WITHOUT_DIGITS * then)
    return f"the error grew from {first} to {second}" if grew else ""


def _hides_overflow(before: Array, after: Array, want: Array, format: Any) -> Array:
    """Elements whose true value is beyond the format, and that were infinite or no number, and now are a number without a right digit."""
    hidden = (np.abs(want) > format.largest) & ~np.isfinite(before) & np.isfinite(after) & (np.abs(after) < NO_DIGIT * format.largest)
    return np.asarray(hidden)


def vanished(old: Array, new: Array, truth: Array) -> str:
    """Description of an element without a true value that was a number or an infinity and is none any more; empty where there is no such
    one."""
    before, after, want = np.broadcast_arrays(*(np.asarray(a).astype(np.float64) for a in (old, new, truth)))
    for at in np.flatnonzero(np.isnan(want) & ~np.isnan(before) & ~np.isfinite(after) & (after != before))[:1]:
        return f"{before.flat[at]:.4g} became {after.flat[at]:.4g}, where over the reals there is no value"
    return ""


def affordable(block: Block, inputs: list[dict[SSAValue, Array]]) -> list[dict[SSAValue, Array]]:
    """As many of the samples as may be run on all of the function."""
    values = [result for op in block.ops for result in op.results if _format(result) is not None]
    resident = sum(math.prod(max(int(s), 1) for s in v.type.get_shape()) for v in values)
    return inputs[: MAX_RESIDENT // max(resident, 1)]


class Original:
    """Copy of a function as it is now, whose values are read after it has been rewritten."""

    def __init__(self, block: Block) -> None:
        self._region = Region()
        self._copies: dict[SSAValue, SSAValue] = {}
        region = block.parent
        assert region is not None
        region.clone_into(self._region, value_mapper=self._copies)

    def reference(self, inputs: list[dict[SSAValue, Array]], weights: WeightReader | None, wanted: Sequence[SSAValue]) -> Reference:
        """Observed and true wanted values, by their names in the function that was copied; values that a rewrite
        made were nothing in it."""
        samples = [{self._copies[value]: array for value, array in sample.items()} for sample in inputs]
        names = {self._copies[value]: value for value in wanted if value in self._copies}
        found = Reference.of(self._region.block, samples, weights, list(names))

        def renamed(values: dict[SSAValue, Array]) -> dict[SSAValue, Array]:
            return {names[value]: array for value, array in values.items() if value in names}

        return Reference(inputs, [renamed(v) for v in found.observed], [renamed(v) for v in found.truth], found.kind)

    def kept(self, values: Iterable[SSAValue]) -> list[SSAValue]:
        """The last values that a rewrite left as they were, on the way to these values as they are now."""
        same: dict[SSAValue, bool] = {}
        found: dict[SSAValue, None] = {}
        stack = [(value, False) for value in values]
        while stack:
            value, ready = stack.pop()
            operands = value.owner.operands if isinstance(value.owner, Operation) else ()
            if value in same:
                continue
            if not ready:
                stack += [(value, True), *((operand, False) for operand in operands if operand not in same)]
                continue
            same[value] = value in self._copies and all(same[operand] for operand in operands)
            if not same[value]:
                found |= dict.fromkeys(operand for operand in operands if same[operand])
        return [*found, *(value for value in values if same[value])]

    def from_kept(
        self, sample: dict[SSAValue, Array], weights: WeightReader | None, wanted: Sequence[SSAValue], kept: Sequence[SSAValue]
    ) -> list[tuple[Array, Array] | None]:
        """Each wanted value over the reals where the kept values are as they were computed in their formats, and how far it moves as these
        move by some units in the last place, by which runners differ."""
        start = {self._copies[value]: array for value, array in sample.items() if value in self._copies}
        numbers = Numbering()
        shared = {numbers.of(self._copies[value]) for value in kept}
        # what is computed twice was perhaps computed once after the rewrite
        same = {value: numbers.of(value) for op in self._region.block.ops for value in op.results if numbers.of(value) in shared}
        values = [self._copies.get(value) for value in wanted]
        known = [value for value in values if value is not None]
        budget = EXACT_BUDGET // (_DRAWS + 1)
        computed = evaluate(self._region.block, start, weights, keep=list(same))
        given = start | {value: computed[value] for value in same if value in computed}
        truth = evaluate_exactly(self._region.block, given, known, weights, budget=budget)
        spread = {value: np.zeros(array.shape) for value, array in truth.items()}
        for draw in range(_DRAWS if truth else 0):
            near = given | {value: _moved_alike(value, given[value], (draw, same[value])) for value in same if value in given}
            found = evaluate_exactly(self._region.block, near, known, weights, budget=budget)
            for value in truth:
                with np.errstate(all="ignore"):
                    spread[value] = np.maximum(spread[value], np.abs(found[value] - truth[value]) if value in found else np.nan)
        return [(truth[value], spread[value]) if value in truth else None for value in values]

    def invented(self, sample: dict[SSAValue, Array], weights: WeightReader | None, wanted: SSAValue, lost: Array) -> bool:
        """Return whether a wanted value has no value over the reals at an element that is lost, and all around (see `invented`)."""
        root = self._copies.get(wanted)
        inputs = [(self._copies[value], array) for value, array in sample.items() if value in self._copies]
        if root is None or sum(array.size for _, array in inputs) * len(self._region.block.ops) > _MOST_STEPS:
            return False
        if selects(root, (value for value, _ in inputs)):
            return False
        block, places = self._region.block, [value for value, _ in inputs]

        def run(arrays: Sequence[Array]) -> dict[SSAValue, Array]:
            return evaluate(block, dict(zip(places, arrays, strict=True)), weights, wide=True)

        return invented(run, list(block.ops), inputs, root, lost)

    def error_near(self, sample: dict[SSAValue, Array], weights: WeightReader | None, wanted: Sequence[SSAValue]) -> list[Array | None]:
        """The largest error of each wanted value, as computed in its format, on inputs some units in the last place away."""
        values = [self._copies.get(value) for value in wanted]
        known = [value for value in values if value is not None]
        given = {self._copies[value]: array for value, array in sample.items() if value in self._copies}
        largest: dict[SSAValue, Array] = {}
        for draw in range(_DRAWS):
            # in their formats: what rounding an input changes is no error of the form
            with np.errstate(all="ignore"):
                near = {v: _moved_alike(v, array, (draw, index)).astype(array.dtype) for index, (v, array) in enumerate(given.items())}
            truth = evaluate_exactly(self._region.block, near, known, weights, budget=EXACT_BUDGET // _DRAWS)
            found = evaluate(self._region.block, near, weights, keep=known) if truth else {}
            for value in truth:
                with np.errstate(all="ignore"):
                    off = np.abs(found[value].astype(np.float64) - truth[value])
                largest[value] = np.fmax(largest.get(value, 0.0), off)
        return [largest.get(value) if value is not None else None for value in values]

    def sensitivity(self, sample: dict[SSAValue, Array], weights: WeightReader | None, wanted: Sequence[SSAValue]) -> list[Array | None]:
        """Root mean square change of each wanted value over the reals, as each input moves within a unit in its last place."""
        values = [self._copies.get(value) for value in wanted]
        known = [value for value in values if value is not None]
        given = {self._copies[value]: array for value, array in sample.items() if value in self._copies}
        elements = {value: ELEMENT_NAMES[value.type.element_type] for value in given if _format(value) is not None}  # type: ignore[attr-defined]
        truth = evaluate_exactly(self._region.block, given, known, weights, budget=EXACT_BUDGET // _DRAWS)
        squares = {value: np.zeros(array.shape) for value, array in truth.items()}
        # float64 holds parts of a unit of narrower formats; its own inputs move by more, and changes are divided by as much
        units = 8.0 if "f64" in elements.values() else 1.0
        random = np.random.default_rng(0)
        for _ in range(_DRAWS):
            near = {value: moved(x, elements[value], units, random) if value in elements else x for value, x in given.items()}
            found = evaluate_exactly(self._region.block, near, known, weights, budget=EXACT_BUDGET // _DRAWS)
            for value in truth:
                with np.errstate(all="ignore"):
                    squares[value] += ((found[value] - truth[value]) / units) ** 2 if value in found else np.nan
        return [np.sqrt(squares[value] / _DRAWS) if value in squares else None for value in values]


_DRAWS = 8
_APART = 8.0
"""Units in the last place by which runners are taken to differ in what they compute."""


def _moved_alike(value: SSAValue, array: Array, seed: tuple[int, int]) -> Array:
    """Numbers within _APART units in the last place, the same for the same seed; what has no format stays as it is."""
    element = ELEMENT_NAMES.get(value.type.element_type, "") if isinstance(value.type, TensorType) else ""
    return moved(array, element, _APART, np.random.default_rng(seed)) if element in FORMATS else array


@dataclass
class Reference:
    """Values of the original function on each sample, observed and true."""

    inputs: list[dict[SSAValue, Array]]
    observed: list[dict[SSAValue, Array]]
    truth: list[dict[SSAValue, Array]]
    kind: str

    @staticmethod
    def of(
        block: Block, inputs: list[dict[SSAValue, Array]], weights: WeightReader | None, wanted: Sequence[SSAValue] | None = None
    ) -> Reference:
        """Reference of the wanted values (None: of all)."""
        if not inputs:
            return Reference([], [], [], "none")
        found = [result for op in block.ops for result in op.results] if wanted is None else wanted
        values = [value for value in found if _format(value) is not None]
        observed = [evaluate(block, sample, weights, keep=values) for sample in inputs]
        outputs = [value for value in (block.last_op.operands if block.last_op is not None else ()) if _format(value) is not None]
        truth: list[dict[SSAValue, Array]] = []
        for sample in inputs:
            exact = evaluate_exactly(block, sample, values, weights, budget=EXACT_BUDGET // len(inputs))
            if any(value not in exact for value in outputs):
                # of float64 there is nothing wider
                narrow = [value for value in values if (form := _format(value)) and form.unit_roundoff > FORMATS["f64"].unit_roundoff]
                wide = [evaluate(block, sample, weights, wide=True, keep=narrow) for sample in inputs]
                wide = [{value: array for value, array in found.items() if value in narrow} for found in wide]
                return Reference(inputs, observed, wide, "float64")
            truth.append(exact)
        return Reference(inputs, observed, truth, "exact")

    def before(self, value: SSAValue) -> Error | None:
        return self._error(value, value, self.observed)

    def after(self, before: SSAValue, now: SSAValue, values: list[dict[SSAValue, Array]]) -> Error | None:
        return self._error(before, now, values)

    def _error(self, wanted: SSAValue, found: SSAValue, values: list[dict[SSAValue, Array]]) -> Error | None:
        form = _format(wanted)
        errors = [
            measure(v[found], t[wanted], form) for v, t in zip(values, self.truth, strict=False) if found in v and wanted in t and form
        ]
        return worst(errors) if errors else None


def worst(errors: Sequence[Error]) -> Error:
    """The error on several samples together."""
    return Error(
        sum(e.not_finite for e in errors), max(e.relative for e in errors), sum(e.elements for e in errors),
        max(e.common for e in errors), max(e.scaled for e in errors), sum(e.undefined for e in errors),
    )  # fmt: skip


def measure(found: Array, truth: Array, format: Any) -> Error:
    """The error of an array against the true values (NaN where there is none)."""
    got, want = np.asarray(found).astype(np.float64), np.asarray(truth).astype(np.float64)
    if got.shape != want.shape:
        got, want = np.broadcast_arrays(got, want)
    with np.errstate(all="ignore"):
        representable = np.isfinite(want) & (np.abs(want) <= format.largest)
        wrong = representable & ~np.isfinite(got)
        good = representable & np.isfinite(got)
        errors, sizes = np.abs(got - want)[good], np.abs(want)[good]
        relative = errors / np.maximum(sizes, format.smallest_normal)
    undefined = int(np.isnan(want).sum())
    if not relative.size:
        return Error(int(wrong.sum()), 0.0, int(got.size), 0.0, 0.0, undefined)
    common = float(np.quantile(relative, 0.99, method="higher"))
    with np.errstate(over="ignore"):
        scaled = float(errors.max() / max(sizes.max(), format.smallest_normal))
    return Error(int(wrong.sum()), float(relative.max()), int(got.size), common, scaled, undefined)


def _format(value: SSAValue) -> Any:
    return FORMATS.get(ELEMENT_NAMES.get(value.type.element_type, "")) if isinstance(value.type, TensorType) else None


def unit_roundoff(value: SSAValue) -> float:
    form = _format(value)
    return form.unit_roundoff if form else 0.0
