"""The correctly rounded real value of a term at points: ball arithmetic with rising precision, until a ball rounds to one double.

Values are computed column by column, one operation at all points at a time. Operations without a column function of their own are
computed by their formula in `Facts.real`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from flint import arb, fmpq

from hnfc.accuracy.ordinals import Floats
from hnfc.accuracy.terms import Term
from hnfc.dialects.num import OPERATIONS
from hnfc.dsl.soundness import elements
from hnfc.dsl.soundness.balls import MATH, Balls, apply, precision
from hnfc.dsl.soundness.elements import UNDECIDED, UNDEFINED

LEVELS = (128, 320, 1280, 4000, 10240)
"""Bits of the balls, one after the other; what the last does not settle counts as having no value."""

Column: TypeAlias = list[Any]
_NAN = arb.nan()


class Columns:
    """Values of terms at points in balls of `bits` bits. `undefined` collects the points where an operation surely has no value."""

    def __init__(self, inputs: Mapping[str, Sequence[float]], count: int, bits: int) -> None:
        self.inputs = {name: [arb(x) for x in values] for name, values in inputs.items()}
        self.count = count
        self.bits = bits
        self.undefined: set[int] = set()
        self.known: dict[Term, Column] = {}

    def of(self, term: Term) -> Column:
        with precision(self.bits):
            return self._of(term)

    def _of(self, term: Term) -> Column:
        found = self.known.get(term)
        if found is None:
            found = self.known[term] = self._compute(term)
        return found

    def _compute(self, term: Term) -> Column:
        if term.op == "var":
            return self.inputs[term.value]
        if term.op == "const":
            return [arb(fmpq(term.value.numerator, term.value.denominator))] * self.count
        if term.op == "where":
            return self._branches(term)
        if term.op == "pow" and (power := whole_power(term)) is not None:
            return [x**power for x in self._of(term.args[0])]
        columns = [self._of(a) for a in term.args]
        plain = _PLAIN.get(term.op)
        if plain is not None:
            return plain(*columns)
        return [self._settle(i, value) for i, value in enumerate(_formula(term.op, term.value)(columns))]

    def _settle(self, i: int, value: Any) -> Any:
        if value is UNDEFINED:
            self.undefined.add(i)
            return _NAN
        # a formula may have a number for its value
        return _NAN if value is UNDECIDED else arb(value) if isinstance(value, fmpq) else value

    def _branches(self, term: Term) -> Column:
        """Only the branch that is taken needs a value."""
        condition = self._of(term.args[0])
        chosen: Column = [_NAN] * self.count
        for wanted, branch in ((True, term.args[1]), (False, term.args[2])):
            places = [i for i, p in enumerate(condition) if p is wanted]
            if places:
                part = Columns({}, len(places), self.bits)
                part.inputs = {name: [column[i] for i in places] for name, column in self.inputs.items()}
                values = part._of(branch)
                self.undefined |= {places[j] for j in part.undefined}
                for i, value in zip(places, values, strict=True):
                    chosen[i] = value
        return chosen


def whole_power(term: Term) -> int | None:
    """The exponent of a power with a value everywhere: a small positive whole number."""
    exponent = term.args[1]
    return int(exponent.value) if exponent.op == "const" and exponent.value.denominator == 1 and 0 < exponent.value <= 64 else None


def _log1p(x: Any) -> Any:
    return elements.when(elements.sign_of(x + 1), (1,), x.log1p)


def _pow(x: Any, y: Any) -> Any:
    exponent = elements.tidy(y)
    return UNDECIDED if exponent is UNDECIDED else elements.power(x, exponent)


def _acosh(x: Any) -> Any:
    if x >= 1:
        return x.acosh()
    return UNDEFINED if x < 1 else UNDECIDED


def _atanh(x: Any) -> Any:
    sign = elements.sign_of(1 - abs(x))
    return elements.when(sign, (1,), x.atanh)


def _cbrt(x: Any) -> Any:
    if x > 0:
        return x.root(3)
    return -(-x).root(3) if x < 0 else x if x.is_zero() else _NAN


_PLAIN: dict[str, Callable[..., Column]] = {
    "add": lambda x, y: [a + b for a, b in zip(x, y, strict=True)],
    "sub": lambda x, y: [a - b for a, b in zip(x, y, strict=True)],
    "mul": lambda x, y: [a * b for a, b in zip(x, y, strict=True)],
    "fma": lambda x, y, z: [a * b + c for a, b, c in zip(x, y, z, strict=True)],
    "neg": lambda x: [-a for a in x],
    "abs": lambda x: [abs(a) for a in x],
    "exp": lambda x: [a.exp() for a in x],
    "expm1": lambda x: [a.expm1() for a in x],
    "sin": lambda x: [a.sin() for a in x],
    "cos": lambda x: [a.cos() for a in x],
    "tan": lambda x: [a.tan() for a in x],
    "atan": lambda x: [a.atan() for a in x],
    "sinh": lambda x: [a.sinh() for a in x],
    "cosh": lambda x: [a.cosh() for a in x],
    "tanh": lambda x: [a.tanh() for a in x],
    "asinh": lambda x: [a.asinh() for a in x],
    "cbrt": lambda x: [_cbrt(a) for a in x],
    "erf": lambda x: [a.erf() for a in x],
    "erfc": lambda x: [a.erfc() for a in x],
    "hypot": lambda x, y: [(a * a + b * b).sqrt() for a, b in zip(x, y, strict=True)],
}
"""Functions that have a value everywhere (tan: nan where a ball holds a pole)."""

_PARTIAL: dict[str, Callable[..., Any]] = {
    "div": elements.div, "log": elements.log, "sqrt": elements.sqrt, "pow": _pow,
    "log1p": _log1p, "acosh": _acosh, "atanh": _atanh,
    "asin": elements.arc("asin"), "acos": elements.arc("acos"), "atan2": elements.atan2,
    "logical_and": elements.logical_and, "logical_not": elements.logical_not,
    "logical_or": lambda p, q: elements.logical_not(elements.logical_and(elements.logical_not(p), elements.logical_not(q))),
}  # fmt: skip


def _formula(op: str, value: Any) -> Callable[[Sequence[Column]], Column]:
    """The operation on columns of balls, with UNDEFINED and UNDECIDED for what has no value, and what the precision does not settle."""
    function = elements.comparison(value) if op == "compare" else _PARTIAL.get(op)
    return partial(_by_tensors, op) if function is None else lambda columns: list(map(function, *columns))


def _by_tensors(op: str, columns: Sequence[Column]) -> Column:
    """By the operation's own formula, on a tensor of the points."""
    operands = []
    for column in columns:
        # what is infinite is not known: tidy says so
        values = np.empty(len(column), object)
        values[:] = list(map(elements.tidy, column))
        operands.append(Balls(values))
    found = apply(MATH, OPERATIONS[op], operands, {}).values
    return list(np.broadcast_to(found, (len(columns[0]),)))


