"""One element of a tensor in ball arithmetic, and the functions on elements.

An element is an exact rational (`fmpq`), a ball (`arb`) that surely holds the true value, a truth value, or a mark: UNDEFINED (the
real function surely has no value there), UNDECIDED (the precision at hand cannot tell), or MINUS_INFINITY, which a rule may write for
what a mask leaves out: e^x is 0 there, and most functions have no value. Two elements differ only where their balls are disjoint, so a
difference found is certain.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from fractions import Fraction
from typing import Any

import numpy as np
from flint import arb, fmpq

from hnfc.dsl.constants import Constant

DEFAULT_PRECISION = 128

EXACT_BITS = 1200
"""Rationals with more bits than this become balls."""

NUMBERS = frozenset((fmpq, arb))


class Mark(Enum):
    UNDEFINED = "undefined"
    UNDECIDED = "undecided"
    MINUS_INFINITY = "-inf"

    def __repr__(self) -> str:
        return self.value


UNDEFINED, UNDECIDED, MINUS_INFINITY = Mark.UNDEFINED, Mark.UNDECIDED, Mark.MINUS_INFINITY


def element(value: Any) -> Any:
    """The element for a Python or NumPy number; ±inf and nan are no real numbers, hence UNDEFINED."""
    if isinstance(value, Mark | bool | fmpq | arb):
        return value
    if isinstance(value, np.bool_):
        return bool(value)
    if isinstance(value, int | np.integer):
        return fmpq(int(value))
    if isinstance(value, Fraction):
        return fmpq(value.numerator, value.denominator)
    if isinstance(value, Constant):
        return arb.pi() * fmpq(value.factor.numerator, value.factor.denominator)
    number = float(value)
    if not np.isfinite(number):
        return UNDEFINED
    numerator, denominator = number.as_integer_ratio()
    return fmpq(numerator, denominator)


def number(x: Any) -> Any:
    return fmpq(int(x)) if isinstance(x, bool) else x


def tidy(x: Any) -> Any:
    """Too long rationals become balls; balls without a finite bound are UNDECIDED; exact short balls become rationals."""
    # millions of calls: most rationals are short in both of their numbers, which is seen at once
    if type(x) is fmpq:
        if 2 * x.height_bits() > EXACT_BITS and x.p.bit_length() + x.q.bit_length() > EXACT_BITS:
            return arb(x)
        return x
    if type(x) is arb:
        if not x.is_finite():
            return UNDECIDED
        if x.is_exact() and abs(x) < 2**64 and (x.is_zero() or abs(x) > fmpq(1, 2**64)):
            return x.fmpq()
    return x


def _no_limit(*_: Any) -> Any:
    return UNDEFINED


def lift(function: Callable[..., Any], limit: Callable[..., Any] = _no_limit) -> Callable[..., Any]:
    """Strict in the marks: UNDEFINED first, since no precision makes such a value defined. limit: the value where operands are -∞."""

    def special(*xs: Any) -> Any:
        kinds = [x for x in xs if type(x) is Mark]
        if kinds:
            return UNDEFINED if UNDEFINED in kinds else UNDECIDED if UNDECIDED in kinds else limit(*xs)
        return tidy(function(*[x if type(x) is not bool else fmpq(x) for x in xs]))

    def lifted(*xs: Any) -> Any:
        # millions of calls: a comparison of a mark with a ball is slow, and so is a list of the operands
        for x in xs:
            if type(x) not in NUMBERS:
                return special(*xs)
        return tidy(function(*xs))

    return lifted


def lift_binary(function: Callable[[Any, Any], Any], limit: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """`lift` for the arithmetic that sums and products of matrices are made of, a quarter faster."""
    general = lift(function, limit)

    def lifted(x: Any, y: Any) -> Any:
        return tidy(function(x, y)) if type(x) in NUMBERS and type(y) in NUMBERS else general(x, y)

    return lifted


def weight(mask: Any) -> Any:
    """1 or 0 for a truth value, e^mask for a number."""
    if isinstance(mask, bool):
        return fmpq(int(mask))
    if mask is MINUS_INFINITY:
        return fmpq(0)
    return mask if isinstance(mask, Mark) else tidy(arb(mask).exp())


def limit_of_difference(x: Any, y: Any) -> Any:
    """-∞ - y, for a number y."""
    return UNDEFINED if y is MINUS_INFINITY else x


def limit_of_scaled(x: Any, y: Any) -> Any:
    """-∞ · y or -∞ / y, which is -∞ for a positive y."""
    return when(sign_of(y), (1,), lambda: x) if x is MINUS_INFINITY and not isinstance(y, Mark) else UNDEFINED


def limit_of_product(x: Any, y: Any) -> Any:
    return limit_of_scaled(x, y) if x is MINUS_INFINITY else limit_of_scaled(y, x)


def limit_of_maximum(x: Any, y: Any) -> Any:
    return y if x is MINUS_INFINITY else x


def sign_of(x: Any) -> int | None:
    """-1, 0 or 1 where it is sure."""
    if isinstance(x, fmpq):
        return int(x.p > 0) - int(x.p < 0)
    if x > 0:
        return 1
    if x < 0:
        return -1
    return 0 if x.is_zero() else None


def when(sign: int | None, wanted: tuple[int, ...], value: Callable[[], Any]) -> Any:
    """value() if the sign is one of the wanted ones."""
    if sign is None:
        return UNDECIDED
    return value() if sign in wanted else UNDEFINED


def div(x: Any, y: Any) -> Any:
    return when(sign_of(y), (-1, 1), lambda: x / y)


def integer(x: Any) -> int | bool | None:
    """The integer that x is; False if it surely is none; None if unsure."""
    if isinstance(x, fmpq):
        return int(x.p) if x.q == 1 else False
    return None if x.contains_integer() else False


def whole_power(x: Any, n: int) -> Any:
    """x^n for n ≥ 0, by products: the power of arb takes a logarithm, which a ball around 0 does not have."""
    result = arb(1)
    while n:
        if n & 1:
            result = x * result
        n >>= 1
        x = x * x if n else x
    return result


def power(x: Any, y: Any) -> Any:
    """x^y: any y for x > 0; y ≥ 0 for x = 0 (0^0 = 1, as in IEEE and for polynomials); integer y for x < 0."""
    sign, power = sign_of(x), integer(y)
    if power is None and isinstance(y, arb) and sign != 1:
        return UNDECIDED
    if power is not None and power is not False:
        n = int(power)
        if n >= 0 or sign in (-1, 1):
            if isinstance(x, fmpq) and abs(n) * (x.p.bit_length() + x.q.bit_length()) < 4 * EXACT_BITS:
                return x**n
            if abs(n) >= 2**62:
                return UNDECIDED
            return whole_power(arb(x), n) if n >= 0 else 1 / whole_power(arb(x), -n)
        return UNDECIDED if sign is None else UNDEFINED
    if sign == 1:
        return (arb(x).log() * y).exp()
    if sign == 0:
        return when(sign_of(y), (1,), lambda: fmpq(0))
    return UNDEFINED if sign == -1 else UNDECIDED


def log(x: Any) -> Any:
    return when(sign_of(x), (1,), lambda: arb(x).log())


def sqrt(x: Any) -> Any:
    return when(sign_of(x), (0, 1), lambda: arb(x).sqrt())


def arc(name: str) -> Callable[[Any], Any]:
    def value(x: Any) -> Any:
        sign = sign_of(1 - x * x)
        if sign is None and (x == 1 or x == -1):
            sign = 0
        return when(sign, (0, 1), lambda: getattr(arb(x), name)())

    return value


def atan2(y: Any, x: Any) -> Any:
    sx, sy = sign_of(x), sign_of(y)
    if sx == 0 and sy == 0:
        return UNDEFINED
    if sy is None and sx != 1:
        return UNDECIDED
    return arb.atan2(arb(y), arb(x))


def lgamma(x: Any) -> Any:
    """log |Γ(x)|, which has no value at 0, -1, -2, …"""
    sign = sign_of(x)
    if sign == 1:
        return arb(x).lgamma()
    pole = integer(x)
    if sign is None or pole is None:
        return UNDECIDED
    if pole is not False:
        return UNDEFINED
    # reflection: Γ(x)Γ(1-x) = π / sin πx
    return (arb.pi() / abs(arb(x).sin_pi())).log() - (1 - arb(x)).lgamma()


def floor(x: Any) -> Any:
    if isinstance(x, fmpq):
        return fmpq(x.floor())
    below = x.floor().unique_fmpz()
    return UNDECIDED if below is None else fmpq(below)


def compared(x: Any, y: Any) -> int | None:
    """The sign of x - y where it is sure."""
    if isinstance(x, fmpq) and isinstance(y, fmpq):
        return int(x > y) - int(x < y)
    x, y = arb(x), arb(y)
    return 1 if x > y else -1 if x < y else sign_of(x - y)


PREDICATES: dict[str, tuple[int, ...]] = {"eq": (0,), "ne": (-1, 1), "lt": (-1,), "le": (-1, 0), "gt": (1,), "ge": (0, 1)}


def comparison(predicate: str) -> Callable[[Any, Any], Any]:
    wanted = PREDICATES[predicate]

    def holds(x: Any, y: Any) -> Any:
        order = compared(x, y)
        if order is not None:
            return order in wanted
        # overlapping balls may still settle ≤ or ≥ where they touch in a point
        x, y = arb(x), arb(y)
        if predicate in ("le", "gt") and x <= y:
            return predicate == "le"
        if predicate in ("ge", "lt") and x >= y:
            return predicate == "ge"
        return UNDECIDED

    return holds


def maximum(x: Any, y: Any) -> Any:
    order = compared(x, y)
    if order is None:
        return arb(x).max(arb(y))
    return x if order >= 0 else y


def minimum(x: Any, y: Any) -> Any:
    return -maximum(-x, -y)


def index_of_greatest(row: list[Any]) -> Any:
    """The first index of the greatest element, where the order of the elements that matter is sure."""
    if not row or UNDEFINED in row or MINUS_INFINITY in row:
        return UNDEFINED
    best = 0
    for i, x in enumerate(row):
        order = None if UNDECIDED in (x, row[best]) else compared(number(x), number(row[best])) if i else 0
        if order is None:
            return UNDECIDED
        best = i if order > 0 else best
    return fmpq(best)


def index_of_least(row: list[Any]) -> Any:
    return index_of_greatest([x if isinstance(x, Mark) else -number(x) for x in row])


def truth(p: Any) -> Any:
    """p as a condition: a number is true where it is not 0."""
    if isinstance(p, bool | Mark):
        return p
    sign = sign_of(p)
    return UNDECIDED if sign is None else sign != 0


def logical_and(p: Any, q: Any) -> Any:
    p, q = truth(p), truth(q)
    if UNDEFINED in (p, q):
        return UNDEFINED
    if p is False or q is False:
        return False
    return UNDECIDED if UNDECIDED in (p, q) else True


def logical_not(p: Any) -> Any:
    p = truth(p)
    return p if isinstance(p, Mark) else not p


def choose(p: Any, x: Any, y: Any) -> Any:
    """Only the branch that is taken needs a value."""
    p = truth(p)
    return p if isinstance(p, Mark) else x if p else y


def to_float(x: Any) -> float:
    try:
        return int(x.p) / int(x.q) if isinstance(x, fmpq) else float(x)
    except OverflowError:
        return float("inf") if x > 0 else float("-inf")


ACCURATE_BITS = 56
"""More digits than a float64 has."""


def is_accurate(x: Any) -> bool:
    """Return whether the digits of a float64 are known: what no number stands for counts as known."""
    if isinstance(x, Mark | fmpq | bool):
        return x is not UNDECIDED
    ball = arb(x)
    return bool(ball.is_exact() or ball.rel_accuracy_bits() >= ACCURATE_BITS)


def surely_different(x: Any, y: Any) -> bool:
    """Two defined elements whose balls are disjoint."""
    if isinstance(x, Mark) or isinstance(y, Mark):
        return False
    x, y = number(x), number(y)
    if isinstance(x, fmpq) and isinstance(y, fmpq):
        return bool(x != y)
    return not arb(x).overlaps(arb(y))


def exact(x: Any) -> Fraction | None:
    """The element as a fraction, where it is rational."""
    x = number(x)
    return Fraction(int(x.p), int(x.q)) if isinstance(x, fmpq) else None
