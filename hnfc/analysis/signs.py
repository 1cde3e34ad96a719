"""Signs of values over the reals, where a range of floating-point numbers cannot tell a positive number from one that underflows to 0.

e^x, a softmax and their products are positive, and are computed as 0 for some x. What a rule asks of the reals (`where w > 0`) is read off
the meaning of the operations (`Facts.real`), on sets of signs. Axes are taken to have elements, as proofs of rules do.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue

from hnfc.analysis.ranges import Ranges
from hnfc.dialects.facts import NoFormula
from hnfc.dialects.interval import Interval
from hnfc.dialects.num import COMPUTING, NumOp
from hnfc.dialects.types import ELEMENT_NAMES, FORMATS

_STEPS = 64
"""Operations before a value that are looked at."""


@dataclass(frozen=True)
class Sign:
    """The signs that elements of a tensor may have."""

    negative: bool = True
    zero: bool = True
    positive: bool = True

    @staticmethod
    def of_interval(x: Interval) -> Sign:
        """Signs of the numbers in it."""
        return Sign(x.lo < 0, 0.0 in x, x.hi > 0)

    def meet(self, other: Sign) -> Sign:
        return Sign(self.negative and other.negative, self.zero and other.zero, self.positive and other.positive)

    def join(self, other: Sign) -> Sign:
        return Sign(self.negative or other.negative, self.zero or other.zero, self.positive or other.positive)

    def holds(self, predicate: str) -> bool | None:
        """Compare with 0; None where it depends on the element."""
        yes = {"gt": (0, 0, 1), "ge": (0, 1, 1), "lt": (1, 0, 0), "le": (1, 1, 0), "eq": (0, 1, 0), "ne": (1, 0, 1)}[predicate]
        found = {bool(part) for part, there in zip(yes, (self.negative, self.zero, self.positive), strict=True) if there}
        return found.pop() if len(found) == 1 else None

    def __neg__(self) -> Sign:
        return Sign(self.positive, self.zero, self.negative)

    def __add__(self, other: Any) -> Sign:
        y = _sign(other)
        negative, positive = self.negative or y.negative, self.positive or y.positive
        return Sign(negative, (negative and positive) or (self.zero and y.zero), positive)

    def __sub__(self, other: Any) -> Sign:
        return self + -_sign(other)

    def __mul__(self, other: Any) -> Sign:
        y = _sign(other)
        return Sign(
            (self.negative and y.positive) or (self.positive and y.negative),
            self.zero or y.zero,
            (self.positive and y.positive) or (self.negative and y.negative),
        )

    def __truediv__(self, other: Any) -> Sign:
        y = _sign(other)
        # at a pole floating point gives an infinity, whose sign is that of a zero
        return _ANY if y.zero else self * y

    def __radd__(self, other: Any) -> Sign:
        return _sign(other) + self

    def __rsub__(self, other: Any) -> Sign:
        return _sign(other) - self

    def __rmul__(self, other: Any) -> Sign:
        return _sign(other) * self

    def __rtruediv__(self, other: Any) -> Sign:
        return _sign(other) / self


_ANY, _ZERO, _POSITIVE = Sign(), Sign(False, True, False), Sign(False, False, True)
_NOT_NEGATIVE = Sign(False, True, True)


def _sign(x: Any) -> Sign:
    return x if isinstance(x, Sign) else Sign(x < 0, x == 0, x > 0)


def _kept(self: SignMath, x: Any, *_: Any) -> Sign:
    return _sign(x)


def _any(self: SignMath, *_: Any) -> Sign:
    return _ANY


def _truth(self: SignMath, *_: Any) -> Sign:
    """A condition, which may hold or not."""
    return _NOT_NEGATIVE


class SignMath:
    """The `Math` of sets of signs."""

    log = sin = cos = lgamma = atan2 = _any
    atan = asin = erf = sum = cumsum = amax = amin = transpose = slice = reverse = repeat = gather = _kept
    compare = logical_and = logical_or = logical_not = _truth

    def const(self, value: float | Fraction) -> Sign:
        return _ANY if isinstance(value, float) and math.isnan(value) else _sign(value)

    def exp(self, x: Any) -> Sign:
        return _POSITIVE

    def sqrt(self, x: Any) -> Sign:
        return _sign(x).meet(_NOT_NEGATIVE)

    def pow(self, x: Any, y: Any) -> Sign:
        return _POSITIVE if _sign(x) == _POSITIVE else _ANY

    def acos(self, x: Any) -> Sign:
        return _NOT_NEGATIVE

    def i0(self, x: Any) -> Sign:
        return _POSITIVE

    def floor(self, x: Any) -> Sign:
        found = _sign(x)
        return Sign(found.negative, found.zero or found.positive, found.positive)

    def round_to(self, x: Any, format: Any) -> Sign:
        return _sign(x).join(_ZERO)

    def abs(self, x: Any) -> Sign:
        found = _sign(x)
        return Sign(False, found.zero, found.positive or found.negative)

    def maximum(self, x: Any, y: Any) -> Sign:
        a, b = _sign(x), _sign(y)
        return Sign(
            a.negative and b.negative,
            (a.zero and (b.zero or b.negative)) or (b.zero and a.negative),
            a.positive or b.positive,
        )

    def minimum(self, x: Any, y: Any) -> Sign:
        return -self.maximum(-_sign(x), -_sign(y))

    def where(self, p: Any, x: Any, y: Any) -> Sign:
        return _sign(x).join(_sign(y))

    def weight(self, mask: Any) -> Sign:
        return _NOT_NEGATIVE

    def prod(self, x: Any, axes: Any) -> Sign:
        found = _sign(x)
        return found.join(-found) if found.negative else found

    def lower(self, x: Any) -> Sign:
        return _sign(x).join(_ZERO)

    def index_of(self, x: Any, axes: Any, greatest: bool) -> Sign:
        return _NOT_NEGATIVE

    def size(self, x: Any, axes: Any) -> Sign:
        return _POSITIVE

    def matmul(self, a: Any, b: Any) -> Sign:
        return self.sum(_sign(a) * _sign(b))

    def conv(self, x: Any, weight: Any, *_: Any) -> Sign:
        """A window may lie in the padding alone."""
        return (_sign(x) * _sign(weight)).join(_ZERO)

    def concat(self, parts: Sequence[Any], axis: Any) -> Sign:
        first, *others = (_sign(part) for part in parts)
        for other in others:
            first = first.join(other)
        return first

    def pad(self, x: Any, axis: Any, low: Any, high: Any, value: Any) -> Sign:
        return _sign(x).join(self.const(value) if isinstance(value, int | float | Fraction) else _sign(value))


def sign_of(value: SSAValue, ranges: Ranges) -> Sign:
    """The signs that a value has over the reals for inputs in these ranges."""
    return _SignReader(ranges).of(value)


class _SignReader:
    """Signs of a value and of those that it is made of, each looked at once."""

    def __init__(self, ranges: Ranges) -> None:
        self.ranges = ranges
        self.found: dict[SSAValue, Sign] = {}

    def of(self, value: SSAValue) -> Sign:
        known = self.found.get(value)
        if known is None:
            # what is being looked at is there already, so that the steps are counted
            self.found[value] = known = Sign.of_interval(self.ranges.of(value))
            if len(self.found) <= _STEPS and (known.zero or (known.negative and known.positive)):
                self.found[value] = known = known.meet(self._by_meaning(value))
        return known

    def _by_meaning(self, value: SSAValue) -> Sign:
        owner, kind = value.owner, value.type
        if type(owner) not in COMPUTING or not isinstance(owner, NumOp) or len(owner.results) != 1 or owner.FACTS.real is None:
            return _ANY
        types = [kind, *(operand.type for operand in owner.operands)]
        if any(not isinstance(t, TensorType) or 0 in t.get_shape() or ELEMENT_NAMES.get(t.element_type) not in FORMATS for t in types):
            return _ANY
        try:
            found = owner.FACTS.real(SignMath(), *map(self.of, owner.operands), **owner.attributes_as_python())
        except NoFormula:
            return _ANY
        return found if isinstance(found, Sign) else _ANY
