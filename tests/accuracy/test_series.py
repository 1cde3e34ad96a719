"""Series: their coefficients, and bounds of what is left off that hold."""

from __future__ import annotations

import numpy as np
import pytest
from flint import arb

from hnfc.accuracy.arithmetic import TermSimplifier
from hnfc.accuracy.expanding import Expander
from hnfc.accuracy.reading import expression
from hnfc.accuracy.reference import Columns
from hnfc.accuracy.remainder import NoBound, bound
from hnfc.accuracy.series import ExpansionPoint, NoSeries
from hnfc.accuracy.terms import Terms
from hnfc.accuracy.truncation import Truncated, truncations
from hnfc.dsl.soundness.balls import precision
from tests.accuracy.programs import term


def cut(text: str, at: int, count: int, arguments: str = "x", variable: str = "x"):
    terms = Terms()
    made = term(text, arguments, terms)
    expander = Expander(TermSimplifier(terms), ExpansionPoint(terms.var(variable), at), 20)
    found = truncations(expander, expander.series(made), (count,))
    return made, found[0] if found else None


@pytest.mark.parametrize(("text", "at", "count", "becomes"), [
    ("(sin x)", 0, 2, "(* x (- 1 (* 1/6 (* x x))))"),
    ("(/ (- 1 (cos x)) (* x x))", 0, 1, "0.5"),
    ("(- (sqrt (+ (* x x) 1)) x)", 1, 1, "(* 0.5 (/ 1 x))"),
    ("(- (atan (+ x 1)) (atan x))", 1, 1, "(* (/ 1 x) (/ 1 x))"),
    ("(- (log (+ x 1)) (log x))", 1, 1, "(/ 1 x)"),
    ("(tanh x)", 0, 1, "x"), ("(asinh x)", 0, 1, "x"), ("(- (exp x) 1)", 0, 1, "x"), ("(acos x)", 0, 1, "(* 2 (atan 1))"),
])  # fmt: skip
def test_leading_terms(text, at, count, becomes):
    terms = Terms()
    _, found = cut(text, at, count)
    assert found is not None
    assert term(expression(found.term), "x", terms) is term(becomes, "x", terms)


def test_other_arguments_are_in_the_coefficients():
    text = "(/ (* e (- (exp (* (+ a b) e)) 1)) (* (- (exp (* a e)) 1) (- (exp (* b e)) 1)))"
    _, found = cut(text, 0, 1, "a b e", "e")
    assert found is not None and expression(found.term) in ("(+ (/ 1 a) (/ 1 b))", "(+ (/ 1 b) (/ 1 a))")


@pytest.mark.parametrize("text", ["(floor x)", "(exp (/ 1 x))", "(log (- x 5))", "(- x x)", "(sqrt x)"])
def test_what_has_no_series_says_so(text):
    with pytest.raises(NoSeries):
        cut(text, 0, 1)


BOUNDED = [
    ("(/ (- x (sin x)) (- x (tan x)))", 0, 2, -0.25, 0.25), ("(- (/ 1 x) (/ 1 (tan x)))", 0, 3, -0.1, 0.1),
    ("(- (exp x) 1)", 0, 4, -0.5, 0.5), ("(/ (log (- 1 x)) (log (+ 1 x)))", 0, 3, -0.2, 0.2), ("(- (cosh x) 1)", 0, 2, -1.0, 1.0),
    ("(+ (- (/ 1 (+ x 1)) (/ 2 x)) (/ 1 (- x 1)))", 1, 2, 10.0, 1e300),
    ("(+ (- (/ 1 (+ x 1)) (/ 2 x)) (/ 1 (- x 1)))", -1, 2, -1e300, -10.0),
    ("(- (asinh x) (atan x))", 0, 2, -0.1, 0.1), ("(- (sqrt (+ 1 x)) (cbrt (+ 1 x)))", 0, 3, -0.1, 0.2),
    ("(tanh (atanh (* x x)))", 0, 1, -0.3, 0.1),
]  # fmt: skip


@pytest.mark.parametrize(("text", "at", "count", "lo", "hi"), BOUNDED)
def test_what_is_left_off_is_never_more_than_the_bound(text, at, count, lo, hi):
    made, found = cut(text, at, count)
    assert isinstance(found, Truncated)
    rest = bound(made, found, lo, hi)
    rng = np.random.default_rng(1)
    points = [x for x in [lo, hi, *rng.uniform(lo, hi, 60).tolist(), *(hi * 2.0 ** -rng.uniform(0, 3, 20)).tolist()] if lo <= x <= hi and x]
    columns = Columns({"x": points}, len(points), 2000)
    worst = 0.0
    exact, series = columns.of(made), columns.of(found.term)
    with precision(2000):
        for f, s in zip(exact, series, strict=True):
            if f.is_finite():
                off = abs((f - s) / f)
                assert off <= arb(rest.relative) or off.lower() <= rest.relative
                worst = max(worst, float(off))
    assert rest.relative < 1e4 * worst + 1e-6


def test_no_bound_where_the_series_does_not_converge():
    made, found = cut("(/ x (+ 1 (* x x)))", 0, 2)
    assert found is not None
    with pytest.raises(NoBound):
        bound(made, found, -2.0, 2.0)


def test_no_bound_at_a_zero():
    made, found = cut("(- (cos x) (/ 1 2))", 0, 2)
    assert found is not None
    with pytest.raises(NoBound):
        bound(made, found, -1.2, 1.2)
