"""A second look at each rewrite before it is made: the matched operations and their replacement on inputs beyond the samples.

A rule is proved over the reals; in floating point it may still overflow where the original did not, or lose digits. What the names
of the match stand for is filled with probes (see `hnfc.validation.probes`) within the ranges that are known of it, both sides run in the
element type, and a rewrite under which a result becomes worse on one of them is not made.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue

from hnfc.analysis.ranges import Ranges
from hnfc.core.interpreter import EXACT_BITS, compute_exactly, compute_into, exact_input
from hnfc.core.value_numbering import Numbering
from hnfc.dialects.num import COMPUTING
from hnfc.dialects.num.base import AlongAxesOp, NumOp, ReductionOp
from hnfc.dialects.num.constant import ConstantOp
from hnfc.dialects.num.rounding import NUMPY_TYPES
from hnfc.dialects.types import DYNAMIC, ELEMENT_NAMES, FORMATS
from hnfc.dsl.soundness.balls import ArbMath, Balls, precision
from hnfc.rewrite.conditions import Observations
from hnfc.rewrite.matcher import Match
from hnfc.rewrite.nary_terms import Product, Root, Sum
from hnfc.validation.invented import invented, is_pointwise, selects
from hnfc.validation.measurement import Leniency, regression, vanished
from hnfc.validation.probes import Probe, Slot, probes

Array: TypeAlias = "np.ndarray[Any, Any]"
_MOST_STEPS = 30_000_000
"""Elements that the probes of one rewrite may compute."""
_MOST_BALLS = 2_000
"""Elements of all operations that one probe may compute in ball arithmetic."""
_FEW = 6
"""Elements that are kept of an axis along which all operations do the same to each element."""
_DEPTH = 24
"""Operations that a leaf may be computed by from other leaves."""
_SIZE_OF_UNKNOWN = 4
_ORDINARY = 0.5
"""A number in place of NaN, at which no formula has a pole."""


@dataclass
class Prober:
    """Objections to rewrites, by what they depend on: the rule, the operations on both sides, types and ranges."""

    ranges: Ranges
    observations: Observations
    least_size: int = 0
    _known: dict[Any, str] = field(default_factory=dict)

    def objection(self, match: Match, made: Sequence[Operation], value: SSAValue, numbering: Numbering) -> str:
        """The probe on which `value` is worse than the root that it would replace, and how; empty if there is none."""
        root = match.root.results[0]
        form = _format(root)
        if form is None:
            return ""
        region = _Region.between(match, made, value, numbering)
        key = (id(match.compiled), region.signature(), tuple(self.ranges.of(leaf) for leaf in region.leaves))
        if key not in self._known:
            self._known[key] = self._search(region, root, value)
        return self._known[key]

    def _search(self, region: _Region, root: SSAValue, value: SSAValue) -> str:
        slots = [self._slot(leaf, region) for leaf in region.leaves]
        if any(slot is None for slot in slots):
            return ""
        given = [slot for slot in slots if slot is not None]
        steps = sum(max(slot.sample.size for slot in given) if given else 1 for _ in region.operations)
        form = _format(root)
        spent = 0
        for probe in probes(given):
            spent += steps
            if spent > _MOST_STEPS:
                break
            reason = self._worse(region, root, value, probe, form)
            if reason:
                return f"on a probe ({probe.name}) {reason}"
        return ""

    def _worse(self, region: _Region, root: SSAValue, value: SSAValue, probe: Probe, form: Any) -> str:
        narrow = region.run(probe.arrays, wide=False)
        if root not in narrow or value not in narrow:
            return "there is no result any more" if root in narrow and probe.resized else ""
        if self._swallows(region, root, probe, narrow[root], narrow[value]):
            return "a NaN became a number"
        if self._invents(region, root, probe, narrow[root], narrow[value]):
            return "a NaN became a number where there is no value"
        if any(np.isnan(a).any() for a in probe.arrays):
            # what a model does with NaN, as torch.nan_to_num, has no value over the reals
            if reason := vanished(narrow[root], narrow[value], np.full((), math.nan)):
                return reason
        wide = region.run(probe.arrays, wide=True)
        if root not in wide or value not in wide:
            return ""
        first, second = (np.asarray(wide[found]).astype(np.float64) for found in (root, value))
        mixing = not all(map(is_pointwise, region.operations))
        noise = _accumulated(probe.arrays, second, form) if mixing else 0.0
        leniency = Leniency(mixing, noise, negligible=probe.negligible)
        found = [regression(narrow[root], narrow[value], truth, form, leniency) for truth in (first, second)]
        if not any(found):
            return ""
        # the two sides are equal over the reals, but float64 may lose digits of either
        exact = region.exactly(probe.arrays, root)
        if exact is None:
            return found[0] if all(found) else ""
        return regression(narrow[root], narrow[value], exact, form, leniency)

    def _swallows(self, region: _Region, root: SSAValue, probe: Probe, before: Array, after: Array) -> bool:
        """Return whether an element that is NaN because an operand is becomes a number. A mask may remove one."""
        lost = np.isnan(before) & np.isfinite(after)
        if not lost.any() or not any(np.isnan(a).any() for a in probe.arrays) or region.selects(root):
            return False
        numbers = [np.where(np.isnan(a), np.asarray(_ORDINARY, a.dtype), a) for a in probe.arrays]
        return bool((lost & np.isfinite(region.run(numbers, wide=False)[root])).any())

    def _invents(self, region: _Region, root: SSAValue, probe: Probe, before: Array, after: Array) -> bool:
        """Return whether an element that has no value becomes a number."""
        lost = np.isnan(before) & np.isfinite(after)
        inputs = list(zip(region.leaves, probe.arrays, strict=True))
        return not region.selects(root) and invented(partial(region.run, wide=True), region.operations, inputs, root, lost)

    def _slot(self, leaf: SSAValue, region: _Region) -> Slot | None:
        kind = leaf.type
        element = ELEMENT_NAMES.get(kind.element_type) if isinstance(kind, TensorType) else None
        if element is None or element not in NUMPY_TYPES or not isinstance(kind, TensorType):
            return None
        interval = self.ranges.of(leaf)
        seen = self.observations.of(leaf)
        shape = tuple(_SIZE_OF_UNKNOWN if size == DYNAMIC else size for size in kind.get_shape())
        array = seen[0] if seen else _drawn(shape, element, interval.lo, interval.hi)
        open_axes = tuple(axis for axis, size in enumerate(kind.get_shape()) if size == DYNAMIC)
        return Slot(element, interval, region.shortened(array), open_axes, self.least_size)


@dataclass
class _Region:
    """The operations between leaves and both values, in order. again: values that are computed as a leaf is, with its place."""

    leaves: tuple[SSAValue, ...]
    operations: tuple[NumOp, ...]
    again: Mapping[SSAValue, int]

    @staticmethod
    def between(match: Match, made: Sequence[Operation], value: SSAValue, numbering: Numbering) -> _Region:
        fixed = set(_bound(match))
        new = {result for operation in made for result in operation.results}
        fixed |= {operand for operation in made for operand in operation.operands if operand not in new}
        if value not in new:
            fixed.add(value)
        fixed = {leaf for leaf in fixed if not isinstance(leaf.owner, ConstantOp)}
        root = match.root.results[0]
        fixed.discard(root)
        derived = {leaf for leaf in fixed if _follows(leaf, fixed - {leaf})}
        numbered = {numbering.of(leaf): leaf for leaf in fixed - derived}
        leaves: dict[SSAValue, None] = {}
        again: dict[SSAValue, SSAValue] = {}
        operations: dict[NumOp, None] = {}
        stack = [value, root]
        while stack:
            current = stack[-1]
            owner = current.owner
            same = numbered.get(numbering.of(current))
            if current in leaves or current in again or owner in operations:
                stack.pop()
            elif same is not None and same is not current:
                again[current] = same
                leaves[same] = None
                stack.pop()
            elif same is current or type(owner) not in COMPUTING:
                leaves[current] = None
                stack.pop()
            else:
                assert isinstance(owner, NumOp)
                missing = [v for v in owner.operands if v not in leaves and v not in again and v.owner not in operations]
                if missing:
                    stack += missing
                else:
                    operations[owner] = None
                    stack.pop()
        places = {leaf: index for index, leaf in enumerate(leaves)}
        return _Region(tuple(leaves), tuple(operations), {other: places[leaf] for other, leaf in again.items()})

    def signature(self) -> tuple[Any, ...]:
        """Everything that the values of the region depend on besides its leaves' values."""
        numbers = {leaf: index for index, leaf in enumerate(self.leaves)} | dict(self.again)
        parts: list[Any] = [leaf.type for leaf in self.leaves]
        for operation in self.operations:
            operands = tuple(numbers[operand] for operand in operation.operands)
            parts.append((operation.name, operands, tuple(sorted(operation.properties.items())), operation.results[0].type))
            for result in operation.results:
                numbers[result] = len(numbers)
        return tuple(parts)

    def run(self, arrays: Sequence[Array], wide: bool) -> dict[SSAValue, Array]:
        found: dict[SSAValue, Array] = self._filled(arrays)
        for operation in self.operations:
            compute_into(found, operation, None, wide)
        return found

    def _filled(self, inputs: Sequence[Any]) -> dict[SSAValue, Any]:
        """The leaves, and what is computed as they are, with these inputs."""
        return {**dict(zip(self.leaves, inputs, strict=True)), **{value: inputs[index] for value, index in self.again.items()}}

    def exactly(self, arrays: Sequence[Array], wanted: SSAValue) -> Array | None:
        """The wanted value over the reals, NaN where there is none; None where that cannot be computed, or only slowly."""
        if max((array.size for array in arrays), default=1) * len(self.operations) > _MOST_BALLS:
            return None
        for bits in EXACT_BITS:
            with precision(bits):
                exact: dict[SSAValue, Any] = self._filled([exact_input(array) for array in arrays])
                math_ = ArbMath()
                for operation in self.operations:
                    compute_exactly(operation, exact, math_, None)
                found = exact.get(wanted)
                if not isinstance(found, Balls):
                    return None
                known = found.accurate()
                if known.all() or bits == EXACT_BITS[-1]:
                    return np.where(known, found.to_float(math.nan), np.nan)
        return None

    def selects(self, value: SSAValue) -> bool:
        """Return whether the value is computed with a `where`."""
        return selects(value, (*self.leaves, *self.again))

    def shortened(self, array: Array) -> Array:
        """The array with few elements along those axes, counted from the right, that every operation treats element by element."""
        kept = self._mixing()
        if kept is None:
            return array
        cut = tuple(slice(None) if axis - array.ndim in kept else slice(_FEW) for axis in range(array.ndim))
        return np.ascontiguousarray(array[cut])

    def _mixing(self) -> set[int] | None:
        """The axes, counted from the right, along which an operation combines elements; None where that is not known."""
        found: set[int] = set()
        for operation in self.operations:
            if isinstance(operation, ReductionOp | AlongAxesOp):
                rank = len(operation.operands[0].type.get_shape())  # type: ignore[attr-defined]
                found |= {axis - rank for axis in operation.axes.data}
                if len(operation.operands) > 1:
                    return None
            elif isinstance(operation, ConstantOp):
                if operation.results[0].type.get_shape():  # type: ignore[attr-defined]
                    return None
            elif not is_pointwise(operation):
                return None
        return found


