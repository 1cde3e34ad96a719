"""True if a rule's `where` and `when` hold at one match.

`where` must be known: from intervals, types and sizes. `when` is advice: where samples of the model were observed it
is measured on them, and without samples a property of the values counts as unknown, that is as not given.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Operation, SSAValue

from hnfc.analysis.ranges import Ranges
from hnfc.analysis.signs import Sign, sign_of
from hnfc.core.interpreter import Array, WeightReader, compute_into
from hnfc.dialects.interval import Interval
from hnfc.dialects.num.rounding import NUMPY_TYPES
from hnfc.dialects.types import DYNAMIC, ELEMENT_NAMES, FORMATS, TypeMismatch, broadcast_shapes
from hnfc.dsl import core
from hnfc.dsl.description import describe
from hnfc.rewrite.bindings import Binding, Integers, bound_value, resolve_axes
from hnfc.rewrite.builder import DoesNotFit, ReplacementBuilder
from hnfc.rewrite.matcher import Match
from hnfc.rewrite.nary_terms import Product, Root, Sum

_SIZE_UNKNOWN = "a size is not known when compiling"
_HOLDS: dict[str, Callable[[Any, Any], bool]] = {
    "eq": lambda a, b: a == b, "ne": lambda a, b: a != b, "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b, "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b,
}  # fmt: skip


@dataclass
class Observations:
    """Values of the program on samples, in the model's precision; later values are computed on demand."""

    samples: list[dict[SSAValue, Array]] = field(default_factory=list)
    weights: WeightReader | None = None
    variations: int = 0
    """Number of the last samples that are variations: errors there count beyond those that rounded inputs have."""

    def of(self, value: SSAValue, extra: Sequence[Operation] = ()) -> list[Array] | None:
        """The arrays of the value, one a sample; `extra`: operations outside the program that it is computed by."""
        result = []
        for sample in self.samples:
            for operation in extra:
                if operation.results[0] not in sample:
                    compute_into(sample, operation, self.weights)
            if value not in sample:
                self._compute(value, sample)
            if value not in sample:
                return None
            result.append(sample[value])
        return result or None

    def forget(self, operation: Operation) -> None:
        """Drops the arrays of an operation that was only looked at."""
        for sample in self.samples:
            for result in operation.results:
                sample.pop(result, None)

    def _compute(self, value: SSAValue, sample: dict[SSAValue, Array]) -> None:
        stack = [value]
        tried: set[SSAValue] = set()
        while stack:
            current = stack[-1]
            owner = current.owner
            if current in sample or not isinstance(owner, Operation):
                stack.pop()
                continue
            missing = [operand for operand in owner.operands if operand not in sample]
            if missing and current not in tried:
                tried.add(current)
                stack += missing
                continue
            stack.pop()
            compute_into(sample, owner, self.weights)


@dataclass
class Judgement:
    """holds: True, False, or None where nothing is known. part: the condition that decided; known: what is known of it."""

    holds: bool | None
    part: core.Condition = core.TRUE
    known: str = ""

    def reason(self) -> str:
        return describe(self.part) + (f" ({self.known})" if self.known else "")

    def why_not(self) -> str:
        return f"not known: {self.reason()}" if self.holds is None else f"does not hold: {self.reason()}"


