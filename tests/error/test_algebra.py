"""Simplification changes no value, and the signs and inequalities that it uses hold."""

from __future__ import annotations

import random
from fractions import Fraction

import numpy as np
import pytest

from hnfc.dsl.core import Capture
from hnfc.dsl.error.algebra import Algebra
from hnfc.dsl.error.expression import Writer
from hnfc.dsl.error.floating import evaluate
from hnfc.dsl.error.inequalities import equivalents, forms, from_below, obviously_nonnegative
from hnfc.dsl.error.polynomial import ONE, ErrorAtom, Poly, const, content, expanded, multiplied, of_atom, of_mono, power
from hnfc.dsl.error.rebuilding import meaning, with_exponentials_split, with_sums_expanded
from hnfc.dsl.error.simplifying import divided

NAMES = ("x", "y")
AXES = {"k": (-1,)}
SEEDS = range(60)


def variable(name):
    return of_atom(ErrorAtom("var", (name,), {"k": frozenset({(name, "k")})}, Capture(name)))


def formula(chooser, algebra, depth=3):
    """A random formula over x and y, which vary along k."""
    if depth == 0 or chooser.random() < 0.15:
        return chooser.choice([variable(chooser.choice(NAMES)), const(Fraction(chooser.randint(-3, 3), chooser.choice((1, 1, 2))))])
    one = lambda: formula(chooser, algebra, depth - 1)  # noqa: E731
    shape, like = {"k": frozenset({("x", "k"), ("y", "k")})}, Capture("x")
    match chooser.randint(0, 9):
        case 0:
            return one() + one()
        case 1:
            return one() - one()
        case 2:
            return one() * one()
        case 3:
            return one() * power(ONE + power(one(), 2), -1)
        case 4:
            return algebra.absolute(one())
        case 5:
            return algebra.exp(one().scale(Fraction(1, 4)))
        case 6:
            return algebra.function(chooser.choice(("tanh", "sigmoid", "softplus")), one())
        case 7:
            return algebra.sum(one() * variable("x") * variable("y"), ("k",), shape, like)
        case 8:
            return algebra.extreme(chooser.choice(("max", "min")), one(), ("k",), shape, like)
    return algebra.function("maximum", one(), one())


def values(x, inputs):
    return np.broadcast_to(evaluate(Writer().expression(x), inputs, AXES), (5, 4))


def inputs_of(seed):
    generator = np.random.default_rng(seed)
    return {name: np.round(generator.uniform(-2, 2, (5, 4)), 2) for name in NAMES}


def close(a, b):
    finite = np.isfinite(a) & np.isfinite(b) & (np.abs(a) < 1e9)
    return (np.abs(a - b)[finite] <= 1e-7 * (1 + np.abs(a[finite]))).all()


@pytest.mark.parametrize("seed", SEEDS)
def test_every_form_has_the_same_value(seed):
    algebra = Algebra()
    x = formula(random.Random(seed), algebra)
    inputs = inputs_of(seed)
    want = values(x, inputs)
    c, mono, rest = content(x)
    for found in (
        expanded(x), algebra.tidy(x), *algebra.forms(x), meaning(x, algebra), with_exponentials_split(x, algebra),
        with_sums_expanded(x, algebra), algebra.over_one_denominator(x), multiplied(of_mono(dict(mono), c), rest),
    ):  # fmt: skip
        assert close(want, values(found, inputs))


@pytest.mark.parametrize("seed", SEEDS)
def test_absolute_values_and_signs(seed):
    algebra = Algebra({"y": (Fraction(0), float("inf"))})
    x = formula(random.Random(seed), algebra)
    inputs = inputs_of(seed)
    inputs["y"] = np.abs(inputs["y"])
    want = values(x, inputs)
    assert close(np.abs(want), values(algebra.absolute(x), inputs))
    lo, hi = map(float, algebra.bounds(x))
    finite = want[np.isfinite(want)]
    slack = 1e-9 * (1 + np.abs(finite))
    assert ((finite >= lo - slack) & (finite <= hi + slack)).all()


@pytest.mark.parametrize("seed", SEEDS)
def test_lower_bounds_are_lower(seed):
    algebra = Algebra()
    chooser = random.Random(seed)
    x = algebra.absolute(formula(chooser, algebra)) - algebra.absolute(formula(chooser, algebra))
    inputs = inputs_of(seed)
    want, low = values(x, inputs), values(from_below(x, algebra), inputs)
    finite = np.isfinite(want) & np.isfinite(low) & (np.abs(want) < 1e9)
    assert (low <= want + 1e-7 * (1 + np.abs(want)))[finite].all()
    for form in equivalents(x, algebra):
        # not negative only where x is not
        signs = values(form, inputs)
        assert (want >= -1e-7 * (1 + np.abs(want)))[finite & (signs >= 0)].all()
    if any(obviously_nonnegative(form, algebra) for form in forms(x, algebra)):
        assert (want >= -1e-7 * (1 + np.abs(want)))[finite].all()


def test_division_of_polynomials():
    x, y = variable("x"), variable("y")
    top = multiplied(x + y, multiplied(x - y, x + ONE))
    assert divided(top, x + y) == multiplied(x - y, x + ONE)
    assert divided(top + ONE, x + y) is None
    e = Algebra().exp(x)
    assert divided(multiplied(e + ONE, power(e, -1)), e + ONE) == power(e, -1)


def test_equal_formulas_are_equal_objects():
    algebra = Algebra()
    x, y = variable("x"), variable("y")
    assert x * y == y * x and (x + y).scale(2) == x + y + x + y
    assert algebra.absolute(x) * algebra.absolute(x) == power(x, 2)
    assert algebra.absolute(x) * power(x, -2) == power(algebra.absolute(x), -1)
    assert algebra.absolute(y - x) == algebra.absolute(x - y)
    assert algebra.direction(x) * x == algebra.absolute(x) and algebra.direction(x) * algebra.direction(x) == ONE
    assert algebra.exp(x) * algebra.exp(-x) == ONE
    assert power(power(x, 2), Fraction(1, 2)) == algebra.absolute(x)
    assert power(const(4), Fraction(1, 2)) == const(2)
    assert (x + y) * power(x + y, -1) == ONE


def test_a_sum_of_deviations_from_the_mean_is_zero():
    algebra = Algebra()
    shape, like = {"k": frozenset({("x", "k")})}, Capture("x")
    x = variable("x")
    mean = algebra.sum(x, ("k",), shape, like) * power(algebra.size(("k",), shape, like), -1)
    assert algebra.tidy(algebra.sum(x - mean, ("k",), shape, like)).zero


def test_what_is_known_of_one_capture_is_used():
    algebra = Algebra({"x": (Fraction(0), Fraction(1))})
    x = variable("x")
    assert algebra.absolute(x) == x and algebra.absolute(x - ONE) == ONE - x
    assert obviously_nonnegative(ONE - power(x, 2), algebra)
    assert not obviously_nonnegative(ONE - power(x, 2).scale(2), algebra)
    assert isinstance(algebra.absolute(variable("y")), Poly)