def rounded(ball: Any) -> float | None:
    """The double that every number in the ball rounds to; None where there is no such one."""
    if not ball.is_finite():
        # sure overflow: exp of a huge number is +inf exactly
        return float(ball) if ball.is_exact() and not ball.is_nan() else None
    low, high = float(ball.lower()), float(ball.upper())
    return low if low == high else None


def exact_values(term: Term, inputs: Mapping[str, Floats]) -> tuple[Floats, Any]:
    """The correctly rounded values (NaN where there is none, or none was found), and the level of precision each point took."""
    count = len(next(iter(inputs.values()))) if inputs else 1
    values = np.full(count, np.nan)
    level = np.full(count, len(LEVELS), np.int8)
    todo = np.arange(count)
    for number, bits in enumerate(LEVELS):
        columns = Columns({name: x[todo].tolist() for name, x in inputs.items()}, len(todo), bits)
        balls = columns.of(term)
        with precision(bits):
            doubles = [rounded(ball) for ball in balls]
        left = []
        for j, value in enumerate(doubles):
            if j in columns.undefined:
                continue
            if value is None:
                left.append(todo[j])
            else:
                values[todo[j]] = value
                level[todo[j]] = number
        todo = np.array(left, np.int64)
        if not len(todo):
            break
    return values, level


def holds(condition: Term, inputs: Mapping[str, Floats]) -> Any:
    """Mask of the points at which the condition surely holds, by exact arithmetic."""
    count = len(next(iter(inputs.values())))
    result = np.zeros(count, bool)
    todo = np.arange(count)
    for bits in LEVELS:
        columns = Columns({name: x[todo].tolist() for name, x in inputs.items()}, len(todo), bits)
        found = columns.of(condition)
        result[todo] = [p is True for p in found]
        todo = np.array([i for i, p in zip(todo, found, strict=True) if p is not True and p is not False], np.int64)
        if not len(todo):
            break
    return result
