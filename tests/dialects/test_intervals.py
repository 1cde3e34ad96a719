"""Interval arithmetic holds what ball arithmetic gives, at the ends of boxes and inside."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from flint import arb, ctx
from hypothesis import given, settings
from hypothesis import strategies as st

from hnfc.dialects import interval_arrays
from hnfc.dialects.interval import Interval
from hnfc.dialects.interval_arrays import IntervalArray
from hnfc.dialects.num import OPERATIONS

NUMBERS = st.one_of(
    st.sampled_from(
        [0.0, 1.0, -1.0, 5e-324, -5e-324, 1e-200, 1e300, -1e300, math.pi, math.pi / 2, -math.pi / 2, 1.5 * math.pi, 2.0**-1074]
    ),
    st.floats(-1e3, 1e3),
    st.floats(-1e-3, 1e-3),
)
UNARY: dict[str, tuple[Callable[[IntervalArray], IntervalArray], Callable[[Any], Any], float, float]] = {
    "exp": (interval_arrays.exp, lambda x: x.exp(), -700, 700),
    "sin": (interval_arrays.sin, lambda x: x.sin(), -math.inf, math.inf),
    "cos": (interval_arrays.cos, lambda x: x.cos(), -math.inf, math.inf),
    "square": (IntervalArray.square, lambda x: x * x, -1e150, 1e150),
    "cube": (lambda b: interval_arrays.power(b, 3), lambda x: x**3, -1e90, 1e90),
    "x^-2": (lambda b: interval_arrays.power(b, -2), lambda x: 1 / (x * x), 1e-100, 1e150),
    "x^2.5": (lambda b: interval_arrays.power(b, 2.5), lambda x: x ** arb("2.5"), 1e-100, 1e100),
    "reciprocal": (IntervalArray.reciprocal, lambda x: 1 / x, 1e-300, math.inf),
}
MONOTONE: dict[str, tuple[Callable[[Any], Any], float, float]] = {
    "exp": (lambda x: x.exp(), -1e4, 700), "expm1": (lambda x: x.expm1(), -1e4, 700), "log": (lambda x: x.log(), 5e-324, math.inf),
    "log1p": (lambda x: x.log1p(), -1 + 2**-53, math.inf), "sqrt": (lambda x: x.sqrt(), 0, math.inf),
    "atan": (lambda x: x.atan(), -math.inf, math.inf), "asin": (lambda x: x.asin(), -1, 1), "acos": (lambda x: x.acos(), -1, 1),
    "sinh": (lambda x: x.sinh(), -700, 700), "tanh": (lambda x: x.tanh(), -math.inf, math.inf),
    "erf": (lambda x: x.erf(), -1e3, 1e3),
}  # fmt: skip
"""Operations whose class declares one function for intervals and arrays of them."""


def point(lo: float, hi: float, share: float) -> float:
    return min(max(lo + share * (hi - lo), lo), hi)


def holds(box: Any, true: Any) -> bool:
    return not (arb(true) < arb(float(box.lo)) or arb(true) > arb(float(box.hi)))


@pytest.mark.parametrize("name", UNARY)
@given(a=NUMBERS, b=NUMBERS, share=st.sampled_from([0.0, 1.0, 0.5, 0.123]))
@settings(max_examples=60, deadline=None)
def test_functions(name: str, a: float, b: float, share: float) -> None:
    function, true, least, greatest = UNARY[name]
    lo, hi = (min(max(x, least), greatest) for x in (min(a, b), max(a, b)))
    ctx.prec = 200
    with np.errstate(all="ignore"):
        found = function(IntervalArray(np.float64(lo), np.float64(hi)))
    assert holds(found, true(arb(point(lo, hi, share)))), found


@pytest.mark.parametrize("name", MONOTONE)
@given(a=NUMBERS, b=NUMBERS, share=st.sampled_from([0.0, 1.0, 0.5, 0.123]))
@settings(max_examples=60, deadline=None)
def test_ranges_of_classes(name: str, a: float, b: float, share: float) -> None:
    true, least, greatest = MONOTONE[name]
    lo, hi = (min(max(x, least), greatest) for x in (min(a, b), max(a, b)))
    ctx.prec = 200
    expected = true(arb(point(lo, hi, share)))
    with np.errstate(all="ignore"):
        for kind in (Interval, lambda lo, hi: IntervalArray(np.float64(lo), np.float64(hi))):
            found = OPERATIONS[name].FACTS.range(kind(lo, hi))
            assert holds(found, expected), found


@pytest.mark.parametrize("symbol", ["+", "-", "*", "/"])
@given(
    ends=st.tuples(NUMBERS, NUMBERS, NUMBERS, NUMBERS), shares=st.tuples(st.sampled_from([0.0, 1.0, 0.3]), st.sampled_from([0.0, 1.0, 0.7]))
)
@settings(max_examples=150, deadline=None)
def test_arithmetic(symbol: str, ends: tuple[float, ...], shares: tuple[float, float]) -> None:
    a, b = sorted(ends[:2]), sorted(ends[2:])
    x, y = IntervalArray(np.float64(a[0]), np.float64(a[1])), IntervalArray(np.float64(b[0]), np.float64(b[1]))
    p, q = arb(point(*a, shares[0])), arb(point(*b, shares[1]))
    ctx.prec = 2300
    with np.errstate(all="ignore"):
        match symbol:
            case "+":
                assert holds(x + y, p + q)
            case "-":
                assert holds(x - y, p - q)
            case "*":
                assert holds(x * y, p * q)
            case _ if q != 0:
                assert holds(x / y, p / q)


def test_what_has_no_value_is_unbounded() -> None:
    with np.errstate(all="ignore"):
        assert float(interval_arrays.increasing(np.log, 0.0)(IntervalArray.of(-1.0)).lo) == -math.inf
        assert float((IntervalArray.of(1.0) / IntervalArray(np.float64(-1.0), np.float64(1.0))).hi) == math.inf


def test_a_fraction_is_between_its_neighbours() -> None:
    third = IntervalArray.of(Fraction(1, 3))
    assert float(third.lo) < float(third.hi) and Fraction(float(third.lo)) < Fraction(1, 3) < Fraction(float(third.hi))
    half = IntervalArray.of(Fraction(1, 2))
    assert half.lo == half.hi == 0.5


def test_the_signs_at_right_angles() -> None:
    with np.errstate(all="ignore"):
        around = interval_arrays.cos(IntervalArray(np.float64(3.0), np.float64(3.3)))
        assert around.lo == -1.0 and around.hi < -0.98
        assert interval_arrays.sin(IntervalArray(np.float64(1.5), np.float64(1.6))).hi == 1.0
