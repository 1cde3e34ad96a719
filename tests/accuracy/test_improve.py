"""Well-known formulas that lose their digits, and what becomes of them; measured beside an evaluator of the tests' own."""

from __future__ import annotations

import math
import random
import struct

import mpmath
import numpy as np
import pytest

from hnfc.accuracy import ImprovementSettings, NotImproved, account, improve
from hnfc.accuracy.evaluation import TermEvaluator
from hnfc.accuracy.ordinals import bits_of_error
from hnfc.accuracy.points import Domain, draw
from hnfc.accuracy.reading import expression, program_term
from hnfc.accuracy.reference import holds
from hnfc.accuracy.terms import Terms
from hnfc.frontend.fpcore import all_programs
from tests.accuracy.programs import one, rules
from tests.accuracy.test_terms import forms

QUADRATIC = "(/ (- (sqrt (- (* b b) (* 4 (* a c)))) b) (* 2 a))"
KNOWN = [
    ("(- (sqrt (+ x 1)) (sqrt x))", "x", "(> x 1)", 1.0),
    ("(/ (- 1 (cos x)) (* x x))", "x", "", 1.0),
    ("(- (exp x) 1)", "x", "(< -1 x 1)", 0.5),
    ("(/ 1 (- (sqrt (+ x 2)) (sqrt x)))", "x", "(> x 0)", 1.0),
    ("(- (log (+ x 3)) (log x))", "x", "(< 1 x 1e50)", 1.0),
    ("(/ (- (tan x) x) (* x (* x x)))", "x", "(< -0.1 x 0.1)", 1.0),
    ("(- (sin (+ x e)) (sin x))", "x e", "(and (< 1 x 100) (< 1e-20 e 1e-3))", 1.5),
    ("(- (cbrt (+ x 2)) (cbrt x))", "x", "(< 1 x 1e300)", 1.5),
    (QUADRATIC, "a b c", "", 3.0),
    ("(- (/ 1 x) (/ 1 (+ x 2)))", "x", "(> x 1)", 1.0),
]


@pytest.fixture(scope="module")
def improved():
    return {text: improve(one(text, arguments, pre), rules()) for text, arguments, pre, _ in KNOWN}


@pytest.mark.parametrize(("text", "arguments", "pre", "most"), KNOWN)
def test_known_formulas(improved, text, arguments, pre, most):
    found = improved[text]
    assert found.improved and found.before > 10 and found.after < most
    assert len(found.test) == ImprovementSettings().testing


@pytest.mark.parametrize("text", [case[0] for case in KNOWN])
def test_the_text_reads_back_as_what_was_measured(improved, text):
    found = improved[text]
    (again,) = all_programs(found.text)
    terms = Terms()
    made, conditions = program_term(again, terms)
    assert len(conditions) == len(found.domain.conditions)
    there = TermEvaluator(found.test.inputs).values(made)
    here = TermEvaluator(found.test.inputs).values(found.term)
    assert np.array_equal(there, here, equal_nan=True)


def _by_hand(form, names):
    """The value of a form in Python's doubles."""
    if isinstance(form, str):
        return names[form] if form in names else float(mpmath.mpf(eval(form)) if "/" in form else float(form))
    head, *parts = form
    if head == "let*":
        inner = dict(names)
        for name, bound in parts[0]:
            inner[name] = _by_hand(bound, inner)
        return _by_hand(parts[1], inner)
    if head == "if":
        (_, x, y), yes, no = parts
        return _by_hand(yes if _by_hand(x, names) < _by_hand(y, names) else no, names)
    a = [_by_hand(part, names) for part in parts]
    if len(a) == 1:
        return {"-": lambda x: -x, "sqrt": math.sqrt, "cos": math.cos, "sin": math.sin, "fabs": abs}[head](a[0])
    return {"+": a[0] + a[1], "-": a[0] - a[1], "*": a[0] * a[1], "/": a[0] / a[1] if a[1] else math.nan}[head]


