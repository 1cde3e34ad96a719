"""Gradients before and after a rewrite beside each other, whatever computes them; weights of results, and who is right where two differ."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from xdsl.ir import Block, SSAValue

from hnfc.core.derivatives import derivative_at
from hnfc.core.interpreter import WeightReader
from hnfc.core.samples import moved
from hnfc.dialects.num.elementary import DetachOp
from hnfc.dialects.types import FORMATS, format_of
from hnfc.validation.differential import agreed
from hnfc.validation.measurement import NO_DIGIT, Leniency, regression

Array: TypeAlias = "np.ndarray[Any, Any]"
_ARBITRATED = 3
"""Elements of a gradient that are computed over the reals where float64 leaves it open which one is right."""
_NOISE = 64
"""Units roundoff of a result, beside the size of an argument, that a gradient may be off by which was no number."""
BACKWARD = 4
"""A gradient and its references take about as many elements as so many forward passes."""
_DRAWS = 4
_NEXT_TO = 4.0
"""Units in the last place by which inputs move for `rounding_noise`."""


def leniency(mixing: bool, negligible: float, is_sample: bool) -> Leniency:
    """Rules for the comparison of a gradient."""
    return Leniency(mixing, negligible=negligible, unseen=not is_sample)


def worse(arrays: Sequence[Array], form: Any, derivative: Callable[[int], float | None], leniency: Leniency) -> str:
    """The reason why the second gradient is worse than the first; two in float64 say what is right, or `derivative` at a position does."""
    old, new, first, second = (array.copy() for array in arrays)
    found = regression(old, new, first, form, leniency), regression(old, new, second, form, leniency)
    if not any(found):
        return ""
    differs = _differing(old, new, form)
    for at in differs[:_ARBITRATED]:
        exact = derivative(int(at))
        if exact is None:
            break
        first.flat[at] = second.flat[at] = exact
    truth = agreed(first, second, form)
    return regression(old, new, truth, form, leniency) if truth is not None else ""


def worse_than_kept(
    arrays: Sequence[Array], kept: Array | None, form: Any, derivative: Callable[[int], float | None], leniency: Leniency
) -> str:
    """The same, where elements that were no numbers are compared with `kept`, the gradient from what was computed before the rewrite."""
    if kept is None:
        return worse(arrays, form, derivative, leniency)
    old, new, first, second = arrays
    nothing = ~np.isfinite(old.astype(np.float64))
    others = worse([np.where(nothing, new, old), new, first, second], form, derivative, leniency)
    return others or regression(old, new, np.where(nothing, kept, np.nan), form, leniency)


def misses(arrays: Sequence[Array], form: Any, derivative: Callable[[int], float | None], leniency: Leniency) -> str:
    """The reason why the second gradient is wrong in float64 too, at elements that were no numbers before: its formula is another one,
    and no rounding of what came before the rewrite explains that."""
    old, new, _, wide = arrays
    nothing, truth = ~np.isfinite(old.astype(np.float64)).ravel(), np.full(old.shape, np.nan)
    for at in [at for at in _differing(old, new, form) if nothing[at]][:_ARBITRATED]:
        exact = derivative(int(at))
        truth.flat[at] = np.nan if exact is None else exact
    return regression(old, wide, truth, form, leniency)


def scale_noise(form: Any, results: Iterable[Any], argument: Array) -> float:
    """The rounding of results beside the size of an argument, which terms of a gradient that cancel may leave where it is 0 by the formula.

    results: arrays in float64, each with a mask of the elements that count.
    """
    sizes = [np.max(np.abs(result), where=known, initial=0.0) for result, known in results]
    largest = float(np.max(np.abs(argument.astype(np.float64)), initial=0.0))
    return _NOISE * float(form.unit_roundoff) * float(max(sizes, default=0.0)) / max(largest, form.smallest_normal) if largest else 0.0


def rounding_noise(found: Array, again: Callable[[np.random.Generator], Array | None]) -> float:
    """The largest change of a gradient over some draws of inputs next to its own; 0 where it has none.

    A sum that cancels, as where all scores of a softmax are equal, leaves as much, in any of its elements. again: the gradient on such
    inputs.
    """
    random, noise = np.random.default_rng(0), 0.0
    for _ in range(_DRAWS):
        near = again(random)
        if near is not None:
            with np.errstate(all="ignore"):
                changes = np.abs(near.astype(np.float64) - found.astype(np.float64))
            noise = max(noise, float(np.max(changes, where=np.isfinite(changes), initial=0.0)))
    return noise


def coarsest(block: Block) -> float:
    """The unit roundoff of the narrowest format in a program: autocast rounds to it what float32 holds."""
    values = [*block.args, *(result for op in block.ops for result in op.results)]
    return max((form.unit_roundoff for form in map(format_of, (value.type for value in values)) if form is not None), default=0.0)


def next_to(array: Array, element: str, unit_roundoff: float, random: np.random.Generator) -> Array:
    """Numbers some units in the last place away, of a format with this unit roundoff if it is narrower than their own, in float64."""
    return moved(array, element, _NEXT_TO * max(1.0, unit_roundoff / FORMATS[element].unit_roundoff), random)


def stops_gradients(block: Block) -> bool:
    """Return whether a program holds values through which no gradient passes."""
    return any(isinstance(operation, DetachOp) for operation in block.ops)


def only_the_first(narrow_and_wide: Sequence[list[Array]]) -> list[list[Array]]:
    """Gradients with those before in float64 in the place of both: where a program stops gradients, it alone says what is right."""
    old, new, first, _ = narrow_and_wide
    return [old, new, first, [each.copy() for each in first]]


def _differing(old: Array, new: Array, form: Any) -> Array:
    """The positions of elements that differ, those that differ most first."""
    with np.errstate(all="ignore"):
        a, b = old.astype(np.float64).ravel(), new.astype(np.float64).ravel()
        apart = np.abs(a - b) / np.maximum(np.maximum(np.abs(a), np.abs(b)), form.smallest_normal)
    apart = np.where(np.isnan(apart) & ~(np.isnan(a) & np.isnan(b)), np.inf, np.nan_to_num(apart, nan=0.0, posinf=np.inf))
    order = np.argsort(-apart, kind="stable")
    return np.asarray(order[apart[order] > min(NO_DIGIT, 4 * form.unit_roundoff)])


@dataclass
class Arbiter:
    """The derivative of the weighted results by one element of an argument, over the reals. weights: of each result, where it counts."""

    block: Block
    arrays: Sequence[Array]
    index: int
    weights: Sequence[Array | None]
    weight: WeightReader
    _known: dict[int, float | None] = field(default_factory=dict)

    def derivative(self, position: int) -> float | None:
        """A central difference in ball arithmetic, so that at a kink it is the mean of both slopes; None where there is none."""
        if position not in self._known:
            self._known[position] = self._computed(position)
        return self._known[position]

    def _computed(self, position: int) -> float | None:
        assert self.block.last_op is not None
        pairs = zip(self.block.last_op.operands, self.weights, strict=True)
        results = {value: counted.ravel() for value, counted in pairs if counted is not None}
        arrays: dict[SSAValue, Array] = dict(zip(self.block.args, self.arrays, strict=True))
        return derivative_at(self.block, arrays, self.block.args[self.index], position, results, self.weight)


def weight_of(count: int) -> Array:
    """Weights of the elements of a result: numbers between 1/2 and 3/2, exact in every format, so that nothing cancels by chance."""
    return 0.5 + (np.arange(count) * 5 % 9) / 8
