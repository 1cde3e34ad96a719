"""Balls hold the true value, and undefined, undecided and different are told apart."""

from __future__ import annotations

from fractions import Fraction

import mpmath
import numpy as np
import pytest
from flint import arb

from hnfc.dialects.num import OPERATIONS
from hnfc.dsl.core import Apply, Capture
from hnfc.dsl.soundness.balls import MATH, UNDECIDED, UNDEFINED, Balls, Undecided, evaluate, exact, precision, surely_different

UNARY = {
    "exp": mpmath.exp, "log": mpmath.log, "sqrt": mpmath.sqrt, "sin": mpmath.sin, "cos": mpmath.cos, "atan": mpmath.atan, "erf": mpmath.erf,
    "i0": lambda x: mpmath.besseli(0, x), "lgamma": lambda x: mpmath.log(abs(mpmath.gamma(x))),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(UNARY))
def test_holds_the_value(name: str) -> None:
    with precision(150), mpmath.workprec(200):
        for v in (Fraction(1, 3), Fraction(5, 2), Fraction(7), Fraction(-5, 2)):
            if v < 0 and name in ("log", "sqrt"):
                continue
            ball = getattr(MATH, name)(Balls.of(np.array(v, dtype=object))).values[()]
            reference = UNARY[name](mpmath.mpf(v.numerator) / v.denominator)
            assert abs(arb(ball) - arb(mpmath.nstr(reference, 50))) < arb(10) ** -35


def test_undefined() -> None:
    x = Balls.of(np.array([0, -1, 4], dtype=object))
    assert MATH.log(x).values[0] is UNDEFINED
    assert MATH.sqrt(x).values[1] is UNDEFINED
    assert exact(MATH.sqrt(x).values[2]) == 2
    assert (x / x).values[0] is UNDEFINED
    assert exact((x / x).values[2]) == 1
    guarded = MATH.where(MATH.compare("gt", x, MATH.const(0)), MATH.log(x), MATH.const(7))
    assert [exact(v) for v in guarded.values[:2]] == [7, 7]


@pytest.mark.parametrize(
    ("x", "y", "value"),
    [(0, 0, 1), (0, 2, 0), (-2, 3, -8), (-2, -1, Fraction(-1, 2)), (4, Fraction(1, 2), 2), (-1, Fraction(1, 2), None), (0, -1, None)],
)
def test_power(x: object, y: object, value: object) -> None:
    result = MATH.pow(MATH.const(x), MATH.const(y)).values[()]
    assert result is UNDEFINED if value is None else exact(result) == value or (arb(result) - value).contains(0)


def test_undecided_is_not_different() -> None:
    e = MATH.exp(MATH.const(1))
    same = MATH.compare("eq", e, e).values[()]
    assert same is UNDECIDED
    assert not surely_different(e.values[()], MATH.exp(MATH.const(1)).values[()])
    assert surely_different(e.values[()], MATH.exp(MATH.const(2)).values[()])
    with pytest.raises(Undecided):
        (e - e).to_float() if (e - e).values[()] is UNDECIDED else MATH.where(Balls(same), e, e).to_float()


def test_matmul_and_reductions_are_numpy() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.integers(-5, 5, (2, 3, 4)), rng.integers(-5, 5, (4, 2))
    assert (MATH.matmul(Balls.of(a), Balls.of(b)).to_float() == a @ b).all()
    assert (MATH.sum(Balls.of(a), (-1,)).to_float() == a.sum(-1, keepdims=True)).all()
    assert (MATH.amax(Balls.of(a), (0, -1)).to_float() == a.max((0, 2), keepdims=True)).all()
    assert (MATH.prod(Balls.of(a), (1,)).to_float() == a.prod(1, keepdims=True)).all()
    assert (MATH.transpose(Balls.of(a), "last_two").to_float() == a.swapaxes(-1, -2)).all()
    assert float(MATH.size(Balls.of(a), (-1, -2)).values[()].p) == 12
    assert (MATH.sum(Balls.of(b), (-3,)).to_float() == b).all(), "an axis that is not there has size 1"


def test_an_expression() -> None:
    softmax = Apply(OPERATIONS["softmax"], (Capture("x"),), (("axes", ("k",)),))
    value = evaluate(softmax, {"x": np.array([[1000.0, 1000.0]])}, {"k": (-1,)})
    assert (abs(value.to_float() - 0.5) < 1e-15).all()