@pytest.mark.parametrize(("text", "real", "low"), [
    ("(- (sqrt (+ x 1)) (sqrt x))", lambda x: mpmath.sqrt(x + 1) - mpmath.sqrt(x), 1.0),
    ("(/ (- 1 (cos x)) (* x x))", lambda x: (1 - mpmath.cos(x)) / (x * x), 0.0),
])  # fmt: skip
def test_an_independent_measurement_agrees(improved, text, real, low):
    generator = random.Random(5)
    body = forms(expression(improved[text].term).replace("[", "(").replace("]", ")"))
    worst = []
    with mpmath.workdps(1500):
        while len(worst) < 150:
            (x,) = struct.unpack("d", generator.randbytes(8))
            if math.isfinite(x) and x > low and abs(x) < 1e15:
                exact = float(real(mpmath.mpf(x)))
                if math.isfinite(exact):
                    worst.append(bits_of_error(np.array([_by_hand(body, {"x": x})]), np.array([exact]))[0])
    assert np.mean(worst) < 1.0


@pytest.mark.parametrize("text", [case[0] for case in KNOWN])
def test_conditions_of_rules_hold_where_they_are_used(improved, text):
    found = improved[text]
    for branch in account(found):
        for use in branch.uses:
            if use.step.condition is not None:
                if use.shown:
                    # what intervals show, exact arithmetic at points must not contradict
                    here = {name: x[:200] for name, x in found.test.inputs.items()}
                    assert len(found.branches) > 1 or holds(use.step.condition, here).all()
                else:
                    assert use.seen >= 0.9 * use.points
        if branch.series is not None and len(found.domain.names) > 1:
            assert branch.series.remainder is None and "no bound" in branch.series.text


def test_branches_cover_all_points(improved):
    for found in improved.values():
        assert sum(branch.points for branch in account(found)) == len(found.test)


def test_a_good_program_is_handed_back():
    for text in ("(+ x 1)", "(sqrt x)", "(* x (* x x))", "(if (< x 0) (exp x) 1)"):
        program = one(text)
        found = improve(program, rules())
        assert not found.improved and found.text == program.text and found.after == found.before


def test_the_outcome_is_the_same_in_every_run(improved):
    text, arguments, pre, _ = KNOWN[0]
    assert improve(one(text, arguments, pre), rules()).text == improved[text].text


def test_branches_of_a_program_stay_branches():
    found = improve(one("(if (< x 0) (- (exp x) 1) (- (sqrt (+ x 1)) (sqrt x)))", pre="(< -1 x 1e300)"), rules())
    assert found.improved and found.after < 1


def test_without_rules_there_are_series():
    found = improve(one("(/ (- x (sin x)) (* x (* x x)))", pre="(< -0.5 x 0.5)"), [])
    assert found.improved and found.after < 1
    (series,) = [branch.series for branch in account(found)][:1]
    assert series is not None and series.remainder is not None and series.remainder.relative < 1


@pytest.mark.parametrize(("text", "pre", "reason"), [
    ("(sqrt (- -1 (* x x)))", "", "hardly any point"), ("(+ x 1)", "(< x x)", "hardly any point"),
    ("(! :precision binary32 (+ x 1))", "", "binary64"), ("(+ x INFINITY)", "", "INFINITY"),
])  # fmt: skip
def test_what_cannot_be_measured_says_so(text, pre, reason):
    with pytest.raises(NotImproved, match=reason):
        improve(one(text, pre=pre), rules())


def test_points_meet_the_precondition_and_are_spread_over_the_doubles():
    program = one("(* x y)", "x y", "(and (< 1e-100 x 1e100) (< (* x x) y))")
    terms = Terms()
    made, conditions = program_term(program, terms)
    sample = draw(made, Domain(("x", "y"), tuple(conditions), program.ranges), 500, np.random.default_rng(0))
    x, y = sample.inputs["x"], sample.inputs["y"]
    assert len(sample) == 500 and (x * x < y).all() and np.isfinite(sample.exact).all()
    assert 0.1 < (x < 1e-50).mean() < 0.6