@dataclass
class ConditionChecker:
    """Decides conditions at one match."""

    match: Match
    ranges: Ranges
    observations: Observations
    _builders: list[ReplacementBuilder] = field(default_factory=list)

    def close(self) -> None:
        """Takes back the expressions that were built to look at them."""
        for builder in self._builders:
            for operation in builder.operations:
                self.ranges.forget(operation)
                self.observations.forget(operation)
            builder.discard()

    def judge(self, condition: core.Condition) -> Judgement:
        match condition:
            case core.AllOf(parts):
                return next((j for j in map(self.judge, parts) if not j.holds), Judgement(True))
            case core.AnyOf(parts):
                found = [self.judge(part) for part in parts]
                # what is not known of one part must not look like a known `no`: `not` would make a `yes` of it
                order = {True: 0, None: 1, False: 2}
                return min(found, key=lambda judgement: order[judgement.holds], default=Judgement(False))
            case core.Not(part):
                inner = self.judge(part)
                return Judgement(None if inner.holds is None else not inner.holds, condition, inner.known)
            case core.Comparison():
                return self._comparison(condition)
            case core.Free(operand, axes):
                return self._free(condition, operand, axes)
            case core.SameSize(x, y, axes):
                a, b = self._sizes(x, axes), self._sizes(y, axes)
                if a is None or b is None:
                    return Judgement(None, condition, _SIZE_UNKNOWN)
                # axis by axis: 6x1 and 1x6 have as many elements, but either is broadcast
                return Judgement(a == b, condition, f"{'x'.join(map(str, a))} and {'x'.join(map(str, b))}")
            case core.Property():
                return self._property(condition)
        raise AssertionError(condition)

    def _free(self, condition: core.Condition, operand: core.Expr, axes: core.Axes) -> Judgement:
        sizes = self._sizes(operand, axes)
        if sizes is None:
            return Judgement(None, condition, _SIZE_UNKNOWN)
        return Judgement(all(size == 1 for size in sizes), condition, f"{math.prod(sizes)} elements")

    def _sizes(self, expression: core.Expr, axes: core.Axes) -> list[int] | None:
        """The size along each of the axes; None if one is not known when compiling."""
        resolved = None if axes == (core.ALL,) else resolve_axes(axes, self.match.bindings)
        if isinstance(expression, core.Capture):
            shape = _shape_of(self.match.bindings[expression.name])
        else:
            value = self._value(expression)
            shape = _shape_of(value) if value is not None else None
        if axes == (core.ALL,) and shape is not None:
            return None if DYNAMIC in shape else list(shape)
        if resolved is None or shape is None:
            return None
        sizes = [shape[axis] if -axis <= len(shape) else 1 for axis in sorted(resolved)]
        return None if DYNAMIC in sizes else sizes

    def _value(self, expression: core.Expr) -> SSAValue | None:
        """The value of an expression; one that the program does not hold is computed beside it."""
        known = bound_value(expression, self.match.bindings)
        if known is not None:
            return known
        built = self._built(expression)
        return built[0] if built is not None and isinstance(built[0], SSAValue) else None

    def _built(self, expression: core.Expr) -> tuple[SSAValue | Fraction | float, list[Operation]] | None:
        root = self.match.root.results[0].type
        assert isinstance(root, TensorType)
        builder = ReplacementBuilder(self.match.bindings, root.element_type)
        self._builders.append(builder)
        try:
            return builder.build(expression), builder.operations
        except DoesNotFit:
            return None

    def _interval(self, expression: core.Expr) -> Interval | None:
        built = self._built(expression)
        if built is None:
            return None
        value, _ = built
        return self.ranges.of(value) if isinstance(value, SSAValue) else Interval.point(value)

    def _sign(self, expression: core.Expr) -> Sign:
        built = self._built(expression)
        if built is None:
            return Sign()
        value, _ = built
        return sign_of(value, self.ranges) if isinstance(value, SSAValue) else Sign.of_interval(Interval.point(value))

    def _comparison(self, condition: core.Comparison) -> Judgement:
        x, y = self._interval(condition.x), self._interval(condition.y)
        if x is None or y is None:
            return Judgement(None, condition, "a side cannot be computed")
        holds = _compare_intervals(condition.predicate, x, y)
        if holds is None and 0.0 in (x.lo, x.hi, y.lo, y.hi):
            # a number that is computed as 0 may be positive over the reals, of which the rule speaks
            holds = (self._sign(condition.x) - self._sign(condition.y)).holds(condition.predicate)
        if holds:
            return Judgement(True)
        sides = ((condition.x, x), (condition.y, y))
        return Judgement(holds, condition, ", ".join(f"{describe(e)} is in [{i.lo:.4g}, {i.hi:.4g}]" for e, i in sides if i.lo != i.hi))

    def _property(self, condition: core.Property) -> Judgement:
        if condition.name == "dtype":
            value = self._value(condition.operands[0])
            element = ELEMENT_NAMES.get(_type(value).element_type) if value is not None else None
            return Judgement(element == condition.arguments[0] if element is not None else None, condition, f"it is {element}")
        if condition.name == "rank":
            value = self._value(condition.operands[0])
            if value is None:
                return Judgement(None, condition)
            predicate, number = condition.arguments
            rank = len(_type(value).get_shape())
            return Judgement(_HOLDS[predicate](rank, number), condition, f"it is {rank}")
        if condition.name in ("finite", "bounded"):
            interval = self._interval(condition.operands[0])
            known = interval is not None and math.isfinite(interval.lo) and math.isfinite(interval.hi)
            return Judgement(known if condition.name == "bounded" else known or None, condition)
        if condition.name in ("integral", "rounds"):
            return self._of_constant(condition)
        return self._observed(condition)

    def _of_constant(self, condition: core.Property) -> Judgement:
        built = self._built(condition.operands[0])
        if built is None or isinstance(built[0], SSAValue):
            return Judgement(None, condition, "not a constant")
        if condition.name == "integral":
            return Judgement(isinstance(built[0], Fraction) and built[0].denominator == 1, condition)
        interval = Interval.point(built[0])
        number = interval.lo if interval.lo == interval.hi else math.nan
        value = self._value(condition.operands[1])
        element = ELEMENT_NAMES.get(_type(value).element_type) if value is not None else None
        if element is None:
            return Judgement(None, condition)
        with np.errstate(all="ignore"):
            return Judgement(float(np.asarray(number).astype(NUMPY_TYPES[element])) != number, condition)

    def _observed(self, condition: core.Property) -> Judgement:
        """overflows, underflows, cancels: what the expression did on the samples, beside the same in float64."""
        if not self.observations.samples:
            return Judgement(None, condition, "no samples: give --range or --calibrate")
        built = self._built(condition.operands[0])
        if built is None or not isinstance(built[0], SSAValue):
            return Judgement(False, condition)
        value, operations = built[0], built[1]
        arrays = self.observations.of(value, operations)
        form = FORMATS.get(ELEMENT_NAMES.get(_type(value).element_type, ""))
        if arrays is None or form is None:
            return Judgement(None, condition, "it cannot be computed on the samples")
        with np.errstate(all="ignore"):
            if condition.name == "overflows":
                found = any(np.isinf(array.astype(np.float64)).any() for array in arrays)
            elif condition.name == "underflows":
                found = any((np.abs(array.astype(np.float64)) < form.smallest_normal).any() for array in arrays)
            else:
                found = self._cancels(value, operations, form.unit_roundoff)
        return Judgement(found, condition, "not on the samples")

    def _cancels(self, value: SSAValue, operations: list[Operation], unit_roundoff: float) -> bool:
        """Return whether a sum lost half of its digits or more: |a ± b| < √u · (|a| + |b|)."""
        owner = value.owner
        if not isinstance(owner, Operation) or owner.name not in ("num.add", "num.sub"):
            return False
        triples = [self.observations.of(v, operations) for v in (*owner.operands, value)]
        if any(arrays is None for arrays in triples):
            return False
        for a, b, c in zip(*triples, strict=True):
            size = np.abs(a.astype(np.float64)) + np.abs(b.astype(np.float64))
            if (np.abs(c.astype(np.float64)) < unit_roundoff**0.5 * size).any():
                return True
        return False


