"""The `Math` whose tensors are terms of Coq, in the operations of `theory/Tensors.v`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from hnfc.dsl.constants import Constant
from hnfc.dsl.core import Axis

MATRIX_AXES = "last_two"


class NoMeaning(Exception):
    """The theory has no meaning for a part of a rule; the message names it."""


@dataclass(frozen=True, eq=False)
class CoqTerm:
    """A tensor of numbers, or of truth values, as a term of Coq."""

    text: str
    truth: bool = False

    @property
    def number(self) -> str:
        return f"(as_number {self.text})" if self.truth else self.text

    @property
    def mask(self) -> str:
        return self.text if self.truth else f"(as_mask {self.text})"

    def __add__(self, other: CoqTerm) -> CoqTerm:
        return applied("t_add", self, other)

    def __sub__(self, other: CoqTerm) -> CoqTerm:
        return applied("t_sub", self, other)

    def __mul__(self, other: CoqTerm) -> CoqTerm:
        return applied("t_mul", self, other)

    def __truediv__(self, other: CoqTerm) -> CoqTerm:
        return applied("t_div", self, other)

    def __neg__(self) -> CoqTerm:
        return applied("t_neg", self)


def applied(function: str, *operands: CoqTerm) -> CoqTerm:
    return CoqTerm(f"({' '.join([function, *(x.number for x in operands)])})")


def _elementwise(function: str) -> Any:
    return lambda self, *operands: applied(function, *operands)


def _unknown(function: str) -> Any:
    def refuse(self: TermMath, *_: Any, **__: Any) -> CoqTerm:
        raise NoMeaning(function)

    return refuse


def real_number(value: Fraction) -> str:
    """A rational number as a term of type R."""
    top = f"({value.numerator})" if value < 0 else str(value.numerator)
    return top if value.denominator == 1 else f"({top} / {value.denominator})"


def axis_number(axis: Axis) -> str:
    """The axis counted from the right, from 0; an axis variable is itself."""
    if isinstance(axis, str):
        return axis_name(axis)
    if axis >= 0:
        raise NoMeaning("an axis that is counted from the left")
    return str(-1 - axis)


def axis_name(axis: str) -> str:
    return f"axis_{axis}"


class TermMath:
    """The `Math` protocol on `CoqTerm`. A function without a definition in the theory raises NoMeaning."""

    def const(self, value: Any) -> CoqTerm:
        if isinstance(value, CoqTerm):
            return value
        if isinstance(value, Constant):
            return CoqTerm(f"(number ({real_number(value.factor)} * PI))")
        if isinstance(value, float) and value - value != 0:
            raise NoMeaning("an infinity or a nan")
        return CoqTerm(f"(number {real_number(Fraction(value))})")

    exp = _elementwise("t_exp")
    log = _elementwise("t_log")
    sqrt = _elementwise("t_sqrt")
    pow = _elementwise("t_pow")
    sin = _elementwise("t_sin")
    cos = _elementwise("t_cos")
    atan = _elementwise("t_atan")
    asin = _elementwise("t_asin")
    acos = _elementwise("t_acos")
    erf = _elementwise("t_erf")
    i0 = _elementwise("t_i0")
    floor = _elementwise("t_floor")
    abs = _elementwise("t_abs")
    maximum = _elementwise("t_maximum")
    minimum = _elementwise("t_minimum")

    atan2 = _unknown("atan2")
    lgamma = _unknown("lgamma")
    round_to = _unknown("round_to")

    def compare(self, predicate: str, x: CoqTerm, y: CoqTerm) -> CoqTerm:
        return CoqTerm(f"(t_{predicate} {x.number} {y.number})", truth=True)

    def logical_and(self, p: CoqTerm, q: CoqTerm) -> CoqTerm:
        return CoqTerm(f"(m_and {p.mask} {q.mask})", truth=True)

    def logical_or(self, p: CoqTerm, q: CoqTerm) -> CoqTerm:
        return CoqTerm(f"(m_or {p.mask} {q.mask})", truth=True)

    def logical_not(self, p: CoqTerm) -> CoqTerm:
        return CoqTerm(f"(m_not {p.mask})", truth=True)

    def where(self, p: CoqTerm, x: CoqTerm, y: CoqTerm) -> CoqTerm:
        if x.truth and y.truth:
            return CoqTerm(f"(m_where {p.mask} {x.text} {y.text})", truth=True)
        return CoqTerm(f"(t_where {p.mask} {x.number} {y.number})")

    def weight(self, mask: CoqTerm) -> CoqTerm:
        """The factor of a mask: e^mask for numbers, 1 or 0 for truth values."""
        return CoqTerm(mask.number) if mask.truth else applied("t_exp", mask)

    # reductions

    def sum(self, x: CoqTerm, axes: Iterable[Axis]) -> CoqTerm:
        return self._along("t_sum", x, axes)

    def prod(self, x: CoqTerm, axes: Iterable[Axis]) -> CoqTerm:
        return self._along("t_prod", x, axes)

    def amax(self, x: CoqTerm, axes: Iterable[Axis]) -> CoqTerm:
        return self._along("t_amax", x, axes)

    def amin(self, x: CoqTerm, axes: Iterable[Axis]) -> CoqTerm:
        return self._along("t_amin", x, axes)

    def size(self, x: CoqTerm, axes: Iterable[Axis]) -> CoqTerm:
        return self._along("t_size", x, axes)

    def _along(self, function: str, x: CoqTerm, axes: Iterable[Axis]) -> CoqTerm:
        return CoqTerm(f"({function} {axis_list(axes)} {x.number})")

    # contraction and movement

    def matmul(self, a: CoqTerm, b: CoqTerm) -> CoqTerm:
        return applied("t_matmul", a, b)

    def transpose(self, x: CoqTerm, perm: Any) -> CoqTerm:
        if perm != MATRIX_AXES:
            raise NoMeaning("a permutation of axes that are counted from the left")
        return applied("t_transpose", x)

    def unsqueeze(self, x: CoqTerm, place: int) -> CoqTerm:
        """An axis of size 1 comes in at `place`, counted from the right in the result."""
        return CoqTerm(f"(t_unsqueeze {axis_number(place)} {x.number})")

    def squeeze(self, x: CoqTerm, place: int) -> CoqTerm:
        """The axis at `place`, which has size 1, goes away."""
        return CoqTerm(f"(t_squeeze {axis_number(place)} {x.number})")

    def reverse(self, x: CoqTerm, axes: Iterable[Axis]) -> CoqTerm:
        return self._along("t_reverse", x, axes)

    def slice(self, x: CoqTerm, axis: Axis, start: Any, stop: Any, step: Any) -> CoqTerm:
        return self._moved("t_slice", axis, start, stop, step, x)

    def concat(self, parts: Iterable[CoqTerm], axis: Axis) -> CoqTerm:
        *others, result = parts
        for part in reversed(others):
            result = self._moved("t_concat", axis, part, result)
        return result

    def pad(self, x: CoqTerm, axis: Axis, low: Any, high: Any, value: Any) -> CoqTerm:
        return self._moved("t_pad", axis, low, high, value, x)

    def repeat(self, x: CoqTerm, axis: Axis, size: Any) -> CoqTerm:
        return self._moved("t_repeat", axis, size, x)

    def _moved(self, function: str, axis: Axis, *operands: Any) -> CoqTerm:
        return CoqTerm(f"({' '.join([function, one_axis(axis), *(self.const(x).number for x in operands)])})")

    gather = _unknown("gather")
    cumsum = _unknown("cumsum")
    lower = _unknown("causal attention")
    index_of = _unknown("the index of an extremum")
    conv = _unknown("conv")


def one_axis(axis: Axis) -> str:
    """The axis of a movement; an axis variable that stands for one axis is a list of it (see `statement`)."""
    return one_of(axis) if isinstance(axis, str) else axis_number(axis)


def one_of(axis: str) -> str:
    return f"{axis_name(axis)}_at"


def axis_list(axes: Iterable[Axis]) -> str:
    """Axes as a list of Coq: an axis variable is one already."""
    parts: list[str] = []
    for axis in axes:
        parts.append(axis_name(axis) if isinstance(axis, str) else f"[{axis_number(axis)}%nat]")
    return parts[0] if len(parts) == 1 else f"({' ++ '.join(parts)})"
