"""Products and sums that overflow or underflow: another form is used there, and the program where it has all of its digits."""

from __future__ import annotations

import numpy as np
import pytest

from hnfc.accuracy import improve
from hnfc.accuracy.evaluation import TermEvaluator
from hnfc.accuracy.leaving import LARGEST, LEAST, border, leaving
from hnfc.accuracy.ordinals import bits_of_error
from hnfc.accuracy.points import draw
from hnfc.accuracy.terms import Terms
from tests.accuracy.programs import one, rules, term

LEAVING = [
    ("(/ (* x (- y z)) (- w z))", "w x y z"),
    ("(/ (* x (+ y z)) z)", "x y z"),
    ("(/ (* x y) (* w z))", "w x y z"),
    ("(/ (+ (* w y) (* x z)) (+ (* y y) (* z z)))", "w x y z"),
    ("(/ (- (* x x) y) (+ (* x x) y))", "x y"),
    ("(sqrt (+ (* x x) y))", "x y"),
    ("(sqrt (+ (* x x) (* 4 (* y y))))", "x y"),
    ("(/ (* (* w x) y) (* z z))", "w x y z"),
    ("(* (* x y) z)", "x y z"),
    ("(* x (sqrt (+ 1 (* (/ y x) (/ y x)))))", "x y"),
]


@pytest.mark.parametrize(("text", "arguments"), LEAVING)
def test_parts_that_leave_the_format_have_another_form(text: str, arguments: str) -> None:
    found = improve(one(text, arguments), rules())
    assert found.before > 5 and found.after < 1.5
    fresh = draw(found.original, found.domain, 3000, np.random.default_rng(77))
    before, after = (bits_of_error(TermEvaluator(fresh.inputs).values(t), fresh.exact) for t in (found.original, found.term))
    assert not ((before <= 8) & (after > 16)).any()


def test_the_parts_are_those_whose_operands_are_plain_numbers() -> None:
    terms = Terms()
    program = term("(+ (* (* x x) y) y)", "x y", terms)
    inputs = {"x": np.array([1e200] * 8), "y": np.array([1e-300] * 8)}
    (size,) = leaving(terms, program, TermEvaluator(inputs), np.full(8, 1e100))
    assert size is terms.make("mul", terms.var("x"), terms.var("x"))


@pytest.mark.parametrize(("threshold", "expected"), [(1e305, LARGEST), (3e-307, LEAST), (1e-315, LEAST), (2.0, 2.0), (1e200, 1e200)])
def test_a_threshold_near_an_end_of_the_format_is_that_end(threshold: float, expected: float) -> None:
    assert border(threshold) == expected