def _shape_of(binding: Binding) -> tuple[int, ...] | None:
    """The shape of what a name stands for; numbers have none of their own, and groups that of their parts together."""
    match binding:
        case Fraction() | float():
            return ()
        case Root(radicand):
            return _shape_of(radicand)
        case Product(_, factors):
            parts = [_shape_of(item) for item, _ in factors]
        case Sum(_, terms):
            parts = [_shape_of(term) for term in terms]
        case frozenset() | Integers():
            return None
        case _:
            return tuple(binding.type.get_shape()) if isinstance(binding.type, TensorType) else None
    known = [part for part in parts if part is not None]
    try:
        return broadcast_shapes(*known) if len(known) == len(parts) else None
    except TypeMismatch:
        return None


def _compare_intervals(predicate: str, x: Interval, y: Interval) -> bool | None:
    match predicate:
        case "gt":
            return True if x.lo > y.hi else False if x.hi <= y.lo else None
        case "ge":
            return True if x.lo >= y.hi else False if x.hi < y.lo else None
        case "lt":
            return _compare_intervals("gt", y, x)
        case "le":
            return _compare_intervals("ge", y, x)
        case "eq":
            return True if x.lo == x.hi == y.lo == y.hi else False if x.lo > y.hi or x.hi < y.lo else None
    equal = _compare_intervals("eq", x, y)
    return None if equal is None else not equal


def _type(value: SSAValue) -> TensorType[Attribute]:
    assert isinstance(value.type, TensorType)
    return value.type