def _accumulated(arrays: Sequence[Array], results: Array, form: Any) -> float:
    """About how far sums of so many elements may be off by the order in which they are added."""
    finite = np.abs(results[np.isfinite(results)])
    count = max((array.size for array in arrays), default=1)
    return float(4 * form.unit_roundoff * math.sqrt(count) * finite.max(initial=0.0))


def _bound(match: Match) -> Iterable[SSAValue]:
    """The values that names of the rule stand for, and those of a chain beyond the pattern."""
    for binding in (*match.bindings.values(), match.rest):
        yield from _values(binding)


def _values(binding: Any) -> Iterable[SSAValue]:
    match binding:
        case SSAValue():
            yield binding
        case Root(radicand):
            yield radicand
        case Product(_, factors):
            for item, _ in factors:
                yield from _values(item)
        case Sum(_, terms):
            for term in terms:
                yield from _values(term)


def _follows(leaf: SSAValue, others: set[SSAValue]) -> bool:
    """Return whether the leaf is computed from others alone, by few operations."""
    seen: set[SSAValue] = set()
    stack = [leaf]
    while stack:
        current = stack.pop()
        if current in seen or (current in others and current is not leaf):
            continue
        seen.add(current)
        owner = current.owner
        if type(owner) not in COMPUTING or len(seen) > _DEPTH:
            return False
        assert isinstance(owner, Operation)
        stack += owner.operands
    return leaf not in others


def _drawn(shape: tuple[int, ...], element: str, lo: float, hi: float) -> Array:
    generator = np.random.default_rng(0)
    wide = generator.standard_normal(shape)
    if element in FORMATS:
        if math.isfinite(lo) and math.isfinite(hi):
            wide = lo + (hi - lo) * generator.random(shape)
        elif math.isfinite(lo) or math.isfinite(hi):
            wide = lo + np.abs(wide) if math.isfinite(lo) else hi - np.abs(wide)
        return np.asarray(wide).astype(NUMPY_TYPES[element])
    return (wide > 0).astype(NUMPY_TYPES[element]) if element == "i1" else np.zeros(shape, NUMPY_TYPES[element])


def _format(value: SSAValue) -> Any:
    return FORMATS.get(ELEMENT_NAMES.get(value.type.element_type, "")) if isinstance(value.type, TensorType) else None
