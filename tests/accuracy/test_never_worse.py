"""`-O accuracy` never hands out a form that is worse at a point that people use, nor one that rests on what was not proved."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest

from hnfc.accuracy import ImprovementSettings, account, improve
from hnfc.accuracy.evaluation import TermEvaluator
from hnfc.accuracy.harm import costs, harmed
from hnfc.accuracy.ordinals import bits_of_error
from hnfc.accuracy.points import draw
from hnfc.accuracy.reading import expression
from tests.accuracy.programs import one, rules

SUM3 = "(sqrt (+ (+ (* x x) (* y y)) (* z z)))"
LOG2, LOG3 = "(log (+ (exp x) (exp y)))", "(log (+ (exp x) (+ (exp y) (exp z))))"
SOFTMAX = "(/ (exp x) (+ (exp x) (exp y)))"
ROOT = "(+ (- a b) (sqrt (+ (* (- a b) (- a b)) M)))"
QUOTIENT = "(/ (* x (- (exp (* (+ a b) x)) 1)) (* (- (exp (* a x)) 1) (- (exp (* b x)) 1)))"
POWERS = "(- (pow (+ x eps) 5) (pow x 5))"
POINTS = [
    ("(- (atan (+ x y)) (atan x))", "x y", "", (1.0, 1.0), lambda x, y: mpmath.atan(x + y) - mpmath.atan(x)),
    ("(- (atan (+ x y)) (atan x))", "x y", "", (2.0, 100.0), lambda x, y: mpmath.atan(x + y) - mpmath.atan(x)),
    (LOG2, "x y", "", (500.0, 600.0), lambda x, y: mpmath.log(mpmath.exp(x) + mpmath.exp(y))),
    (LOG2, "x y", "", (1.0, 2.0), lambda x, y: mpmath.log(mpmath.exp(x) + mpmath.exp(y))),
    (LOG3, "x y z", "", (-10.0, 5.0, -1.0), lambda x, y, z: mpmath.log(mpmath.exp(x) + mpmath.exp(y) + mpmath.exp(z))),
    (SOFTMAX, "x y", "", (800.0, 1.0), lambda x, y: mpmath.exp(x) / (mpmath.exp(x) + mpmath.exp(y))),
    (SOFTMAX, "x y", "", (1.0, 2.0), lambda x, y: mpmath.exp(x) / (mpmath.exp(x) + mpmath.exp(y))),
    (SUM3, "x y z", "", (-1e240, -1e155, 1.0), lambda x, y, z: mpmath.sqrt(x * x + y * y + z * z)),
    (SUM3, "x y z", "", (-3.0, -4.0, 12.0), lambda x, y, z: mpmath.sqrt(x * x + y * y + z * z)),
    (ROOT, "a b M", "", (0.0343121, -0.0107311, 2.00447), lambda a, b, M: (a - b) + mpmath.sqrt((a - b) ** 2 + M)),
    (QUOTIENT, "a b x", "", (1.0, 1.0, 1.0), lambda a, b, x: x * mpmath.expm1((a + b) * x) / mpmath.expm1(a * x) / mpmath.expm1(b * x)),
    (POWERS, "x eps", "(and (<= -1e9 x 1e9) (<= -1 eps 1))", (0.25, -0.5), lambda x, e: (x + e) ** 5 - x**5),
    (POWERS, "x eps", "(and (<= -1e9 x 1e9) (<= -1 eps 1))", (2.0, 0.0), lambda x, e: (x + e) ** 5 - x**5),
    ("(+ x (sqrt (- (* x x) (* M M))))", "x M", "", (5.0, 3.0), lambda x, M: x + mpmath.sqrt(x * x - M * M)),
    ("(+ x (sqrt (- (* x x) (* M M))))", "x M", "", (1000.0, 1e-3), lambda x, M: x + mpmath.sqrt(x * x - M * M)),
    ("(* 1/2 (- (exp (/ x c)) (exp (- (/ x c)))))", "x c", "", (600.0, 1.0), lambda x, c: mpmath.sinh(x / c)),
    ("(* 1/2 (- (exp (/ x c)) (/ 1 (exp (/ x c)))))", "x c", "", (500.0, 1.0), lambda x, c: mpmath.sinh(x / c)),
    ("(let ([h (exp (/ x c))]) (* 1/2 (- h (/ 1 h))))", "x c", "", (-400.0, 1.0), lambda x, c: mpmath.sinh(x / c)),
    ("(/ (+ (- b) (sqrt (- (* b b) (* 4 (* a c))))) (* 2 a))", "a b c", "", (1.0, 0.0, 0.0), lambda a, b, c: mpmath.mpf(0)),
    ("(/ (- (sqrt (- (* b b) (* a c))) b) a)", "a b c", "", (0.5, -1.0, 2.0), lambda a, b, c: (mpmath.sqrt(b * b - a * c) - b) / a),
    ("(- (pow (+ x 1) (/ 1 n)) (pow x (/ 1 n)))", "x n", "", (0.0, 2.0), lambda x, n: mpmath.mpf(1)),
    ("(sqrt (+ (* x x) (* y y)))", "x y", "", (3.0, 4.0), lambda x, y: mpmath.sqrt(x * x + y * y)),
    ("(/ (- (exp x) (exp y)) (- x y))", "x y", "", (1.0, 2.0), lambda x, y: (mpmath.exp(x) - mpmath.exp(y)) / (x - y)),
    ("(- (log (+ x y)) (log x))", "x y", "", (2.0, 100.0), lambda x, y: mpmath.log(x + y) - mpmath.log(x)),
    ("(- (sin (+ x y)) (sin x))", "x y", "", (2.0, 100.0), lambda x, y: mpmath.sin(x + y) - mpmath.sin(x)),
    ("(- (sqrt (+ x y)) (sqrt x))", "x y", "", (2.0, 100.0), lambda x, y: mpmath.sqrt(x + y) - mpmath.sqrt(x)),
]


@pytest.fixture(scope="module")
def improved():
    known: dict[tuple[str, str], object] = {}

    def find(text: str, arguments: str, pre: str):
        if (text, pre) not in known:
            known[text, pre] = improve(one(text, arguments, pre), rules())
        return known[text, pre]

    return find


@pytest.mark.sampled(8)
@pytest.mark.parametrize(("text", "arguments", "pre", "point", "real"), POINTS)
def test_no_point_that_was_right_becomes_wrong(improved, text, arguments, pre, point, real):
    found = improved(text, arguments, pre)
    with mpmath.workdps(1000):
        exact = np.array([float(real(*map(mpmath.mpf, point)))])
    evaluator = TermEvaluator({name: np.array([x]) for name, x in zip(arguments.split(), point, strict=True)})
    before, after = evaluator.values(found.original), evaluator.values(found.term)
    old, new = bits_of_error(before, exact)[0], bits_of_error(after, exact)[0]
    if math.isfinite(before[0]):
        assert new <= old + 8, (point, exact, before, after, expression(found.term))
    else:
        assert not math.isfinite(after[0]) or new <= 16, (point, exact, before, after, expression(found.term))


@pytest.mark.sampled(6)
@pytest.mark.parametrize(("text", "arguments", "pre"), list(dict.fromkeys((t, a, p) for t, a, p, *_ in POINTS)))
def test_what_is_used_is_proved_or_was_never_seen_to_fail(improved, text, arguments, pre):
    found = improved(text, arguments, pre)
    for branch in account(found):
        assert branch.series is None or (branch.series.remainder is not None and branch.series.remainder.relative <= 2.0**-44)
        assert all(use.shown or use.seen == use.points for use in branch.uses)
    if found.improved:
        assert found.everyday > 100


def test_series_without_a_proof_are_used_by_an_option():
    program = one("(/ (- 1 (cos (* x y))) (* (* x x) y))", "x y", "(and (< 1e-3 x 2) (< 1e-12 y 1e-9))")
    careful, bold = (improve(program, rules(), ImprovementSettings(unproved=unproved)) for unproved in (False, True))
    assert all(branch.series is None for branch in account(careful))
    assert bold.after <= careful.after


def test_a_wrong_number_is_no_gain_over_none():
    exact = np.array([1.0, 1.0, 1.0, 1.0])
    computed = np.array([np.nan, np.inf, 0.269, 1.0])
    assert costs(computed, exact).tolist() == [64.0, 64.0, 64.0, 0.0]
    assert harmed(np.full(4, np.nan), computed, exact).tolist() == [False, False, True, False]
    assert harmed(np.full(4, 1.0), computed, exact).tolist() == [True, True, True, False]


OUTSIDE = {
    "difference of squares": ("(sqrt (- (* x x) (* y y)))", {"x": 0.005, "y": 0.139}, {"x": 3e200, "y": 1e200}),
    "product under a root": ("(sqrt (* x y))", {"x": -2.0, "y": 3.0}, {"x": 1e-200, "y": 3e-200}),
    "logarithm and back": ("(exp (log x))", {"x": -2.0}, {"x": 1.7}),
    "ratio of logarithms": ("(- (log x) (log y))", {"x": -2.0, "y": -2.0001}, {"x": 2.0, "y": 2.0001}),
}


@pytest.mark.parametrize("name", OUTSIDE)
def test_where_a_program_has_no_value_its_form_has_none(name: str) -> None:
    """sqrt(x² - y²) becomes √|x-y|·√|x+y| where x² is no less than y², and stays NaN elsewhere."""
    text, without, within = OUTSIDE[name]
    found = improve(one(text, " ".join(without)), rules())
    assert found.improved
    points = {key: np.array([without[key], within[key]]) for key in without}
    values = TermEvaluator(points).values(found.term)
    assert np.isnan(values[0]) and np.isfinite(values[1])


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("(/ (* a b) (* c d))", "a b c d"),
        ("(/ (+ (* a c) (* b d)) (+ (* c c) (* d d)))", "a b c d"),
        ("(/ (* x y) z)", "x y z"),
        ("(/ (- (* x x) y) (+ (* x x) y))", "x y"),
    ],
)
def test_no_product_underflows_where_the_program_was_right(text: str, arguments: str) -> None:
    """A finite number without a right digit, at points even over the doubles, is as bad as one that is not finite."""
    found = improve(one(text, arguments), rules())
    fresh = draw(found.original, found.domain, 4000, np.random.default_rng(5))
    before, after = (bits_of_error(TermEvaluator(fresh.inputs).values(term), fresh.exact) for term in (found.original, found.term))
    assert not ((before <= 8) & (after > 16)).any()
