"""Angles less whole turns: the same function over the reals, and all of its digits for large angles."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hnfc.accuracy import improve
from hnfc.accuracy.arithmetic import TermSimplifier
from hnfc.accuracy.evaluation import TermEvaluator
from hnfc.accuracy.terms import Terms
from hnfc.accuracy.turns import without_turns
from tests.accuracy.programs import one, rules, term
from tests.accuracy.test_steps import same_values

ANGLES = [
    "(* PI x)", "(* (* -2 PI) x)", "(/ (* x PI) 180)", "(* (/ PI 200) (+ x 0.5))", "(* (/ x 180) (- PI))", "(/ (* (* 2 PI) x) y)",
    "(+ (* PI x) (* PI y))", "(/ (* PI (* x y)) 32)", "(* 3 (* PI x))",
]  # fmt: skip
WITHOUT_PI = ["x", "(+ (* PI x) 1)", "(+ x (/ PI 3))", "(* 3.14159265358979 x)", "(* (* PI PI) x)", "(/ x PI)", "(* 0.3 PI)"]


@pytest.mark.parametrize("function", ["sin", "cos", "tan"])
@pytest.mark.parametrize("angle", ANGLES)
def test_each_writing_is_the_same_function(function: str, angle: str) -> None:
    rng = np.random.default_rng(3)
    x = np.concatenate([rng.uniform(-20, 20, 60), 10.0 ** rng.uniform(-20, 20, 40) * rng.choice([-1, 1], 40), [0.1, -0.3, 1e300]])
    terms = Terms()
    tidied = TermSimplifier(terms).all_tidy(term(f"({function} {angle})", "x y", terms))
    before = tidied.args[0] if tidied.op == "neg" else tidied
    found = list(without_turns(TermSimplifier(terms), before))
    assert found
    for after in found:
        assert same_values(before, after, {"x": x, "y": rng.uniform(0.5, 9, len(x))}, None) > 80


@pytest.mark.parametrize("shift", ["(/ PI 2)", "PI", "(* 3 (/ PI 4))", "(- (/ PI 4))", "(* -7 (/ PI 2))", "(* 5 PI)"])
@pytest.mark.parametrize("function", ["sin", "cos", "tan"])
def test_quarter_turns_are_taken_from_sums(function: str, shift: str) -> None:
    terms = Terms()
    before = TermSimplifier(terms).all_tidy(term(f"({function} (+ (* 2 x) {shift}))", "x y", terms))
    before = before.args[0] if before.op == "neg" else before
    found = list(without_turns(TermSimplifier(terms), before))
    assert len(found) == (function == "tan" or "4" not in shift)
    for after in found:
        assert same_values(before, after, {"x": np.linspace(-9, 9, 97), "y": np.ones(97)}, None) > 90


@pytest.mark.parametrize("angle", WITHOUT_PI)
def test_what_is_no_rational_multiple_of_pi_stays(angle: str) -> None:
    terms = Terms()
    before = TermSimplifier(terms).all_tidy(term(f"(sin {angle})", "x", terms))
    assert not list(without_turns(TermSimplifier(terms), before))


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("(sin (* PI x))", "x"),
        ("(cos (/ (* PI x) 180))", "x"),
        ("(* y (tan (* x (/ PI 180))))", "x y"),
        ("(cos (/ (* (* 2 PI) x) y))", "x y"),
        ("(log (tan (+ (/ PI 4) (/ x 2))))", "x"),
        ("(cos (+ x (/ PI 2)))", "x"),
    ],
)
def test_large_angles_keep_their_digits(text: str, arguments: str) -> None:
    found = improve(one(text, arguments), rules())
    assert found.before > 20 and found.after < 1


def test_whole_and_half_turns_are_exact() -> None:
    """Degrees as people write them: sin 180° is 0, and sin 179.9999° has all of its digits."""
    found = improve(one("(sin (* x (/ PI 180)))"), rules())
    x = np.array([0.0, 180.0, -360.0, 720.0, 1e15 * 180, 90.0, 179.9999999, -3600000030.0])
    exact = [0, 0, 0, 0, 0, 1, math.sin(math.radians(180.0 - 179.9999999)), -0.5]
    np.testing.assert_allclose(TermEvaluator({"x": x}).values(found.term), exact, rtol=1e-15, atol=0)
